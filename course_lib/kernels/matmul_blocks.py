"""Block sizes of a matrix product: what is legal, what fits into VMEM, and which are likely to be fast."""

import dataclasses
import itertools

import jax.numpy as jnp
from jax.experimental import pallas as pl

from course_lib.kernels import platforms, vmem

_SIDES = (256, 512, 1024, 2048)  # of the output block
_DEPTHS = (256, 512, 1024, 2048, 4096)  # of the reduction, where it is not one block
LARGEST_STEP = 2**30  # bm * bn * bk * passes: a step is written out in full, and a longer one takes long to compile
_SHARE_OF_VMEM = 0.35  # of the blocks chosen; `vmem_limit` says why no more
# Seconds beside the work itself, from the cycles libtpu 0.0.48 predicts for some eighty choices of blocks on a v5e.
_PER_STEP = 0.2e-6  # 300 cycles
_PER_COPY = 0.5e-6  # until a copy from HBM brings its first bytes
_SUM_TRAFFIC = 6e12  # bytes per second: the running sum is loaded and stored at each step


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Block sizes: rows bm, columns bn, and bk of the reduction. They never change the result, only the speed.

    Legal: multiples of 128. A block is cut down to an array that is smaller, so a bk as large as K means: all of it
    in one step.
    """

    bm: int = 512
    bn: int = 512
    bk: int = 1024

    def __post_init__(self):
        sizes = dataclasses.asdict(self)
        if any(size < 128 or size % 128 for size in sizes.values()):
            nearest = ", ".join(f"{name}={max(128, round(size / 128) * 128)}" for name, size in sizes.items())
            raise ValueError(f"{self} is not legal: each must be a multiple of 128. Nearest legal: {nearest}.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Problem:
    """The sizes of ``(m, k) @ (k, n)``, and the dtype of both operands."""

    m: int
    n: int
    k: int
    dtype: jnp.dtype
    passes: int = 1  # of the MXU: six for f32 at the highest precision
    outputs: int = 1  # arrays of shape (m, n) that are written

    @property
    def out_itemsize(self) -> int:
        return 4 if self.dtype == jnp.int8 else self.dtype.itemsize


def blocks_for(problem: Problem) -> Blocks:
    """The blocks that should be fastest on the chip a kernel is traced for, of ``candidates``."""
    return fastest(candidates(problem), problem)


def fastest(blocks: list[Blocks], problem: Problem) -> Blocks:
    """Of several blocks those that should be fastest on the chip a kernel is traced for."""
    return min(blocks, key=lambda each: (seconds(each, problem), -each.bk))


def candidates(problem: Problem) -> list[Blocks]:
    """All the blocks worth a trial: ``bench.autotune`` searches them by the compiler's cycles."""
    whole = _up(problem.k)
    sides = [sorted({min(side, _up(size)) for side in _SIDES}) for size in (problem.m, problem.n)]
    depths = sorted({whole, *(depth for depth in _DEPTHS if depth < whole)})
    found = [Blocks(bm=bm, bn=bn, bk=bk) for bm, bn, bk in itertools.product(*sides, depths)]
    room = _SHARE_OF_VMEM * platforms.vmem_bytes()
    small = [b for b in found if vmem_bytes(b, problem) <= room and b.bm * b.bn * b.bk * problem.passes <= LARGEST_STEP]
    return small or [Blocks(bm=128, bn=128, bk=128)]


def chosen(blocks: Blocks | None, problem: Problem) -> Blocks:
    """``blocks``, or the default where they are None. Raises ValueError where they need more VMEM than the chip has."""
    if blocks is None:
        return blocks_for(problem)
    vmem.check_fits(blocks, vmem_bytes(blocks, problem))
    return blocks


def vmem_bytes(blocks: Blocks, problem: Problem) -> int:
    """VMEM that the blocks take, in bytes: each of the three twice, and the sum where the reduction is cut."""
    bm, bn, bk = _sizes(blocks, problem)
    operands = (bm * bk + bk * bn) * problem.dtype.itemsize
    return 2 * (operands + bm * bn * problem.out_itemsize * problem.outputs) + 4 * bm * bn * (bk < problem.k)


def vmem_limit(blocks: Blocks, problem: Problem) -> int:
    """What to ask the compiler for, in bytes: the blocks, and room for registers it spills: half as much and 8 MiB.

    Six passes take f32 operands apart into bf16 numbers, and these need a place too. No more than half of the VMEM
    where the blocks leave a choice: next to a small array that XLA keeps in VMEM, libtpu 0.0.48 sets aside what the
    kernel asks for and what it uses, both, and refuses the program where they do not fit together.
    """
    bm, bn, bk = _sizes(blocks, problem)
    parts = 8 * (bm + bn) * bk * (problem.passes > 1)
    least, has = vmem_bytes(blocks, problem) * 9 // 8 + parts + (2 << 20), platforms.vmem_bytes()
    wanted = least * 4 // 3 + (6 << 20)
    return min(has, max(least, 16 << 20, min(wanted, has // 2)))


def _sizes(blocks: Blocks, problem: Problem) -> tuple[int, int, int]:
    """The blocks as they lie in VMEM, padded to (8, 128)."""
    return (min(blocks.bm, _up(problem.m)), min(blocks.bn, _up(problem.n)), min(blocks.bk, _up(problem.k)))


def _up(size: int) -> int:
    return max(128, pl.cdiv(size, 128) * 128)


def seconds(blocks: Blocks, problem: Problem) -> float:
    """About how long it takes: per step the longer of product and copies, and what nothing hides at both ends."""
    bm, bn, bk = _sizes(blocks, problem)
    rows, columns, depth = pl.cdiv(problem.m, bm), pl.cdiv(problem.n, bn), pl.cdiv(problem.k, bk)
    rates = platforms.rates(problem.dtype)
    work = (
        2 * bm * bn * bk * problem.passes / rates.flops + _PER_STEP + (4 * bm * bn / _SUM_TRAFFIC if depth > 1 else 0)
    )
    x, y, o = (size / rates.hbm_bandwidth for size in _bytes(bm, bn, bk, problem))
    new_row, same_row = max(work, x + y + _PER_COPY), max(work, y + _PER_COPY)
    traffic = rows * columns * (depth * (x + y) + o)
    if depth > 1:
        steps = rows * columns * depth * new_row
    elif columns > 1:  # x stays while j runs
        steps = rows * new_row + rows * (columns - 1) * same_row
        traffic -= rows * (columns - 1) * x
    else:  # and y stays throughout
        steps = rows * max(work, x + _PER_COPY)
        traffic = rows * (x + o) + y
    return max(steps, traffic) + (x + y + _PER_COPY) + (o + _PER_COPY)


def _bytes(bm: int, bn: int, bk: int, problem: Problem) -> tuple[int, int, int]:
    size = problem.dtype.itemsize
    return bm * bk * size, bk * bn * size, bm * bn * problem.out_itemsize * problem.outputs
