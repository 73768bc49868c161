"""``o = a * x + y`` for a scalar ``a`` and arrays of any shape; the gradient in one kernel, too.

Cost   FLOPs 2 * size;  HBM bytes 3 * size * itemsize: every element read twice, written once
       gradient: FLOPs 3 * size;  HBM bytes 3 * size * itemsize: g and x read, dx written, and da is summed on the way
VMEM   2 * 3 * bm * bn * itemsize

Blocks are those of `elementwise`. The scalar lies in SMEM, and so does its gradient while the grid runs.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Described, Num, Ref
from course_lib.kernels import elementwise, platforms
from course_lib.kernels.compiler_params import check_fits, compiler_params
from course_lib.kernels.elementwise import Blocks


def reference(a: Num[Array, ""], x: Num[Array, "*shape"], y: Num[Array, "*shape"]) -> Num[Array, "*shape"]:
    """What ``scale_add`` must compute: floats in f32, rounded once."""
    return (a * x.astype(a.dtype) + y.astype(a.dtype)).astype(x.dtype)


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
        if size % g.shape[axis]:  # what was read past the edge must not be summed
            at = pl.program_id(axis) * g.shape[axis] + lax.broadcasted_iota(jnp.int32, g.shape, axis)
            products = jnp.where(at < size, products, 0)
    da_ref[0, 0] += jnp.sum(products)


def scale_add(
    a: Num[Array, ""] | float, x: Num[Array, "*shape"], y: Num[Array, "*shape"], *, blocks: Blocks | None = None
) -> Num[Array, "*shape"]:
    """``a * x + y`` for two arrays of one shape and one dtype (f32, bf16, int32), differentiable by all three.

    ``a`` is taken as f32, or as int32 where ``x`` is; floats are computed in f32 and rounded once. Runs the kernel on
    a TPU and plain JAX elsewhere. Raises ValueError where ``a`` is no scalar, shapes or dtypes differ, or the blocks
    need more VMEM than there is.
    """
    elementwise.check_pair("scale_add", x, y)
    if jnp.shape(a):
        raise ValueError(f"scale_add: a has shape {jnp.shape(a)}; it must be a scalar. Try multiply and add.")
    wide = jnp.float32 if jnp.issubdtype(x.dtype, jnp.floating) else x.dtype
    return _scale_add(jnp.asarray(a, wide), x, y, blocks)


def blocks_for(a: Num[Described, ""] | float, x: Num[Described, "*shape"], y: Num[Described, "*shape"]) -> Blocks:
    """The blocks that ``scale_add`` chooses for these arguments; right for every chip."""
    return elementwise.blocks_of(x.shape, x.dtype.itemsize)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _scale_add(a, x, y, blocks):
    return _dispatch(_kernel, reference, a, x, y, blocks, sums=False)


def _backward(blocks, saved, g):
    def plain(a, g, x):
        wide = g.astype(a.dtype)
        return (a * wide).astype(g.dtype), jnp.sum(wide * x.astype(a.dtype))

    a, x = saved
    dx, da = _dispatch(_backward_kernel, plain, a, g, x, blocks, sums=True)
    return da, dx, g


_scale_add.defvjp(lambda a, x, y, blocks: (_scale_add(a, x, y, blocks), (a, x)), _backward)


def _dispatch(kernel, plain, a, x, y, blocks, sums):
    if not x.size:
        return plain(a, x, y)
    itemsize = x.dtype.itemsize
    blocks = blocks or elementwise.blocks_of(x.shape, itemsize)
    flat, block = elementwise.seen_as(x.shape, itemsize, blocks)
    needed = elementwise.vmem_bytes(block, [itemsize] * 3)
    check_fits(blocks, needed)

    def on_tpu(a, x, y):
        spec, scalar = pl.BlockSpec(block, lambda *step: step), pl.BlockSpec(memory_space=pltpu.SMEM)
        array = jax.ShapeDtypeStruct(flat, x.dtype)
        order = "arbitrary" if sums else "parallel"
        out = pl.pallas_call(
            functools.partial(kernel, shape=flat) if sums else kernel,
            out_shape=[array, jax.ShapeDtypeStruct((1, 1), a.dtype)] if sums else array,
            grid=tuple(pl.cdiv(n, b) for n, b in zip(flat, block, strict=True)),
            in_specs=[scalar, spec, spec],
            out_specs=[spec, scalar] if sums else spec,
            compiler_params=compiler_params(needed, *[order] * len(flat)),
        )(a.reshape(1, 1), x.reshape(flat), y.reshape(flat))
        return (out[0].reshape(x.shape), out[1].reshape(())) if sums else out.reshape(x.shape)

    return platforms.by_platform(a, x, y, tpu=on_tpu, default=plain)
