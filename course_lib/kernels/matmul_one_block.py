"""The shortest matrix product: ``o = x @ y`` with whole arrays as blocks, no grid.

Cost   FLOPs 2*M*N*K;  HBM bytes (M*K + K*N + M*N) * itemsize: the least there is
VMEM   (M*K + K*N + M*N) * itemsize: each array once, for nothing is fetched ahead

Nothing overlaps: the MXU waits until all of x and y has arrived, and the result leaves when all of it is there. And
there is an end to what fits. ``matmul`` has the better of both.
"""

import functools

from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Num, Ref
from course_lib.kernels.common import arguments, symbolic
from course_lib.kernels.common.chip import vmem_bytes
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot, generation_of, precision_of, product_dtype
from course_lib.kernels.dispatch import sharding
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.matmul import blocks as matmul_blocks
from course_lib.kernels.matmul import reference  # noqa: F401  what matmul_one_block must compute


def _kernel(x_ref: Num[Ref, "M K"], y_ref: Num[Ref, "K N"], o_ref: Num[Ref, "M N"], *, precision) -> None:
    o_ref[...] = dot(x_ref[...], y_ref[...], precision=precision).astype(o_ref.dtype)


def matmul_one_block(
    x: Num[Array, "M K"], y: Num[Array, "K N"], *, precision: lax.PrecisionLike = "highest", layout: Layout = None
) -> Num[Array, "M N"]:
    """``x @ y``, both f32, both bf16, or both int8 (the result: int32); not differentiable. As ``matmul.matmul``.

    Raises ValueError where shapes or dtypes do not fit, or the arrays do not fit into VMEM.
    """
    x, y = arguments.arrays("matmul_one_block", arguments.FACTORS, x=x, y=y)
    level = precision_of("matmul_one_block", x.dtype, precision)
    _check_fits(x, y)
    how = fixed(_plain, precision=level)
    if 0 in (*x.shape, *y.shape):
        return how(x, y)
    rule = "m k, k n -> m n +k"
    (x, y), cuts = sharding.ready("matmul_one_block", rule, (x, y), layout)
    on_tpu, since = fixed(_on_tpu, precision=level), generation_of(x.dtype)
    return Op(name="matmul_one_block", rule=rule, tpu=on_tpu, plain=how, since=since)(x, y, cuts=cuts)


def _check_fits(x: Array, y: Array) -> int:
    """The bytes that x, y and the result take. Raises ValueError where VMEM has less."""
    problem = matmul_blocks.problem("matmul_one_block", x, y)
    if not all(map(symbolic.is_known, (*x.shape, *y.shape))):
        raise ValueError(
            f"matmul_one_block: x has shape {x.shape} and y {y.shape}; whole arrays are its blocks, so all "
            "sizes must be known. Try matmul.matmul."
        )
    m, k, n = problem.m, problem.k, problem.n
    needs = (m * k + k * n) * problem.dtype.itemsize + m * n * problem.out_itemsize
    if needs > vmem_bytes():
        raise ValueError(
            f"matmul_one_block: x, y and the result take {needs / 2**20:.1f} MiB, and the chip has "
            f"{vmem_bytes() / 2**20:.0f} MiB of VMEM. Try matmul.matmul, which cuts them into blocks."
        )
    return needs


def _plain(x: Array, y: Array, *, precision) -> Array:
    return dot(x, y, precision=precision).astype(product_dtype(x.dtype))


def _on_tpu(x: Array, y: Array, *, precision) -> Array:
    needs = _check_fits(x, y)
    return pl.pallas_call(
        functools.partial(_kernel, precision=precision),
        out_shape=out_type(x, (x.shape[0], y.shape[1]), product_dtype(x.dtype)),
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=min(vmem_bytes(), 2 * needs + (16 << 20))),
        name="matmul_one_block",
    )(x, y)
