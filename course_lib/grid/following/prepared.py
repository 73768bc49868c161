"""A jaxpr prepared for repeated following: its equations are classified once, and dead ones are removed."""

import dataclasses
import functools
from collections.abc import Callable

import jax.extend.core

from course_lib.grid.following import scalars
from course_lib.grid.jaxprs import called, is_variable

PROMISE = "multiple_of"  # pl.multiple_of returns its argument, and the follower checks the claim


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """One equation. At most one of ``scalar`` and ``inner`` is set."""

    eqn: jax.extend.core.JaxprEqn
    name: str  # of the primitive
    atoms: tuple  # per input (variable, None) or (None, constant)
    scalar: Callable | None  # the operation, if it works on scalars
    inner: object | None  # the jaxpr it enters, if it is a call
    on_arrays: bool  # whether any input or output is an array


@functools.lru_cache(maxsize=1024)
def prepared(jaxpr) -> tuple[Prepared, ...]:
    """Return the equations of ``jaxpr`` in order, without unused scalar operations and branches that do nothing."""
    live, steps = {v for v in jaxpr.outvars if is_variable(v)}, []
    for eqn in reversed(jaxpr.eqns):
        step = _step(eqn)
        if (step.scalar or step.name == PROMISE or _does_nothing(eqn)) and not live & set(eqn.outvars):
            continue
        live |= {v for v in eqn.invars if is_variable(v)}
        steps.append(step)
    return tuple(reversed(steps))


def _step(eqn) -> Prepared:
    return Prepared(
        eqn=eqn,
        name=eqn.primitive.name,
        atoms=tuple((v, None) if is_variable(v) else (None, scalars.plain(v.val)) for v in eqn.invars),
        scalar=scalars.operation(eqn) if eqn.primitive.name != PROMISE else None,
        inner=called(eqn),
        on_arrays=any(getattr(v.aval, "shape", ()) for v in (*eqn.invars, *eqn.outvars)),
    )


def _does_nothing(eqn) -> bool:
    return eqn.primitive.name == "cond" and not any(branch.eqns for branch in eqn.params["branches"])
