"""Blocks of whole rows: how many rows of an array (M, N) a kernel can hold in VMEM at once.

A kernel that needs a row in one piece (softmax, the norms) has one choice only, the number of rows ``bm`` in a block.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from course_lib.arrays import Array, Float
from course_lib.kernels import platforms, vmem

LANES = 128  # VMEM holds rows in pieces of 128 lanes ...
SUBLANES = 8  # ... and registers are 8 rows high

_FEWEST = 32  # rows of a block, where there are as many: with fewer, each step is mostly the start of its copies


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Rows of a block, a multiple of 8. They never change the result, only the speed."""

    bm: int

    def __post_init__(self):
        check_legal(self)


def blocks_for(shape: tuple[int, ...], dtype, operands: int, temporaries: int, block: int = 2 << 20) -> Blocks:
    """Blocks of about ``block`` bytes in f32, for a kernel with so many operands of this shape and dtype.

    Raises ValueError where 8 rows do not fit in VMEM.
    """
    rows, columns, itemsize = math.prod(shape[:-1]), shape[-1], jnp.dtype(dtype).itemsize
    row = per_row(columns, itemsize, operands, temporaries)
    fits = _usable() // row // SUBLANES * SUBLANES
    if not fits:
        raise ValueError(
            f"a row of {columns} columns does not fit: 8 rows take {SUBLANES * row / 2**20:.1f} MiB of VMEM, and "
            f"{_usable() / 2**20:.1f} MiB can be used. The longest row that fits has "
            f"{longest_row(itemsize, operands, temporaries)} columns."
        )
    whole = 32 // itemsize  # rows of whole registers: 8 of f32, 16 of bf16
    wanted = min(block // per_row(columns, 4, 0, 1), max(_FEWEST, pl.cdiv(rows, 2)))  # two steps: copies overlap work
    return Blocks(bm=min(fits, max(1, pl.cdiv(wanted, whole)) * whole))


def per_row(columns: int, itemsize: int, operands: int, temporaries: int) -> int:
    """Bytes of VMEM that one row takes: each operand twice, so that copies overlap work, and f32 values between."""
    return pl.cdiv(columns, LANES) * LANES * (2 * operands * itemsize + 4 * temporaries)


def longest_row(itemsize: int, operands: int, temporaries: int) -> int:
    """How many columns fit, if a block has the fewest rows: 8."""
    return _usable() // (SUBLANES * per_row(LANES, itemsize, operands, temporaries)) * LANES


def _usable() -> int:
    """Bytes of VMEM that blocks may fill: an eighth stays free for what the compiler puts there."""
    return platforms.vmem_bytes() * 7 // 8


def needed(blocks, x: Array, operands: int, temporaries: int) -> int:
    """Bytes of VMEM that ``blocks`` (rows bm, columns bn where it has any) of so many arrays like x take.

    Raises ValueError where the chip has fewer.
    """
    bm = min(blocks.bm, pl.cdiv(math.prod(x.shape[:-1]), SUBLANES) * SUBLANES)
    bn = min(getattr(blocks, "bn", None) or x.shape[-1], x.shape[-1])
    found = bm * per_row(bn, x.dtype.itemsize, operands, temporaries)
    vmem.check_fits(blocks, found)
    return found


def check_legal(blocks) -> None:
    """Raises ValueError for a bm that is no multiple of 8, or a bn that is none of 128."""
    sizes = {"bm": SUBLANES, "bn": LANES}
    given = {name: size for name, size in vars(blocks).items() if size is not None}
    if any(size < sizes[name] or size % sizes[name] for name, size in given.items()):
        nearest = ", ".join(f"{n}={max(sizes[n], round(s / sizes[n]) * sizes[n])}" for n, s in given.items())
        raise ValueError(f"{blocks} is not legal: bm must be a multiple of 8, bn one of 128. Nearest legal: {nearest}.")


def check_rows(op: str, x) -> None:
    """Raises ValueError for an x that has no last axis, or is neither f32 nor bf16."""
    if not x.ndim:
        raise ValueError(f"{op}: x has shape (), and its last axis is wanted. Try x[None].")
    if x.dtype not in (jnp.float32, jnp.bfloat16):
        raise ValueError(f"{op}: x is {x.dtype}; it may be float32 or bfloat16. Try x.astype(jnp.float32).")


def inside(x: Float[Array, "bm bn"], j, columns: int, outside: float) -> Float[Array, "bm bn"]:
    """In a kernel: column block j with what lies past the last column, which is garbage, replaced by ``outside``."""
    if columns % x.shape[-1] == 0:
        return x
    column = j * x.shape[-1] + jax.lax.broadcasted_iota(jnp.int32, x.shape, 1)
    return jnp.where(column < columns, x, outside)
