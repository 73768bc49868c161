"""Change equations of a traced function, wherever in it they stand."""

from collections.abc import Callable

import jax.extend.core
from jax._src.frozen_dict import FrozenDict

from course_lib import grid
from course_lib.compiler.dumps import hlo


def equations(jaxpr, change: Callable):
    """``jaxpr`` with every equation replaced by ``change(eqn)``; where that is None, the change is made inside it."""
    return jaxpr.replace(eqns=[change(eqn) or _inside(eqn, change) for eqn in jaxpr.eqns])


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


def _inside(eqn, change: Callable):
    if not any(True for _ in grid.sub_jaxprs(eqn)):
        return eqn
    return eqn.replace(params={name: _value(value, change) for name, value in eqn.params.items()})


def _value(value, change: Callable):
    if type(value) in (tuple, list):
        return type(value)(_value(item, change) for item in value)
    return equations(value, change) if hasattr(value, "eqns") else value
