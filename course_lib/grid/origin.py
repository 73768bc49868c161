"""Where kernels' outputs go: which kernel makes an output of a function, and which outputs of kernels nobody reads."""

from course_lib.grid.call import Call, Operand, Walk
from course_lib.grid.jaxprs import KERNELS, called, equations, inside, is_variable, pallas_calls

_KEEPS = {"reshape", "squeeze", "expand_dims", "convert_element_type", "slice", "copy"}


def made_by(walk: Walk, number: int) -> tuple[Call, Operand] | None:
    """Return the kernel that makes output ``number`` of a function, and its operand; None if arithmetic follows."""
    kernels, jaxpr = list(pallas_calls(walk.jaxpr.jaxpr)), walk.jaxpr.jaxpr
    if len(kernels) != len(walk.calls) or number >= len(jaxpr.outvars):
        return None
    origin = _origin(jaxpr, jaxpr.outvars[number])
    places = [n for n, eqn in enumerate(kernels) if isinstance(origin, tuple) and eqn is origin[0]]
    if len(places) != 1:  # no kernel, or a function that is called twice
        return None
    call = walk.calls[places[0]]
    return (call, call.outputs[origin[1]]) if origin[1] < len(call.outputs) else None


def unread(walk: Walk) -> list[Operand]:
    """Return the outputs of kernels that no operation uses and the function does not return; [] if that is uncertain.

    Some kernels keep in such an output what others keep in scratch.
    """
    kernels, whole = list(pallas_calls(walk.jaxpr.jaxpr)), walk.jaxpr.jaxpr
    if len(kernels) != len(walk.calls):
        return []
    inner = [j for eqn in equations(whole) if eqn.primitive.name not in KERNELS for j in inside(eqn)]
    jaxprs = [getattr(jaxpr, "jaxpr", jaxpr) for jaxpr in (whole, *inner)]
    used = {v for j in jaxprs for vs in (j.outvars, *(eqn.invars for eqn in j.eqns)) for v in vs if is_variable(v)}
    return [
        output
        for call, eqn in zip(walk.calls, kernels, strict=True)
        for output, variable in zip(call.outputs, eqn.outvars, strict=False)
        if variable not in used
    ]


def _origin(jaxpr, variable):
    """Return (kernel equation, output number), the input of ``jaxpr`` that ``variable`` comes from, or None."""
    makers = {v: (eqn, n) for eqn in jaxpr.eqns for n, v in enumerate(eqn.outvars)}
    while is_variable(variable) and variable in makers:
        eqn, place = makers[variable]
        if eqn.primitive.name in KERNELS:
            return eqn, place
        if eqn.primitive.name in _KEEPS:
            variable = eqn.invars[0]
            continue
        if (inner := called(eqn)) is None or eqn.primitive.name == "scan":
            return None
        inner = getattr(inner, "jaxpr", inner)
        found = _origin(inner, inner.outvars[place])
        if found is None or isinstance(found, tuple):
            return found
        variable = eqn.invars[inner.invars.index(found)]
    return variable if is_variable(variable) and variable in jaxpr.invars else None
