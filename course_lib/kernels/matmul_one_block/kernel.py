"""The shortest matrix product: ``o = x @ y`` with whole arrays as blocks, no grid.

Cost   FLOPs 2*M*N*K;  HBM bytes (M*K + K*N + M*N) * itemsize: the least there is
VMEM   (M*K + K*N + M*N) * itemsize: each array once, because nothing is prefetched

Nothing overlaps: the MXU waits until all of x and y has arrived, and the result leaves once it is complete. And the
arrays must fit into VMEM. ``matmul`` has neither limit.
"""

import functools

from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Num, Ref
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot, product_dtype


def _kernel(x_ref: Num[Ref, "M K"], y_ref: Num[Ref, "K N"], o_ref: Num[Ref, "M N"], *, precision) -> None:
    o_ref[...] = dot(x_ref[...], y_ref[...], precision=precision).astype(o_ref.dtype)


def launch(x: Array, y: Array, *, precision=None, vmem_limit_bytes=None) -> Array:
    """Run the kernel on one TPU."""
    return pl.pallas_call(
        functools.partial(_kernel, precision=precision),
        out_shape=out_type(x, (x.shape[0], y.shape[1]), product_dtype(x.dtype)),
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=vmem_limit_bytes),
        name="matmul_one_block",
    )(x, y)
