"""Which kernel runs on a TPU, and with which blocks: chosen from the shapes of one device's part of the arrays."""

from jax import lax

from course_lib.arrays import Array, Float
from course_lib.kernels.block_sparse import blocks as block_sparse_blocks
from course_lib.kernels.block_sparse.by_index_maps import dsd_by_maps, sdd_by_maps
from course_lib.kernels.block_sparse.kernel import Blocks, Form, launch_dsd
from course_lib.kernels.block_sparse.pattern import Pattern
from course_lib.kernels.block_sparse.sdd_kernel import launch_sdd
from course_lib.kernels.common import chip
from course_lib.kernels.common.compiler_params import check_fits, vmem_limit
from course_lib.kernels.common.legal import LANES
from course_lib.kernels.common.products import passes
from course_lib.kernels.common.symbolic import cut


def dsd_on_tpu(
    values: Float[Array, "Z h w"],
    pattern: Pattern,
    b: Float[Array, "_K _N"],
    *,
    transpose_a: bool,
    transpose_b: bool,
    transpose_o: bool,
    precision: lax.Precision | None,
    blocks: Blocks | None,
    mapped: bool,  # under jax.vmap, where nothing can be copied by hand
) -> Float[Array, "_M _N"]:
    """Return ``A @ b``, or ``A.T @ b``, by the kernel of panels if these divide N, and by index maps otherwise."""
    n = b.shape[0 if transpose_b else 1]
    problem = block_sparse_blocks.dsd_problem(values, n, pattern.shape, transpose_a, passes(precision))
    bn = cut(blocks.bn if blocks else problem.columns(), n)
    needed = problem.vmem_bytes(bn)
    _check_lists("dsd", 2, values.shape[0])
    if blocks is None:
        problem.check_fits()
    check_fits(blocks, needed)
    if transpose_b and problem.w % LANES:  # in the lanes a block must begin where a register does
        b, transpose_b = b.T, False
    turned = transpose_o and problem.h % LANES == 0
    form = Form(transpose_a, transpose_b, turned, problem.h, problem.w)
    sizes = {"bn": bn, "per_step": problem.per_step(bn), "precision": precision, "vmem": vmem_limit(needed)}
    operands = values, pattern.T if transpose_a else pattern, b, form
    if not mapped and block_sparse_blocks.has_panels(n, bn, chip.cores()):
        o = launch_dsd(*operands, **sizes, cores=chip.cores())
    else:
        o = dsd_by_maps(*operands, **sizes)
    return o.T if transpose_o and not turned else o


def sdd_on_tpu(
    a: Float[Array, "M K"],
    b: Float[Array, "_K _N"],
    pattern: Pattern,
    *,
    transpose_b: bool,
    precision: lax.Precision | None,
    blocks: Blocks | None,
) -> Float[Array, "Z h w"]:
    """Return blocks of ``a @ b``, or of ``a @ b.T``, by the kernel of parts of K or by index maps."""
    problem = block_sparse_blocks.sdd_problem(a, b, pattern.rows, pattern.shape, transpose_b, passes(precision))
    bk, bn = problem.chosen() if blocks is None else (blocks.bk or problem.k, blocks.bn)
    if not transpose_b and problem.cols > 1 and problem.w % LANES:  # a block would begin where no register does
        b, transpose_b = b.T, True
    count, how = problem.count, {"transpose_b": transpose_b, "precision": precision}
    if problem.by_depth(bk, bn):
        _check_lists("sdd", 2, count)
        how |= {"bk": bk, "per_step": problem.per_step_by_depth(bk), "cores": chip.cores()}
        return launch_sdd(a, b, pattern, **how, vmem=vmem_limit(problem.vmem_bytes_by_depth(bk)))
    bk, per_range = min(bk, problem.k), problem.per_range(bk, bn)
    _check_lists("sdd", 2 if per_range == problem.cols else 3, count)
    per_step = problem.per_step(bk, per_range)
    needed = problem.vmem_bytes(bk, per_range, per_step)
    check_fits(blocks, needed)
    how |= {"bk": bk, "per_range": per_range, "per_step": per_step}
    return sdd_by_maps(a, b, pattern, **how, vmem=vmem_limit(needed))


def _check_lists(op: str, lists: int, count: int) -> None:
    """Raise ValueError if so many lists do not fit into SMEM, which holds 250,000 values by a v5e's compiler.

    Every chip is held to that.
    """
    if lists * count > 250_000:
        raise ValueError(
            f"{op}: pattern has {count} entries, and {250_000 // lists} fit into the chip's scalar memory. "
            "Try larger blocks, or several calls, each with a part of the list."
        )
