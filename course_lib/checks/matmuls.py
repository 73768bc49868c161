"""The matmuls of a traced function, including those inside its kernels."""

from collections.abc import Callable, Iterator

import jax

from course_lib.grid import jaxprs


def dots(fn: Callable, *args) -> Iterator:
    """Yield every dot_general of ``fn``, including those inside its kernels."""
    yield from dots_in(jax.make_jaxpr(fn)(*args).jaxpr)


def dots_in(jaxpr) -> Iterator:
    """Yield every dot_general of a jaxpr, including those of the jaxprs in its operations."""
    yield from (eqn for eqn in jaxprs.equations(jaxpr, closed=()) if eqn.primitive.name == "dot_general")
