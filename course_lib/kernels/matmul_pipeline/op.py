"""``matmul_pipelined`` for callers: arguments checked, on meshes, differentiable, and plain JAX without a TPU."""

import functools

from jax import lax

from course_lib.arrays import Array, Described, Float
from course_lib.kernels import matmul
from course_lib.kernels.common import arguments, legal, symbolic
from course_lib.kernels.common.products import dot, precision_of
from course_lib.kernels.dispatch import sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.matmul import Blocks
from course_lib.kernels.matmul import blocks as matmul_blocks
from course_lib.kernels.matmul.blocks import Problem
from course_lib.kernels.matmul_pipeline.kernel import launch

_RULE = "m k, k n -> m n +k"


def matmul_pipelined(
    x: Float[Array, "M K"],
    y: Float[Array, "K N"],
    *,
    precision: lax.PrecisionLike = "highest",
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> Float[Array, "M N"]:
    """Return ``x @ y``, both f32 or both bf16, as ``matmul.matmul`` does; differentiable by its kernels.

    Raises ValueError if shapes or dtypes do not fit, or a block does not divide its axis.
    """
    x, y = arguments.arrays("matmul_pipelined", arguments.FLOATS, x=x, y=y)
    level = precision_of("matmul_pipelined", x.dtype, precision)
    legal.check_kind("matmul_pipelined", blocks, Blocks)
    problem = _problem("matmul_pipelined", x, y, level)
    _sizes(blocks, problem)
    (x, y), cuts = sharding.ready("matmul_pipelined", _RULE, (x, y), layout)
    return _pipelined(x, y, level, blocks, cuts)


def blocks_for(
    x: Float[Described, "M K"], y: Float[Described, "K N"], *, precision: lax.PrecisionLike = "highest"
) -> Blocks:
    """Return the blocks that ``matmul_pipelined`` chooses: the fastest that divide the arrays, if there are any."""
    return _fastest(_problem("blocks_for", x, y, precision_of("blocks_for", x.dtype, precision)))


def _problem(op: str, x: Described, y: Described, level: lax.Precision | None) -> Problem:
    problem = matmul_blocks.problem(op, x, y, level)
    if not all(map(symbolic.is_known, (*x.shape, *y.shape))):
        raise ValueError(
            f"{op}: x has shape {x.shape} and y {y.shape}; blocks must divide them here, so all sizes must be known. "
            "Try matmul.matmul."
        )
    return problem


def _fastest(problem: Problem) -> Blocks:
    dividing = [sizes for sizes in matmul_blocks.fitting(problem) if _divides(sizes, problem)]
    return matmul.blocks_of(matmul_blocks.fastest(problem, dividing))


def _sizes(blocks: Blocks | None, problem: Problem) -> tuple[int, int, int]:
    """Return bm, bk and bn, chosen if ``blocks`` is None. Raises ValueError if one does not divide its axis."""
    blocks = blocks or _fastest(problem)
    if not _divides((blocks.bm, blocks.bk, blocks.bn), problem):
        raise ValueError(
            f"matmul_pipelined: {blocks} does not divide (M, K, N) = {(problem.m, problem.k, problem.n)}. Take blocks "
            "that do, or as long as the axis; or matmul.matmul, which takes any shape."
        )
    return matmul_blocks.chosen(blocks, problem)


def _divides(sizes: tuple[int, int, int], problem: Problem) -> bool:
    lengths = problem.m, problem.k, problem.n
    return all(size >= length or length % size == 0 for size, length in zip(sizes, lengths, strict=True))


@functools.partial(differentiable, settings=3)
def _pipelined(x, y, precision, blocks, cuts):
    plain = fixed(_plain, precision=precision)
    if 0 in x.shape or 0 in y.shape:
        return plain(x, y)
    on_tpu = fixed(_on_tpu, precision=precision, blocks=blocks)
    # JAX cannot map what is allocated inside a kernel, such as the buffers of a pipeline.
    return Op(name="matmul_pipelined", rule=_RULE, tpu=on_tpu, plain=plain, one_at_a_time=True)(x, y, cuts=cuts)


def _plain(x, y, *, precision):
    return dot(x, y, precision=precision).astype(x.dtype)


def _forward(x, y, *how):
    return _pipelined(x, y, *how), (x, y)


def _backward(precision, _, cuts, saved, g):
    return matmul.gradients(*saved, g, precision, cuts)


_pipelined.defvjp(_forward, _backward)


def _on_tpu(x: Array, y: Array, *, precision, blocks: Blocks | None) -> Array:
    problem = matmul_blocks.problem("matmul_pipelined", x, y, precision)
    sizes = _sizes(blocks, problem)
    limit = matmul_blocks.vmem_limit(sizes, problem)
    return launch(x, y, sizes, precision=precision, vmem_limit_bytes=limit)
