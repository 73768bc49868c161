"""Where the arrays of a traced function come from, outside its kernels: constants, integers that steer, or values."""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp

from course_lib.grid import jaxprs

# The larger wins where several meet.
CONSTANTS, STEERING, VALUES = range(3)
_FEW = 2  # constants side by side, as padding on both sides: more of them are a table


class Source(NamedTuple):
    """What an array comes from, and whether it holds a table: an iota, or constants that differ."""

    level: int = CONSTANTS
    table: bool = False


def of_arguments(variables: Sequence) -> list[Source]:
    """Return the sources of a function's arguments: integers of 32 bits steer, and all others are values."""
    return [Source(STEERING if jnp.dtype(v.aval.dtype).name in ("int32", "uint32") else VALUES) for v in variables]


def of_variables(jaxpr, arguments: list[Source]) -> dict:
    """Return the source of each variable of a jaxpr."""
    known = dict(zip(jaxpr.invars, arguments, strict=True))
    known |= {v: Source(table=v.aval.size > 1) for v in jaxpr.constvars}
    for eqn in jaxpr.eqns:
        known |= zip(eqn.outvars, _results(eqn, given(eqn, known)), strict=True)
    return known


def given(eqn, known: dict) -> list[Source]:
    """Return the sources of an equation's inputs."""
    return [known[v] if jaxprs.is_variable(v) else Source() for v in eqn.invars]


def entered(eqn, inputs: list[Source]) -> list[tuple]:
    """Return (jaxpr, sources of its inputs) for each jaxpr of a loop or condition, in whatever iteration; else []."""
    name, params = eqn.primitive.name, eqn.params
    if name == "cond":
        return [(branch, inputs[1:]) for branch in params["branches"]]
    if name == "scan":
        consts, carry, xs = jaxprs.scan_parts(eqn, inputs)
        carry = _carried(carry, lambda carry: _outputs(params["jaxpr"], [*consts, *carry, *xs])[: len(carry)])
        return [(params["jaxpr"], [*consts, *carry, *xs])]
    if name == "while":
        of_cond, of_body, carry = jaxprs.while_parts(eqn, inputs)

        def turn(carry):
            (goes_on,) = _outputs(params["cond_jaxpr"], [*of_cond, *carry])
            return [_after(goes_on, out) for out in _outputs(params["body_jaxpr"], [*of_body, *carry])]

        carry = _carried(carry, turn)
        return [(params["cond_jaxpr"], [*of_cond, *carry]), (params["body_jaxpr"], [*of_body, *carry])]
    return []


def _carried(carry: list[Source], turn) -> list[Source]:
    """Return the sources of the value that a loop carries, after any number of iterations."""
    while (raised := [_joined([old, new]) for old, new in zip(carry, turn(carry), strict=True)]) != carry:
        carry = raised
    return carry


def _results(eqn, inputs: list[Source]) -> list[Source]:
    name = eqn.primitive.name
    if name == "while":
        _, (_, into_body) = entered(eqn, inputs)
        return into_body[eqn.params["body_nconsts"] :]
    if bodies := entered(eqn, inputs):
        each = [_outputs(jaxpr, sources) for jaxpr, sources in bodies]
        results = [_joined(list(outs)) for outs in zip(*each, strict=True)]
        return [_after(inputs[0], out) for out in results] if name == "cond" else results
    inner = jaxprs.called(eqn)
    if name not in jaxprs.KERNELS and inner is not None and len(inner.outvars) == len(eqn.outvars):
        return _outputs(inner, inputs)
    joined = _joined(inputs)
    if name in jaxprs.KERNELS:
        joined = Source(joined.level)
    elif name == "iota" or (name in ("concatenate", "stack") and sum(s.level == CONSTANTS for s in inputs) > _FEW):
        joined = Source(joined.level, table=True)
    return [joined] * len(eqn.outvars)


def _outputs(jaxpr, inputs: list[Source]) -> list[Source]:
    known = of_variables(jaxpr, inputs)
    return [known[v] if jaxprs.is_variable(v) else Source() for v in jaxpr.outvars]


def _joined(sources: list[Source]) -> Source:
    return Source(max((s.level for s in sources), default=CONSTANTS), any(s.table for s in sources))


def _after(decides: Source, result: Source) -> Source:
    """Return the source of a result that ``decides`` has chosen."""
    return Source(max(decides.level, result.level), result.table)
