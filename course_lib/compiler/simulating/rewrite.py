"""Change equations of a traced function, wherever in it they stand."""

from collections.abc import Callable

import jax.extend.core
from jax._src.frozen_dict import FrozenDict

from course_lib import grid
from course_lib.compiler.dumps import hlo
from course_lib.grid.jaxprs import map_inside


def equations(jaxpr, change: Callable):
    """``jaxpr`` with every equation replaced by ``change(eqn)``; where that is None, the change is made inside it."""

    def changed(eqn):
        return change(eqn) or map_inside(eqn, lambda inner: equations(inner, change))

    return jaxpr.replace(eqns=list(map(changed, jaxpr.eqns)))


def kernels(jaxpr: jax.extend.core.ClosedJaxpr, change: Callable) -> jax.extend.core.ClosedJaxpr:
    """The function with each kernel call replaced by ``change(number, eqn)``; they are numbered in order."""
    numbers = {id(eqn): number for number, eqn in enumerate(grid.pallas_calls(jaxpr))}
    return equations(jaxpr, lambda eqn: change(numbers[id(eqn)], eqn) if id(eqn) in numbers else None)


def numbered(jaxpr: jax.extend.core.ClosedJaxpr) -> jax.extend.core.ClosedJaxpr:
    """The function with its kernel calls numbered in their metadata, which XLA's module repeats."""

    def number(n: int, eqn):
        metadata = FrozenDict(dict(eqn.params.get("metadata") or {}) | {hlo.TAG: str(n)})
        return eqn.replace(params=eqn.params | {"metadata": metadata})

    return kernels(jaxpr, number)
