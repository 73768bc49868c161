"""Block sizes (bm, bn) of what a device computes between its copies: they divide half of its rows, and all columns."""

from course_lib.kernels.common import chip
from course_lib.kernels.common.compiler_params import vmem_limit
from course_lib.kernels.common.legal import LANES
from course_lib.kernels.matmul import blocks as matmul_blocks
from course_lib.kernels.matmul.blocks import Problem

_SUM = 512, 1024  # of a block that is added, at most: 2 MiB in f32

Chosen = tuple[tuple[int, int], int]  # (bm, bn), and the VMEM to request, in bytes


def for_sum(rows: int, columns: int, itemsize: int) -> Chosen | None:
    """Return the blocks of sums of arrays (rows, columns); None if none of them fits into VMEM."""
    bm, bn = _divisor(rows, 32 // itemsize, _SUM[0]), _divisor(columns, LANES, _SUM[1])
    needed = _sum_bytes(bm, bn, itemsize)
    return ((bm, bn), vmem_limit(needed)) if needed <= chip.usable_vmem_bytes() else None


def for_matmul(problem: Problem, summed: bool) -> Chosen | None:
    """Return the blocks of a matmul that has all of K in a step, and whose results are ``summed`` afterwards.

    None if none of them fits into VMEM.
    """
    fitting = [
        (bm, problem.k, bn)
        for bm in _divisors(problem.m, problem.row_step)
        for bn in _divisors(problem.n, LANES)
        if bm * problem.k * bn * problem.passes <= chip.LARGEST_STEP
    ]
    fitting = [sizes for sizes in fitting if matmul_blocks.vmem_limit(sizes, problem) <= chip.usable_vmem_bytes()]
    if not fitting:
        return None
    bm, k, bn = matmul_blocks.fastest(problem, fitting)
    needed = matmul_blocks.vmem_limit((bm, k, bn), problem)
    if summed:
        needed = max(needed, vmem_limit(_sum_bytes(bm, bn, problem.dtype.itemsize)))
    return (bm, bn), needed


def _sum_bytes(bm: int, bn: int, itemsize: int) -> int:
    return bm * bn * (2 * 4 * itemsize + 4)  # three that are added and the result, each twice, and their sum in f32


def _divisors(size: int, step: int) -> list[int]:
    """Return the lengths of blocks that divide an axis: multiples of ``step``, and the whole axis."""
    return [length for length in range(step, size, step) if size % length == 0] + [size]


def _divisor(size: int, step: int, most: int) -> int:
    """Return the longest of them that is not longer than ``most``; the shortest if all are."""
    lengths = _divisors(size, step)
    return max([length for length in lengths if length <= most], default=min(lengths))
