"""What every judge begins with: arguments that are arrays, and the walk over the function's kernels."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import grid


def arrays(args: tuple) -> tuple:
    """The arguments with every number and NumPy array in them as JAX makes it: float64 becomes float32, say.

    Raises ValueError for what is no array.
    """

    def as_array(leaf):
        if isinstance(leaf, (jax.Array, jax.ShapeDtypeStruct)):
            return leaf
        try:
            return jnp.asarray(leaf)
        except (TypeError, ValueError):
            raise ValueError(f"{leaf!r:.60} is among the arguments; the judges take arrays and numbers.") from None

    return jax.tree.map(as_array, args)


def returned(reference: Callable, args: tuple):
    """What the reference returns, as NumPy arrays of JAX's dtypes. Raises ValueError where it does not run."""
    try:
        result = reference(*args)
        return jax.tree.map(lambda leaf: np.asarray(jnp.asarray(leaf)), result)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise ValueError(f"the reference cannot be run with these arguments. {said}") from error


def walked(fn: Callable, *args) -> grid.Walk:
    """``grid.walk(fn, *args)``; with no calls in it where a grid depends on what only a run can tell.

    A kernel can be run and compared all the same: only the sentences about its blocks are lost. Raises what tracing
    ``fn`` raises.
    """
    try:
        return grid.walk(fn, *args)
    except grid.UnreadableCall as error:
        if "is negative" in str(error) or "too many" in str(error):  # of a grid: nobody can run that
            raise
        jaxpr, result = grid.trace_with_result(fn, *args, chip="v5e")
        return grid.Walk(calls=(), jaxpr=jaxpr, result=result)
