"""Products of blocks on the MXU: contracted axes, precision, the dtype of the accumulator, and ragged edges."""

import jax.numpy as jnp
from jax import lax

from course_lib.arrays import Array, Num
from course_lib.kernels.common.legal import shown

_PASSES = {lax.Precision.DEFAULT: 1, lax.Precision.HIGH: 3, lax.Precision.HIGHEST: 6}


def sum_dtype(dtype) -> jnp.dtype:
    """Return the dtype in which products of ``dtype`` are summed: int32 for integers, else f32."""
    return jnp.dtype(jnp.int32 if jnp.issubdtype(dtype, jnp.integer) else jnp.float32)


def product_dtype(dtype) -> jnp.dtype:
    """Return the dtype of a product of ``dtype``: int32 for int8, else that of the operands."""
    return jnp.dtype(jnp.int32 if dtype == jnp.int8 else dtype)


def precision_of(op: str, dtype, precision: lax.PrecisionLike) -> lax.Precision | None:
    """Return the precision at which the MXU multiplies f32; None for other dtypes, which it multiplies as they are.

    Raises ValueError, in the name of ``op``, if ``precision`` is not one of the three.
    """
    try:
        level = lax.Precision(precision)
    except (ValueError, TypeError):  # TypeError if it is not hashable
        raise ValueError(
            f"{op}: precision is {shown(precision)}; it may be 'default' (one pass of the MXU), 'high' (three) or "
            "'highest' (six). Try precision='highest'."
        ) from None
    return level if dtype == jnp.float32 else None


def passes(precision: lax.Precision | None) -> int:
    """Return the number of passes that the MXU takes at a precision that ``precision_of`` returned."""
    return _PASSES.get(precision, 1)


def generation_of(dtype) -> int:
    """Return the first TPU generation, of those supported here, whose MXU multiplies ``dtype``."""
    return 5 if dtype == jnp.int8 else 4


def dot(x: Array, y: Array, *, transpose_x=False, transpose_y=False, precision=None) -> Num[Array, "m n"]:
    """Return the product of x (m, k), or (k, m), and y (k, n), or (n, k): blocks or arrays, in the dtype of the sum."""
    axes = ((0 if transpose_x else 1,), (1 if transpose_y else 0,))
    return lax.dot_general(x, y, (axes, ((), ())), precision=precision, preferred_element_type=sum_dtype(x.dtype))


def zero_beyond(block: Num[Array, "rows columns"], axis: int, left: Array | int) -> Num[Array, "rows columns"]:
    """Return ``block`` with zeros from index ``left`` of an axis on, where it reaches past the array into garbage."""
    return jnp.where(lax.broadcasted_iota(jnp.int32, block.shape, axis) < left, block, jnp.zeros_like(block))
