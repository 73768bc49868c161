"""The layout of an array in HBM, and the bytes that a copy of a part of it moves: whole tiles, never single elements.

XLA stores the last two axes of an array in tiles of rows x 128 lanes and pads them to whole tiles; it never pads the
axes before them. The rule comes from the layouts and copies in programs that libtpu 0.0.48 compiles for a v5e;
tests/test_tiles_against_compiler.py checks it again.
"""

import math
from collections.abc import Sequence

import jax
import numpy as np

LANES = 128
REGISTER_BYTES = 4096  # of a vector register: 8 x 128 elements of 32 bits
_ROWS = 8
_WORD = 4  # bytes: narrower elements of neighbouring rows share a word


def tile(shape: Sequence[int], dtype) -> tuple[int, ...]:
    """Return the elements of a tile along each axis of an array; 1 along the axes before the last two.

    A tile has 8 rows, or 1, 2 or 4 if the array has no more; but at least 2 of bf16, 4 of int8 and 8 of int4, since
    those share words of 4 bytes. An int8 array whose rows are a multiple of 32 has tiles of 32 rows, and an int4 array
    whose rows are a multiple of 64 has tiles of 64. An array of one axis is copied in pieces of 128 words.
    """
    packed = rows_in_a_word(dtype)
    if len(shape) < 2:
        return (LANES * packed,) * len(shape)
    return (*[1] * (len(shape) - 2), _tile_rows(shape[-2], packed), LANES)


def rows_in_a_word(dtype) -> int:
    """Return how many rows a word of 4 bytes holds: 1 of f32, 2 of bf16, 4 of int8, 8 of int4."""
    return max(1, 8 * _WORD // bits(dtype))


def bits(dtype) -> int:
    """Return the bits that an element takes in HBM and VMEM: 4 of int4, for which NumPy says a whole byte."""
    return jax.dtypes.itemsize_bits(np.dtype(dtype))


def _tile_rows(rows: int, packed: int) -> int:
    if packed >= _WORD and rows % (_ROWS * packed) == 0:
        return _ROWS * packed
    return max(packed, _ROWS if rows > _ROWS // 2 else 1 << max(rows - 1, 0).bit_length())


def stored_bytes(shape: Sequence[int], dtype) -> int:
    """Return the bytes that an array takes in HBM, with its padding."""
    whole = (_up(n, t) for n, t in zip(shape, tile(shape, dtype), strict=True))
    return math.prod(whole) * bits(dtype) // 8


def registers(shape: Sequence[int], dtype) -> int:
    """Return the vector registers that an array of at least two axes occupies, whole or in part.

    Each matrix of the last two axes is stored in tiles, and starts in a register of its own.
    """
    one = stored_bytes(shape[-2:], dtype)
    return math.prod(shape[:-2]) * -(-one // REGISTER_BYTES)


def moved_bytes(
    shape: Sequence[int],
    dtype,
    starts: np.ndarray,
    sizes: Sequence[int],
    *,
    by_hand: bool = False,
    clipped: Sequence[bool] | bool = True,
) -> np.ndarray:
    """Return the bytes that copies of ``sizes`` elements from ``starts`` (int64[n, rank]) move, int64[n].

    A block that extends past the array moves the tiles that exist, with the padding of the last one. Along an axis that
    is not ``clipped``, everything requested is moved, even past the end: this is how libtpu copies the windows of a
    ``pl.Element`` that has no padding. A copy that a kernel makes ``by_hand`` moves the rows it names, in whole words.
    The padding of the last tile is moved too if those rows are the array's last and are not contiguous in HBM (f32 of
    up to 128 columns is contiguous).
    """
    ends = starts + np.array(sizes, np.int64)
    first, end = np.maximum(starts, 0), np.where(clipped, np.minimum(ends, np.array(shape, np.int64)), ends)
    unit = np.array(tile(shape, dtype), np.int64)
    if by_hand and len(shape) > 1:
        words, one_behind_another = rows_in_a_word(dtype), shape[-1] <= LANES and rows_in_a_word(dtype) == 1
        last = (end[:, -2] == shape[-2]) & (not one_behind_another)
        unit = np.where((np.arange(len(shape)) == len(shape) - 2) & ~last[:, None], words, unit)
    tiles = np.where(end > first, -(-end // unit) - first // unit, 0)
    return (tiles * unit).prod(axis=1) * bits(dtype) // 8


def _up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple
