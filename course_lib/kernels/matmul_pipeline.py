"""The product of ``matmul`` with its pipeline spelled out: ``pl.kernel`` on the TensorCore, ``emit_pipeline`` inside.

Cost   as ``matmul``
VMEM   as ``matmul``

``pl.kernel`` hands the kernel whole arrays, which lie in HBM. ``emit_pipeline`` cuts them into blocks and copies the
blocks of the next step while this one computes; ``pallas_call`` with a grid does the same unasked. Written out, the
pipeline is one part of a kernel, with room for more before, after or beside it.

Blocks must divide the arrays here. A chip takes others too, but their last copies reach into the padding of HBM, which
no simulator has: nobody could judge them without a chip.
"""

import functools

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Described, Float, Float32, Ref
from course_lib.kernels import matmul
from course_lib.kernels.common import arguments, legal, symbolic
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot, precision_of
from course_lib.kernels.dispatch import sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.matmul import Blocks, reference  # noqa: F401  what matmul_pipelined must compute
from course_lib.kernels.matmul import blocks as matmul_blocks
from course_lib.kernels.matmul.blocks import Problem


def matmul_pipelined(
    x: Float[Array, "M K"],
    y: Float[Array, "K N"],
    *,
    precision: lax.PrecisionLike = "highest",
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> Float[Array, "M N"]:
    """``x @ y``, both f32 or both bf16; as ``matmul.matmul``, and differentiable by its kernels.

    Raises ValueError where shapes or dtypes do not fit, or a block does not divide its axis.
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
    """The blocks that ``matmul_pipelined`` chooses: the fastest that divide the arrays, where there are any."""
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
    """bm, bk and bn, chosen where ``blocks`` is None. Raises ValueError where one does not divide its axis."""
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


_RULE = "m k, k n -> m n +k"


@functools.partial(differentiable, settings=3)
def _pipelined(x, y, precision, blocks, cuts):
    plain = fixed(_plain, precision=precision)
    if 0 in x.shape or 0 in y.shape:
        return plain(x, y)
    on_tpu = fixed(_on_tpu, precision=precision, blocks=blocks)
    # JAX cannot map what is allocated inside a kernel, as a pipeline's buffers are.
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
    m, k, n = problem.m, problem.k, problem.n
    bm, bk, bn = sizes = _sizes(blocks, problem)
    grid = (pl.cdiv(m, bm), pl.cdiv(n, bn), pl.cdiv(k, bk))

    def kernel(
        x_hbm: Float[Ref, "M K"], y_hbm: Float[Ref, "K N"], o_hbm: Float[Ref, "M N"], acc_ref: Float32[Ref, "bm bn"]
    ) -> None:
        def step(x_ref: Float[Ref, "bm bk"], y_ref: Float[Ref, "bk bn"], o_ref: Float[Ref, "bm bn"]) -> None:
            @pl.when(pl.program_id(2) == 0)
            def _zero():
                acc_ref[...] = jnp.zeros_like(acc_ref)

            acc_ref[...] += dot(x_ref[...], y_ref[...], precision=precision)

            @pl.when(pl.program_id(2) == grid[2] - 1)
            def _store():
                o_ref[...] = acc_ref[...].astype(o_ref.dtype)

        pltpu.emit_pipeline(
            step,
            grid=grid,
            in_specs=[pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)), pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))],
            out_specs=[pl.BlockSpec((bm, bn), lambda i, j, k: (i, j))],
        )(x_hbm, y_hbm, o_hbm)

    return pl.kernel(
        kernel,
        out_type=out_type(x, (m, n), x.dtype),
        mesh=pltpu.TensorCoreMesh(axis_name="core", num_cores=1),
        scratch_types=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=matmul_blocks.vmem_limit(sizes, problem)),
        name="matmul_pipelined",
    )(x, y)
