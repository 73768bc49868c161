"""Blocks of whole rows: how many rows of an array (M, N) a kernel can hold in VMEM at once.

A kernel that needs whole rows (softmax, the norms) has a single choice: ``bm``, the number of rows in a block.
"""

import math

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from course_lib.arrays import Array, Described, Float, Float32, Ref
from course_lib.kernels.common import chip
from course_lib.kernels.common.layouts import is_by_columns
from course_lib.kernels.common.legal import LANES, SUBLANES
from course_lib.kernels.common.symbolic import planned

_FEWEST = 32  # rows of a block, if there are as many: with fewer, a step mostly waits for its copies
_MOST = 1024  # with more the compiler takes minutes, as every 8 rows become instructions of their own


def rows_for(x: Described, operands: int, temporaries: int, block: int = 2 << 20) -> int:
    """Return the rows of a block of about ``block`` bytes in f32, for a kernel with ``operands`` arrays like x.

    Raises ValueError if 8 rows do not fit into VMEM.
    """
    *rows, columns = planned(x.shape)
    rows, itemsize = math.prod(rows), x.dtype.itemsize
    row = per_row(columns, itemsize, operands, temporaries)
    fits = chip.usable_vmem_bytes() // row // SUBLANES * SUBLANES
    if not fits:
        raise ValueError(
            f"a row of {columns} columns does not fit: 8 rows take {SUBLANES * row / 2**20:.1f} MiB of VMEM, and "
            f"{chip.usable_vmem_bytes() / 2**20:.1f} MiB can be used. The longest row that fits has "
            f"{longest_row(itemsize, operands, temporaries)} columns."
        )
    whole = 32 // itemsize  # rows of whole registers: 8 of f32, 16 of bf16
    wanted = min(
        block // per_row(columns, 4, 0, 1), _MOST, max(_FEWEST, pl.cdiv(rows, 2))
    )  # two steps: copies overlap work
    return min(fits, max(1, pl.cdiv(wanted, whole)) * whole)


def lanes_for(x: Described, operands: int, temporaries: int, block: int = 2 << 20) -> int | None:
    """Return the rows in a block of the transpose, along lanes, of a matrix that XLA stores by columns.

    None for other arrays, and if not even 128 rows fit. The kernel then goes by rows, and XLA transposes.
    """
    if not is_by_columns(x.shape):
        return None
    rows, columns = x.shape
    columns = pl.cdiv(columns, SUBLANES) * SUBLANES
    fits = chip.usable_vmem_bytes() // (columns * (2 * operands * x.dtype.itemsize + 4 * temporaries)) // LANES * LANES
    wanted = max(LANES, min(block // (4 * columns), pl.cdiv(rows, 4)))
    return min(fits, pl.cdiv(wanted, LANES) * LANES) or None


def vector(ref: Float[Ref, "*row"], axis: int) -> Float32[Array, "*row"]:
    """Return a vector in f32 inside a kernel: (1, N), or (N, 1) beside blocks whose rows lie along axis 0."""
    row = ref[...].astype(jnp.float32).reshape(1, -1)
    return row.T if axis == 0 else row


def per_row(columns: int, itemsize: int, operands: int, temporaries: int) -> int:
    """Return the bytes of VMEM that one row takes: each operand twice, to overlap copies with work, and f32 values."""
    return pl.cdiv(columns, LANES) * LANES * (2 * operands * itemsize + 4 * temporaries)


def longest_row(itemsize: int, operands: int, temporaries: int) -> int:
    """Return how many columns fit if a block has the fewest rows, 8."""
    return chip.usable_vmem_bytes() // (SUBLANES * per_row(LANES, itemsize, operands, temporaries)) * LANES


def needed(bm: int, bn: int, x: Described, operands: int, temporaries: int) -> int:
    """Return the bytes of VMEM that blocks of bm rows and bn columns of ``operands`` arrays like x take."""
    *rows, columns = planned(x.shape)
    rows = pl.cdiv(math.prod(rows), SUBLANES) * SUBLANES
    return min(bm, rows) * per_row(min(bn, columns), x.dtype.itemsize, operands, temporaries)


def check_rows(op: str, x) -> None:
    """Raise ValueError if x has no last axis."""
    if not x.ndim:
        raise ValueError(f"{op}: x has shape (), and its last axis is wanted. Try x[None].")


def inside(x: Float[Array, "bm bn"], j, columns: int, outside: float) -> Float[Array, "bm bn"]:
    """Replace the garbage past the last column by ``outside``, in column block j inside a kernel."""
    if columns % x.shape[-1] == 0:
        return x
    column = j * x.shape[-1] + jax.lax.broadcasted_iota(jnp.int32, x.shape, 1)
    return jnp.where(column < columns, x, outside)
