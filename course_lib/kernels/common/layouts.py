"""How XLA lays a matrix out in HBM, and the view of it that costs no copy.

XLA stores what a program is given or returns with the least padding: by rows of tiles of 8 x 128 numbers, or by columns
of them, and by rows where both are equal. A kernel wants rows. A matrix that is stored column by column
XLA would copy in front of the kernel and behind it; its transpose lies there already, and is a view.

How an array lies in the middle of a program, behind another kernel, is not known here: if otherwise, XLA copies it.
"""

from course_lib.arrays import Array
from course_lib.kernels.common.legal import LANES, SUBLANES
from course_lib.kernels.common.symbolic import is_known


def is_by_columns(shape: tuple[int, ...]) -> bool:
    """Whether XLA stores an array of ``shape`` column by column; for other than matrices of known sizes False."""
    if len(shape) != 2 or not all(map(is_known, shape)):
        return False
    rows, columns = shape
    return padded(columns, rows) < padded(rows, columns)


def as_stored(matrix: Array, transposed: bool) -> tuple[Array, bool]:
    """Return the view of ``matrix`` that XLA stores row by row, and whether that view is transposed."""
    return (matrix.T, not transposed) if is_by_columns(matrix.shape) else (matrix, transposed)


def padded(rows: int, columns: int) -> int:
    """Elements of a matrix stored by rows, in whole tiles; rows fewer than 5 have tiles of 1, 2 or 4."""
    height = rows if rows < 3 else 4 if rows < 5 else -(-rows // SUBLANES) * SUBLANES
    return height * -(-columns // LANES) * LANES
