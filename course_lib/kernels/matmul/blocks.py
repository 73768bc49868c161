"""Blocks of a matrix product: what fits into VMEM, and what is likely to be fast. Sizes are (bm, bk, bn)."""

import dataclasses
import functools
import itertools

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from course_lib.arrays import Described
from course_lib.kernels.common import chip, legal
from course_lib.kernels.common.compiler_params import check_fits
from course_lib.kernels.common.layouts import is_by_columns
from course_lib.kernels.common.legal import LANES
from course_lib.kernels.common.products import passes
from course_lib.kernels.common.symbolic import planned

_SIDES = (128, 256, 512, 1024, 2048, 4096)  # of the output block; and what cuts the array into some equal parts
_DEPTHS = (256, 512, 1024, 2048, 4096)  # of the reduction, where it is not one block; and as above
_PARTS = 8
_WORTH_A_TRIAL = 24
_SHARE_OF_VMEM = 0.35  # of the blocks chosen; `vmem_limit` says why no more
# Seconds beside the work itself, from the cycles libtpu 0.0.48 predicts for some eighty choices of blocks on a v5e.
_PER_STEP = 0.2e-6  # 300 cycles
_PER_COPY = 0.5e-6  # until a copy from HBM brings its first bytes
_FEWEST_ROWS = 32  # the MXU takes as long to be given 128 x 128 numbers of y as to multiply so many rows by them
_SUM_TRAFFIC = 6e12  # bytes per second: the running sum is loaded and stored at each step

