"""``o = a * x + y`` for a scalar ``a`` and arrays of any shape; its gradient is one kernel, too.

Cost   FLOPs 2 * size;  HBM bytes 3 * size * itemsize: every element is read twice, written once
       gradient: FLOPs 3 * size;  HBM bytes 3 * size * itemsize: g and x are read, dx is written, and da is summed
VMEM   2 * 3 * bm * bn * itemsize

The scalar lies in SMEM, and so does its gradient while the grid runs. Blocks are those of ``elementwise``.
"""

import functools

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Num, Ref
from course_lib.kernels.common.along_axis import accumulator
from course_lib.kernels.common.outputs import out_type


def reference(a: Num[Array, ""] | float, x: Num[Array, "*shape"], y: Num[Array, "*shape"]) -> Num[Array, "*shape"]:
    """Return what ``scale_add`` must compute: floats in f32, rounded once."""
    wide = accumulator(x.dtype)
    return (jnp.asarray(a, wide) * x.astype(wide) + y.astype(wide)).astype(x.dtype)


def gradient_reference(a: Num[Array, ""], g: Num[Array, "*shape"], x: Num[Array, "*shape"]) -> tuple[Array, Array]:
    """Return da and dx: what the kernel of the gradient must compute."""
    wide = g.astype(a.dtype)
    return jnp.sum(wide * x.astype(a.dtype)), (a * wide).astype(g.dtype)


def _kernel(
    a_ref: Num[Ref, "1 1"],  # SMEM, where scalars live
    x_ref: Num[Ref, "*block"],
    y_ref: Num[Ref, "*block"],
    o_ref: Num[Ref, "*block"],
) -> None:
    o_ref[...] = reference(a_ref[0, 0], x_ref[...], y_ref[...])


def _backward_kernel(
    a_ref: Num[Ref, "1 1"],
    g_ref: Num[Ref, "*block"],
    x_ref: Num[Ref, "*block"],
    dx_ref: Num[Ref, "*block"],
    da_ref: Num[Ref, "1 1"],  # SMEM: stays there while the grid runs
    *,
    shape: tuple[int, ...],
) -> None:
    @pl.when(functools.reduce(jnp.logical_and, [pl.program_id(axis) == 0 for axis in range(len(shape))]))
    def _start():
        da_ref[0, 0] = jnp.zeros((), da_ref.dtype)

    g = g_ref[...].astype(da_ref.dtype)
    dx_ref[...] = (a_ref[0, 0] * g).astype(dx_ref.dtype)
    products = g * x_ref[...].astype(da_ref.dtype)
    for axis, size in enumerate(shape):
        if size % g.shape[axis]:  # the block reaches past the edge, where it holds garbage
            at = pl.program_id(axis) * g.shape[axis] + lax.broadcasted_iota(jnp.int32, g.shape, axis)
            products = jnp.where(at < size, products, 0)
    da_ref[0, 0] += jnp.sum(products)


def launch(a, x, y, *, view, block, vmem_limit_bytes=None) -> Array:
    """Run the kernel on one TPU, x and y seen as ``view``, (N,) or (M, N), and cut into ``block``."""
    spec, scalar = pl.BlockSpec(block, lambda *step: step), pl.BlockSpec(memory_space=pltpu.SMEM)
    out = pl.pallas_call(
        _kernel,
        out_shape=out_type(x, view, x.dtype),
        grid=tuple(map(pl.cdiv, view, block)),
        in_specs=[scalar, spec, spec],
        out_specs=spec,
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel",) * len(view), vmem_limit_bytes=vmem_limit_bytes
        ),
    )(a.reshape(1, 1), x.reshape(view), y.reshape(view))
    return out.reshape(x.shape)


def launch_gradient(a, g, x, *, view, block, vmem_limit_bytes=None) -> tuple[Array, Array]:
    """Run the kernel of the gradient likewise. Its steps run in order, because each adds to da."""
    spec, scalar = pl.BlockSpec(block, lambda *step: step), pl.BlockSpec(memory_space=pltpu.SMEM)
    dx, da = pl.pallas_call(
        functools.partial(_backward_kernel, shape=view),
        out_shape=[out_type(x, view, x.dtype), out_type(x, (1, 1), a.dtype)],
        grid=tuple(map(pl.cdiv, view, block)),
        in_specs=[scalar, spec, spec],
        out_specs=[spec, scalar],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("arbitrary",) * len(view), vmem_limit_bytes=vmem_limit_bytes
        ),
    )(a.reshape(1, 1), g.reshape(view), x.reshape(view))
    return da.reshape(()), dx.reshape(x.shape)
