"""The shortest matrix product: ``o = x @ y`` with whole arrays as blocks, no grid.

Cost   FLOPs 2*M*N*K;  HBM bytes (M*K + K*N + M*N) * itemsize: the least there is
VMEM   (M*K + K*N + M*N) * itemsize: each array once, for nothing is fetched ahead

Nothing overlaps: the MXU waits until all of x and y has arrived, and the result leaves when all of it is there. And
there is an end to what fits. ``matmul`` has the better of both.
"""

import functools

import jax
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Num, Ref
from course_lib.kernels import matmul, matmul_blocks
from course_lib.kernels.matmul import reference  # noqa: F401  what matmul_one_block must compute
from course_lib.kernels.platforms import by_platform, vmem_bytes
from course_lib.kernels.products import dot, precision_of


def _kernel(x_ref: Num[Ref, "M K"], y_ref: Num[Ref, "K N"], o_ref: Num[Ref, "M N"], *, precision) -> None:
    o_ref[...] = dot(x_ref[...], y_ref[...], precision=precision).astype(o_ref.dtype)


def matmul_one_block(
    x: Num[Array, "M K"], y: Num[Array, "K N"], *, precision: lax.PrecisionLike = "highest"
) -> Num[Array, "M N"]:
    """``x @ y``, both f32, both bf16, or both int8 (the result: int32); not differentiable. As ``matmul.matmul``.

    Raises ValueError where shapes or dtypes do not fit, or the arrays do not fit into VMEM.
    """
    problem = matmul_blocks.problem("matmul_one_block", x, y)
    m, k, n = problem.m, problem.k, problem.n
    needs = (m * k + k * n) * problem.dtype.itemsize + m * n * problem.out_itemsize
    if needs > vmem_bytes():
        raise ValueError(
            f"matmul_one_block: x, y and the result take {needs / 2**20:.1f} MiB, and the chip has "
            f"{vmem_bytes() / 2**20:.0f} MiB of VMEM. Try matmul.matmul, which cuts them into blocks."
        )
    dtype, level = matmul.out_dtype(x), precision_of(x.dtype, precision)

    def plain(x, y):
        return dot(x, y, precision=level).astype(dtype)

    def on_tpu(x, y):
        return pl.pallas_call(
            functools.partial(_kernel, precision=level),
            out_shape=jax.ShapeDtypeStruct((m, n), dtype),
            compiler_params=pltpu.CompilerParams(vmem_limit_bytes=min(vmem_bytes(), 2 * needs + (16 << 20))),
            name="matmul_one_block",
        )(x, y)

    return by_platform(x, y, tpu=on_tpu, default=plain) if needs and k else plain(x, y)
