"""Patterns and values made from masks and dense matrices, and back; and what makes a pattern valid."""

import numbers

import jax
import jax.numpy as jnp
import numpy as np

from course_lib.arrays import Array, Bool, Num
from course_lib.kernels.block_sparse.pattern import Pattern, dense_of, in_blocks
from course_lib.kernels.common import arguments
from course_lib.kernels.common.legal import shown


def from_mask(mask: Bool[Array, "R C"] | np.ndarray | list, *, size: int | None = None) -> Pattern:
    """Return the pattern that keeps the blocks where ``mask`` is true, row by row.

    ``size`` is the length of the list, with surplus entries at its end; None: one entry for each block. Under
    ``jax.jit`` the mask is unknown, so ``size`` must be given, and blocks past it are dropped.
    Raises TypeError if the mask is no array of numbers; ValueError if it does not have two axes, or ``size`` is
    missing, too small or no whole number.
    """
    mask = _array_of(mask)
    if mask.ndim != 2:
        raise ValueError(
            f"from_mask: mask is {shown(mask)}; it must have two axes, rows and columns of blocks. "
            "Try a mask with one entry for each block, not for each number."
        )
    if size is not None and not _is_count(size):
        raise ValueError(f"from_mask: size is {shown(size)}; it may be a whole number, 0 or more, or None. Try None.")
    shape = mask.shape
    if isinstance(mask, jax.core.Tracer):
        if size is None:
            raise ValueError(
                "from_mask: under jax.jit nobody knows how many blocks mask keeps, and a list has a length. "
                "Try size=..., the most there may be, or make the pattern outside."
            )
        rows, cols = jnp.nonzero(mask, size=size, fill_value=(shape[0], 0))
        return Pattern(rows.astype(jnp.int32), cols.astype(jnp.int32), shape)
    rows, cols = np.nonzero(mask)
    size = len(rows) if size is None else size
    if size < len(rows):
        raise ValueError(
            f"from_mask: size is {size}, and mask keeps {len(rows)} blocks; it may be that or more. Try size=None."
        )
    surplus = (0, size - len(rows))
    rows, cols = np.pad(rows, surplus, constant_values=shape[0]), np.pad(cols, surplus)
    return Pattern(jnp.asarray(rows, jnp.int32), jnp.asarray(cols, jnp.int32), shape)


def _array_of(mask) -> Array | np.ndarray:
    """Return a mask as an array. Raises TypeError if it is not one of numbers."""
    if isinstance(mask, jax.core.Tracer):
        return mask
    try:
        array = np.asarray(mask)
    except ValueError:  # rows of several lengths
        array = np.asarray(None)
    if array.dtype.kind not in "biuf" and array.dtype != jnp.bfloat16:
        raise TypeError(
            f"from_mask: mask is {shown(mask)}; it must be an array of True and False, or of numbers, with rows of one "
            "length. Try np.asarray(mask, bool)."
        )
    return array


def _is_count(value, least: int = 0) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and value >= least


def from_dense(x: Num[Array, "M K"], block: tuple[int, int]) -> tuple[Num[Array, "Z h w"], Pattern]:
    """Return the blocks of ``x`` that are not all zero, of shape ``block``, and where they lie. Not under ``jax.jit``.

    Raises ValueError if blocks do not divide the matrix.
    """
    (x,) = arguments.arrays("from_dense", arguments.FLOATS, x=x)
    if not isinstance(block, tuple | list) or len(block) != 2 or not all(_is_count(size, 1) for size in block):
        raise ValueError(
            f"from_dense: block is {shown(block)}; it must be (h, w), how many rows and columns a block has, "
            "each 1 or more. Try (128, 128)."
        )
    if isinstance(x, jax.core.Tracer):
        raise ValueError(
            "from_dense: under jax.jit nobody knows which blocks of x are zero, and how many others there are. Make "
            "values and pattern outside and hand them over, or take the blocks of a known pattern: "
            "block_sparse.in_blocks(x, pattern.shape)[pattern.rows, pattern.cols]."
        )
    if x.ndim != 2 or x.size == 0 or x.shape[0] % block[0] or x.shape[1] % block[1]:
        raise ValueError(
            f"from_dense: x has shape {x.shape}, and block is {block}; x must be a matrix which such blocks divide, "
            "one of them or more. Try jnp.pad."
        )
    blocks = in_blocks(x, (x.shape[0] // block[0], x.shape[1] // block[1]))
    pattern = from_mask(jnp.any(blocks != 0, axis=(2, 3)))
    return blocks[pattern.rows, pattern.cols], pattern


def to_dense(values: Num[Array, "Z h w"], pattern: Pattern) -> Num[Array, "M K"]:
    """Return the whole matrix, with zeros where there is no block.

    Raises TypeError for what is no array or no pattern, and ValueError unless there is one block for each place.
    """
    rows, cols = check("to_dense", pattern)
    (values,) = arguments.arrays("to_dense", arguments.FLOATS, values=values)
    if values.ndim != 3 or values.shape[:1] != rows.shape:
        raise ValueError(
            f"to_dense: values has shape {values.shape}, and pattern {rows.shape[0]} entries; values must be "
            f"{(*rows.shape, 'h', 'w')}. ".replace("'", "")
            + "Try block_sparse.from_dense(A, (h, w))."
        )
    return dense_of(values, Pattern(rows, cols, pattern.shape))


def check(op: str, pattern: Pattern) -> tuple[Array, Array]:
    """Return the lists of a pattern. Raises TypeError or ValueError, in the name of ``op``, if it is not valid."""
    if not isinstance(pattern, Pattern):
        raise TypeError(
            f"{op}: pattern is {shown(pattern)}; it must be a block_sparse.Pattern. "
            "Try block_sparse.from_mask(mask), of a mask with one entry for each block."
        )
    shape = pattern.shape
    if not isinstance(shape, tuple) or len(shape) != 2 or not all(map(_is_count, shape)):
        raise ValueError(
            f"{op}: pattern.shape is {shown(shape)}; it must be (R, C), how many rows and columns of blocks there are. "
            "Try block_sparse.from_mask(mask)."
        )
    lists = {"pattern.rows": pattern.rows, "pattern.cols": pattern.cols}
    rows, cols = (_indices(op, name, value) for name, value in lists.items())
    if rows.ndim != 1 or rows.shape != cols.shape:
        raise ValueError(
            f"{op}: pattern.rows has shape {rows.shape} and pattern.cols {cols.shape}; each must have one axis, and "
            "both one length, that of values. Try block_sparse.from_mask(mask)."
        )
    return rows, cols


def _indices(op: str, name: str, value) -> Array:
    (array,) = arguments.arrays(op, ("int32",), **{name: value})
    return array
