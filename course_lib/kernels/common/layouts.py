"""How XLA lays a matrix out in HBM, and the view of it that costs no copy.

XLA stores the arguments and results of a program with the least padding: row by row in tiles of 8 x 128 elements, or
column by column; if both take as much, row by row. A kernel wants rows. XLA would copy a matrix stored column by
column before the kernel and after it, but its transpose is already there, as a view.

The layout of an array in the middle of a program, behind another kernel, is not known here: if it differs, XLA copies.
"""

import math

from course_lib.arrays import Array


def is_by_columns(shape: tuple[int, ...]) -> bool:
    """Whether XLA stores an array of ``shape`` column by column; False if it is no matrix of known sizes."""

    def padded(rows, columns):  # elements stored by rows, in whole tiles; rows fewer than 5 have tiles of 1, 2 or 4
        height = rows if rows < 3 else 4 if rows < 5 else -(-rows // 8) * 8
        return height * -(-columns // 128) * 128

    known = len(shape) == 2 and all(isinstance(size, int) for size in shape)  # others are symbolic
    return known and padded(*shape[::-1]) < padded(*shape)


def as_rows(x: Array) -> Array:
    """Return ``x`` as a matrix with its last axis as columns."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def as_stored(matrix: Array, transposed: bool) -> tuple[Array, bool]:
    """Return the view of ``matrix`` that XLA stores row by row, and whether that view is transposed."""
    return (matrix.T, not transposed) if is_by_columns(matrix.shape) else (matrix, transposed)
