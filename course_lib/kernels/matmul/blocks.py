"""Block sizes (bm, bk, bn) of a matmul: which fit into VMEM, and which are likely to be fast."""

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

_SIDES = (
    128,
    256,
    512,
    1024,
    2048,
    4096,
)  # of the output block, beside equal parts of the array
_DEPTHS = (256, 512, 1024, 2048, 4096)  # of the reduction, if it is not one block; likewise
_PARTS = 8
_WORTH_A_TRIAL = 24
_SHARE_OF_VMEM = 0.35  # that chosen blocks may take; `vmem_limit` says why no more
# Seconds on top of the work itself, fitted to what libtpu 0.0.48 predicts for about 80 choices of blocks on a v5e.
_PER_STEP = 0.2e-6  # 300 cycles
_PER_COPY = 0.5e-6  # latency of a copy from HBM
_FEWEST_ROWS = 32  # loading 128 x 128 elements of y into the MXU takes as long as multiplying so many rows
_SUM_TRAFFIC = 6e12  # bytes per second: each step loads and stores the accumulator

Sizes = tuple[int, int, int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Problem:
    """The sizes of ``(m, k) @ (k, n)``, usual ones in place of symbolic ones, and the dtype of both operands."""

    m: int
    k: int
    n: int
    dtype: jnp.dtype
    passes: int = 1  # of the MXU: six for f32 at the highest precision
    outputs: int = 1  # arrays of shape (m, n) that are written
    lanes_of_m: bool = False  # whether an operand or the result is viewed transposed, with m as its last axis

    @property
    def out_itemsize(self) -> int:
        return 4 if self.dtype == jnp.int8 else self.dtype.itemsize

    @property
    def row_step(self) -> int:
        """The multiple chosen for bm: rows of whole registers, or lanes."""
        return LANES if self.lanes_of_m else 32 // self.dtype.itemsize

    @property
    def least_bm(self) -> int:
        """The multiple that bm must be."""
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
    """Return the problem ``x @ y``. Raises ValueError, in the name of ``op``, if shapes or dtypes do not fit."""
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
    m, k, n = (max(1, size) for size in planned((m, k, n)))  # an empty array has no blocks, and no kernel needs any
    return Problem(m=m, k=k, n=n, dtype=jnp.dtype(x.dtype), passes=passes(precision), lanes_of_m=lanes_of_m)


def chosen(blocks, problem: Problem) -> Sizes:
    """Return (bm, bk, bn) of ``blocks``, or the fastest if they are None, cut down to the arrays.

    Raises ValueError if ``blocks`` need more VMEM than the chip has, or bm lies along lanes and is no multiple of 128.
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
    """Raise ValueError if ``blocks`` are given, and are illegal or need more VMEM than the chip has."""
    if blocks is not None:
        chosen(blocks, problem)


def fastest(problem: Problem, choices: list[Sizes] | None = None) -> Sizes:
    """Return the sizes, of ``choices`` or of all, that should be fastest on the chip a kernel is traced for."""
    return _ranked(problem, tuple(choices or fitting(problem)))[0]


def candidates(problem: Problem) -> list[Sizes]:
    """Return the sizes worth a trial: those that should be fastest, the best first."""
    return _ranked(problem, fitting(problem))[:_WORTH_A_TRIAL]


def fitting(problem: Problem) -> tuple[Sizes, ...]:
    """Return all sizes that fit into VMEM and do not take long to compile."""
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
    """Return lengths of blocks along an axis: the usual ones, and those that cut it into a few equal parts.

    A block that reaches past the edge is computed in full: blocks of 512 make 1024 rows of 777, two of 400 make 800.
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
    """Return the VMEM of the blocks, in bytes: each of the three twice, and the accumulator if K is cut."""
    bm, bk, bn = _padded(sizes, problem)
    operands = (bm * bk + bk * bn) * problem.dtype.itemsize
    return 2 * (operands + bm * bn * problem.out_itemsize * problem.outputs) + 4 * bm * bn * (bk < problem.k)


def vmem_limit(sizes: Sizes, problem: Problem) -> int:
    """Return the VMEM to request, in bytes: the blocks, and half as much plus 8 MiB for registers that are spilled.

    Six passes split f32 operands into bf16 parts, which need room too. If the blocks leave a choice, request no more
    than half of the VMEM: beside a small array that XLA keeps in VMEM, libtpu 0.0.48 reserves both what the kernel
    requests and what it uses, and refuses the program if these do not fit together.
    """
    bm, bk, bn = _padded(sizes, problem)
    parts = 8 * (bm + bn) * bk * (problem.passes > 1)
    least, has = vmem_bytes(sizes, problem) * 9 // 8 + parts + (2 << 20), chip.vmem_bytes()
    wanted = least * 4 // 3 + (6 << 20)
    return min(has, max(least, 16 << 20, min(wanted, has // 2)))


def seconds(sizes: Sizes, problem: Problem) -> float:
    """Estimate the time in seconds: per step the longer of product and copies, plus the exposed copies at both ends."""
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
    elif columns > 1:  # x is not copied again while j runs
        steps = rows * new_row + rows * (columns - 1) * same_row
        traffic -= rows * (columns - 1) * x
    else:  # and y is copied once
        steps = rows * max(work, x + _PER_COPY)
        traffic = rows * (x + o) + y
    return max(steps, traffic) + (x + y + _PER_COPY) + (o + _PER_COPY)


def _padded(sizes: Sizes, problem: Problem) -> Sizes:
    """Return the blocks as VMEM holds them: no larger than the arrays, rounded up to whole tiles."""
    bm, bk, bn = (min(size, length) for size, length in zip(sizes, (problem.m, problem.k, problem.n), strict=True))
    return _up(bm, problem.row_step), _up(bk, LANES), _up(bn, LANES)


def _up(size: int, step: int) -> int:
    return pl.cdiv(size, step) * step
