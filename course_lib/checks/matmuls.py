"""The matmuls of a traced function, including those inside its kernels."""

from collections.abc import Callable, Iterator

import jax


def dots(fn: Callable, *args) -> Iterator:
    """Yield every dot_general of ``fn``, including those inside its kernels."""
    yield from dots_in(jax.make_jaxpr(fn)(*args).jaxpr)


def dots_in(jaxpr) -> Iterator:
    """Yield every dot_general of a jaxpr, including those of the jaxprs in its operations."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "dot_general":
            yield eqn
        for inner in jax.tree.leaves(eqn.params, is_leaf=lambda v: hasattr(v, "eqns") or hasattr(v, "jaxpr")):
            if hasattr(inner, "eqns") or hasattr(inner, "jaxpr"):
                yield from dots_in(getattr(inner, "jaxpr", inner))
