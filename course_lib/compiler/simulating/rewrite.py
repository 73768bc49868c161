"""Changes to the equations of a traced function, at any depth."""

from collections.abc import Callable

import jax.extend.core
from jax._src.frozen_dict import FrozenDict

from course_lib import grid
from course_lib.compiler.dumps import hlo
from course_lib.grid.jaxprs import map_inside


def equations(jaxpr, change: Callable):
    """Replace every equation of ``jaxpr`` by ``change(eqn)``; if that is None, change the jaxprs inside it."""

    def changed(eqn):
        return change(eqn) or map_inside(eqn, lambda inner: equations(inner, change))

    return jaxpr.replace(eqns=list(map(changed, jaxpr.eqns)))


def kernels(jaxpr: jax.extend.core.ClosedJaxpr, change: Callable) -> jax.extend.core.ClosedJaxpr:
    """Replace each kernel call of the function by ``change(number, eqn)``; the calls are numbered in order."""
    numbers = {id(eqn): number for number, eqn in enumerate(grid.pallas_calls(jaxpr))}
    return equations(jaxpr, lambda eqn: change(numbers[id(eqn)], eqn) if id(eqn) in numbers else None)


def numbered(jaxpr: jax.extend.core.ClosedJaxpr) -> jax.extend.core.ClosedJaxpr:
    """Number the kernel calls of the function in their metadata, which XLA's module repeats."""

    def number(n: int, eqn):
        metadata = FrozenDict(dict(eqn.params.get("metadata") or {}) | {hlo.TAG: str(n)})
        return eqn.replace(params=eqn.params | {"metadata": metadata})

    return kernels(jaxpr, number)
