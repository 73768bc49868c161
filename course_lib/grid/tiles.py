"""How an array lies in HBM, and what a copy of a part of it moves: whole tiles, never single elements.

XLA stores the last two axes of an array in tiles of rows x 128 lanes, and pads them to whole tiles; the axes before
are never padded. The rule is read off the layouts and the copies of programs that libtpu 0.0.48 compiles for a v5e;
tests/test_tiles_against_compiler.py asks it again.
"""

import math
from collections.abc import Sequence

import numpy as np

LANES = 128
REGISTER_BYTES = 4096  # of a vector register: 8 x 128 numbers of 32 bits
_ROWS = 8
_WORD = 4  # bytes: narrower numbers of neighbouring rows share a word


def tile(shape: Sequence[int], dtype) -> tuple[int, ...]:
    """Elements of a tile along each axis of an array; 1 along the axes before the last two.

    A tile has 8 rows, and fewer, 1, 2 or 4, where the array has no more; but at least 2 of bf16 and 4 of int8, which
    lie together in words of 4 bytes. Of int8 with a multiple of 32 rows it has 32. An array of one axis is copied in
    pieces of 128 words.
    """
    packed = rows_in_a_word(dtype)
    if len(shape) < 2:
        return (LANES * packed,) * len(shape)
    return (*[1] * (len(shape) - 2), _tile_rows(shape[-2], packed), LANES)


def rows_in_a_word(dtype) -> int:
    """How many rows a word of 4 bytes holds: 1 of f32, 2 of bf16, 4 of int8."""
    return max(1, _WORD // np.dtype(dtype).itemsize)


def _tile_rows(rows: int, packed: int) -> int:
    if packed == _WORD and rows % (_ROWS * packed) == 0:
        return _ROWS * packed
    return max(packed, _ROWS if rows > _ROWS // 2 else 1 << max(rows - 1, 0).bit_length())


def stored_bytes(shape: Sequence[int], dtype) -> int:
    """Bytes that an array takes in HBM, with its padding."""
    whole = (_up(n, t) for n, t in zip(shape, tile(shape, dtype), strict=True))
    return math.prod(whole) * np.dtype(dtype).itemsize


def registers(shape: Sequence[int], dtype) -> int:
    """Vector registers that an array of at least two axes fills, or begins to fill.

    What lies at one place of the axes before the last two is stored in tiles, and begins a register of its own.
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
    """int64[n]: bytes moved by copies of parts that start at ``starts`` (int64[n, rank]) and have ``sizes``.

    A block that reaches beyond the array moves the tiles that exist, with the padding of the last one. Along an axis
    that is not ``clipped`` all is moved that is asked for, also what lies beyond: so libtpu copies the windows of a
    ``pl.Element`` without padding. A copy that a kernel makes ``by_hand`` moves the rows that it names, in whole words;
    the padding of the last tile goes with them where they are the array's last and do not lie one behind another (f32
    of up to 128 columns).
    """
    ends = starts + np.array(sizes, np.int64)
    first, end = np.maximum(starts, 0), np.where(clipped, np.minimum(ends, np.array(shape, np.int64)), ends)
    unit = np.array(tile(shape, dtype), np.int64)
    if by_hand and len(shape) > 1:
        words, one_behind_another = rows_in_a_word(dtype), shape[-1] <= LANES and rows_in_a_word(dtype) == 1
        last = (end[:, -2] == shape[-2]) & (not one_behind_another)
        unit = np.where((np.arange(len(shape)) == len(shape) - 2) & ~last[:, None], words, unit)
    tiles = np.where(end > first, -(-end // unit) - first // unit, 0)
    return (tiles * unit).prod(axis=1) * np.dtype(dtype).itemsize


def _up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple
