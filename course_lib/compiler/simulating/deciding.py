"""The values inside a kernel that determine what it does: branches, loop ends, the blocks that an index map names.

A value that only says where in an array something is does not count: the first row takes as long to copy as any other.
"""

from course_lib.grid.following.refs import space_of
from course_lib.grid.jaxprs import bodies, called, is_variable

_STORES = ("swap", "masked_swap", "addupdate")


def deciding(jaxpr, outputs: set) -> set:
    """Return the variables of ``jaxpr`` that decide something in it; ``outputs`` are those that decide outside."""
    found = set(outputs)
    for eqn in reversed(jaxpr.eqns):
        found |= {v for v, decides in zip(eqn.invars, _inputs(eqn, found), strict=True) if decides and is_variable(v)}
    return found


def parts(eqn) -> list[tuple]:
    """Return the jaxprs that an equation runs, with the mapping of their variables.

    Each entry is (jaxpr, its variables, the equation's inputs that they stand for, whether all its outputs decide). If
    not all of them decide, only those do that become deciding outputs of the equation. A sum or sort over an array runs
    none, since its jaxpr is an operation on two numbers.
    """
    name, inputs = eqn.primitive.name, list(eqn.invars)
    if name == "cond":
        return [(branch, list(branch.invars), inputs[1:], False) for branch in eqn.params["branches"]]
    if name == "while":
        consts, more = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        carried = inputs[consts + more :]
        condition, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
        return [
            (condition, list(condition.invars), inputs[:consts] + carried, True),
            (body, list(body.invars), inputs[consts : consts + more] + carried, True),
        ]
    if name == "run_scoped":
        jaxpr = eqn.params["jaxpr"]
        return [(jaxpr, list(jaxpr.constvars), inputs, False)]
    jaxpr = (bodies(eqn) or [None])[0] if name == "scan" else called(eqn)
    if jaxpr is None or len(jaxpr.invars) != len(inputs):
        return []
    return [(jaxpr, list(jaxpr.invars), inputs, name == "scan")]


def inner_outputs(eqn, jaxpr, all_of_them: bool, found: set) -> set:
    """Return the outputs of an equation's jaxpr that decide something; ``found``: the deciding variables outside."""
    if all_of_them:
        return {v for v in jaxpr.outvars if is_variable(v)}
    pairs = zip(jaxpr.outvars, eqn.outvars, strict=True)
    return {inner for inner, outer in pairs if is_variable(inner) and outer in found}


def _inputs(eqn, found: set) -> list[bool]:
    """Return for each input of an equation whether it decides something."""
    inner = parts(eqn)
    if inner:
        decides = {v for part in inner for v in _from_inside(eqn, *part, found)}
        flags = [is_variable(v) and v in decides for v in eqn.invars]
        return [True, *flags[1:]] if eqn.primitive.name == "cond" else flags
    if eqn.primitive.name in _STORES:
        kept = space_of(eqn.invars[0].aval) == "smem"  # it may be read later
        return [kept and _is_scalar(v) for v in eqn.invars]
    made = any(v in found for v in eqn.outvars)
    return [made and _is_scalar(v) for v in eqn.invars]


def _from_inside(eqn, jaxpr, variables: list, inputs: list, all_of_them: bool, found: set) -> set:
    inside = deciding(jaxpr, inner_outputs(eqn, jaxpr, all_of_them, found))
    pairs = zip(variables, inputs, strict=True)
    return {outer for inner, outer in pairs if is_variable(outer) and inner in inside}


def _is_scalar(v) -> bool:
    return getattr(v.aval, "shape", None) == () and not hasattr(v.aval, "inner_aval")