Sizes = tuple[int, int, int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Problem:
    """The sizes of ``(m, k) @ (k, n)``, of which some may be planned, and the dtype of both operands."""

    m: int
    k: int
    n: int
    dtype: jnp.dtype
    passes: int = 1  # of the MXU: six for f32 at the highest precision
    outputs: int = 1  # arrays of shape (m, n) that are written
    lanes_of_m: bool = False  # whether an operand or a result is seen transposed, with m as its last axis

    @property
    def out_itemsize(self) -> int:
        return 4 if self.dtype == jnp.int8 else self.dtype.itemsize

    @property
    def row_step(self) -> int:
        """What bm is chosen as a multiple of: rows of whole registers, or lanes."""
        return LANES if self.lanes_of_m else 32 // self.dtype.itemsize

    @property
    def least_bm(self) -> int:
        """What it must be a multiple of."""
        return LANES if self.lanes_of_m else legal.step(-2, 2, self.dtype)


def problem(
    op: str,
    x: Described,
    y: Described,
    precision: lax.Precision | None = None,
    *,
    transpose_x: bool = False,
    transpose_y: bool = False,
) -> Problem:
    """What ``x @ y`` is. Raises ValueError, in the name of ``op``, where shapes or dtypes do not fit."""
    for name, array in (("x", x), ("y", y)):
        if array.ndim != 2:
            raise ValueError(f"{op}: {name} has shape {array.shape}; it must have two axes. Try jax.vmap for more.")
    m, k = x.shape[::-1] if transpose_x else x.shape
    k_of_y, n = y.shape[::-1] if transpose_y else y.shape
    if k != k_of_y:
        raise ValueError(
            f"{op}: the reduction is {k} long in x, shape {x.shape}{', transposed' * transpose_x}, and {k_of_y} "
            f"in y, shape {y.shape}{', transposed' * transpose_y}; they must be equal. "
            "Is one of them stored the other way round? Then try matmul_transposed, with transpose_x or transpose_y."
        )
    if x.dtype != y.dtype or x.dtype not in (jnp.float32, jnp.bfloat16, jnp.int8):
        raise ValueError(
            f"{op}: x is {x.dtype} and y {y.dtype}; both must be float32, both bfloat16 or both int8. Try y.astype."
        )
    lanes_of_m = transpose_x != is_by_columns(x.shape) or is_by_columns((m, n))
    m, k, n = (
        max(1, size) for size in planned((m, k, n))
    )  # of nothing there are no blocks, and no kernel asks for any
    return Problem(m=m, k=k, n=n, dtype=jnp.dtype(x.dtype), passes=passes(precision), lanes_of_m=lanes_of_m)


def chosen(blocks, problem: Problem) -> Sizes:
    """(bm, bk, bn) of ``blocks``, of the fastest where they are None, cut down to the arrays.

    Raises ValueError where ``blocks`` need more VMEM than the chip has, or bm lies along lanes and is no multiple.
    """
    if blocks is None:
        bm, bk, bn = fastest(problem)
    else:
        bm, bk, bn = blocks.bm, blocks.bk, blocks.bn
        if bm < problem.m:
            legal.check(blocks, problem.dtype, bm=problem.least_bm, bk=LANES, bn=LANES)
        check_fits(blocks, vmem_bytes((bm, bk, bn), problem))
    return min(bm, problem.m), min(bk, problem.k), min(bn, problem.n)


def check(blocks, problem: Problem) -> None:
    """Raises ValueError where ``blocks`` are not legal or need more VMEM than the chip has; None never do."""
    if blocks is not None:
        chosen(blocks, problem)


def fastest(problem: Problem, choices: list[Sizes] | None = None) -> Sizes:
    """Of ``choices``, or of all, the sizes that should be fastest on the chip a kernel is traced for."""
    return _ranked(problem, tuple(choices or fitting(problem)))[0]


def candidates(problem: Problem) -> list[Sizes]:
    """The sizes worth a trial: those that should be fastest, the best first."""
    return _ranked(problem, fitting(problem))[:_WORTH_A_TRIAL]


def fitting(problem: Problem) -> tuple[Sizes, ...]:
    """All sizes that are considered: that fit into VMEM, and do not take the compiler long."""
    return _fitting(problem, chip.vmem_bytes())


@functools.lru_cache(256)
def _fitting(problem: Problem, vmem: int) -> tuple[Sizes, ...]:
    sides = _cuts(problem.m, _SIDES, problem.row_step), _cuts(problem.n, _SIDES, LANES)
    found = [
        (bm, bk, bn)
        for bm, bn, bk in itertools.product(*sides, _cuts(problem.k, _DEPTHS, LANES, longest=None))
        if bm * bk * bn * problem.passes <= chip.LARGEST_STEP
        and vmem_bytes((bm, bk, bn), problem) <= _SHARE_OF_VMEM * vmem
    ]
    return tuple(found) or ((LANES, LANES, LANES),)


def _cuts(size: int, usual: tuple[int, ...], step: int, longest: int | None = _SIDES[-1]) -> list[int]:
    """Lengths of blocks along an axis: the usual ones, and what cuts it into a few equal parts.

    A block that reaches past the edge is computed in full: 777 rows in blocks of 512 are 1024, in two of 400 are 800.
    """
    equal = [_up(pl.cdiv(size, parts), step) for parts in range(1, _PARTS + 1)]
    found = {length for length in (*usual, *equal) if length <= min(longest or length, _up(size, step))}
    return sorted(found & {length for length in found if length >= min(usual)}) or [_up(size, step)]


def _ranked(problem: Problem, choices: tuple[Sizes, ...]) -> list[Sizes]:
    return _sorted(problem, choices, chip.rates(problem.dtype))


@functools.lru_cache(256)
def _sorted(problem: Problem, choices: tuple[Sizes, ...], rates: chip.Rates) -> list[Sizes]:
    return sorted(choices, key=lambda sizes: (_seconds(sizes, problem, rates), -sizes[1]))


def vmem_bytes(sizes: Sizes, problem: Problem) -> int:
    """VMEM that the blocks take, in bytes: each of the three twice, and the sum where the reduction is cut."""
    bm, bk, bn = _padded(sizes, problem)
    operands = (bm * bk + bk * bn) * problem.dtype.itemsize
    return 2 * (operands + bm * bn * problem.out_itemsize * problem.outputs) + 4 * bm * bn * (bk < problem.k)


def vmem_limit(sizes: Sizes, problem: Problem) -> int:
    """What to ask the compiler for, in bytes: the blocks, and room for registers it spills: half as much and 8 MiB.

    Six passes take f32 operands apart into bf16 numbers, and these need a place too. No more than half of the VMEM
    where the blocks leave a choice: next to a small array that XLA keeps in VMEM, libtpu 0.0.48 sets aside what the
    kernel asks for and what it uses, both, and refuses the program where they do not fit together.
    """
    bm, bk, bn = _padded(sizes, problem)
    parts = 8 * (bm + bn) * bk * (problem.passes > 1)
    least, has = vmem_bytes(sizes, problem) * 9 // 8 + parts + (2 << 20), chip.vmem_bytes()
    wanted = least * 4 // 3 + (6 << 20)
    return min(has, max(least, 16 << 20, min(wanted, has // 2)))


def seconds(sizes: Sizes, problem: Problem) -> float:
    """About how long it takes: per step the longer of product and copies, and what nothing hides at both ends."""
    return _seconds(sizes, problem, chip.rates(problem.dtype))


def _seconds(sizes: Sizes, problem: Problem, rates: chip.Rates) -> float:
    bm, bk, bn = _padded(sizes, problem)
    rows, columns, depth = pl.cdiv(problem.m, bm), pl.cdiv(problem.n, bn), pl.cdiv(problem.k, bk)
    product = 2 * max(bm, _FEWEST_ROWS) * bn * bk * problem.passes / rates.flops
    work = product + _PER_STEP + (4 * bm * bn / _SUM_TRAFFIC if depth > 1 else 0)
    size = problem.dtype.itemsize
    moved = bm * bk * size, bk * bn * size, bm * bn * problem.out_itemsize * problem.outputs
    x, y, o = (block / rates.hbm_bandwidth for block in moved)
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


def _padded(sizes: Sizes, problem: Problem) -> Sizes:
    """The blocks as they lie in VMEM: no larger than the arrays, rounded up to whole tiles."""
    bm, bk, bn = (min(size, length) for size, length in zip(sizes, (problem.m, problem.k, problem.n), strict=True))
    return _up(bm, problem.row_step), _up(bk, LANES), _up(bn, LANES)


def _up(size: int, step: int) -> int:
    return pl.cdiv(size, step) * step
