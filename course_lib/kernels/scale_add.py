"""``o = a * x + y`` for a scalar ``a`` and arrays of any shape; the gradient in one kernel, too.

Cost   FLOPs 2 * size;  HBM bytes 3 * size * itemsize: every element read twice, written once
       gradient: FLOPs 3 * size;  HBM bytes 3 * size * itemsize: g and x read, dx written, and da is summed on the way
VMEM   2 * 3 * bm * bn * itemsize

Blocks are those of `elementwise`. The scalar lies in SMEM, and so does its gradient while the grid runs.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Described, Num, Ref
from course_lib.kernels import elementwise
from course_lib.kernels.common import arguments, legal
from course_lib.kernels.common.along_axis import accumulator
from course_lib.kernels.common.compiler_params import check_fits, compiler_params
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.dispatch import mesh_rules, sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.elementwise import Blocks


def reference(a: Num[Array, ""] | float, x: Num[Array, "*shape"], y: Num[Array, "*shape"]) -> Num[Array, "*shape"]:
    """What ``scale_add`` must compute: floats in f32, rounded once."""
    wide = accumulator(x.dtype)
    return (jnp.asarray(a, wide) * x.astype(wide) + y.astype(wide)).astype(x.dtype)


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
    a: Num[Array, ""] | float,
    x: Num[Array, "*shape"],
    y: Num[Array, "*shape"],
    *,
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> Num[Array, "*shape"]:
    """``a * x + y`` for two arrays of one shape and one dtype (f32, bf16, int32), differentiable by all three.

    ``a`` is taken as f32, or as int32 where ``x`` is; floats are computed in f32 and rounded once. Runs the kernel on
    a TPU and plain JAX elsewhere. ``layout`` says how x and y lie on a mesh with Auto axes: a PartitionSpec for both.
    Raises ValueError where ``a`` is no scalar, or a float beside integers, where shapes or dtypes differ, and where
    the blocks need more VMEM than there is.
    """
    x, y = elementwise.pair("scale_add", x, y)
    a = _scalar(a, x)
    legal.check_kind("scale_add", blocks, Blocks)
    layout = (None, layout) if isinstance(layout, jax.sharding.PartitionSpec) else layout
    operands, cuts = sharding.ready("scale_add", _rule(x.ndim), (a, x, y), layout)
    return _scale_add(*operands, blocks, cuts)


def _scalar(a, x: Array) -> Array:
    """``a`` as the kernel takes it: as f32, or int32 where x is."""
    floats = jnp.issubdtype(x.dtype, jnp.floating)
    if isinstance(a, int | float) and not isinstance(a, bool):
        a = jnp.asarray(a, jnp.float32 if floats or isinstance(a, float) else jnp.int32)
    (a,) = arguments.arrays("scale_add", arguments.NUMBERS, a=a)
    if a.ndim:
        raise ValueError(f"scale_add: a has shape {a.shape}; it must be a scalar. Try multiply and add.")
    if not floats and a.dtype != x.dtype:
        raise ValueError(
            f"scale_add: a is {a.dtype}, and x and y are {x.dtype}, which cannot keep a fraction. "
            "Try x.astype(jnp.float32), and y likewise, or a whole number."
        )
    return a.astype(jnp.float32) if floats else a


def blocks_for(a: Num[Described, ""] | float, x: Num[Described, "*shape"], y: Num[Described, "*shape"]) -> Blocks:
    """The blocks that ``scale_add`` chooses for these arguments; right for every chip."""
    return elementwise.blocks_of(x.shape, x.dtype.itemsize)


def _rule(rank: int) -> str:
    return f", {mesh_rules.letters(rank)}, {mesh_rules.letters(rank)} -> {mesh_rules.letters(rank)}"


@functools.partial(differentiable, settings=2)
def _scale_add(a, x, y, blocks, cuts):
    if not x.size:
        return reference(a, x, y)
    _cut(blocks, x)
    on_tpu = _on_tpus(_on_tpu, blocks)
    leading = () if blocks else (1, 2)
    return Op(name="scale_add", rule=_rule(x.ndim), plain=reference, leading=leading, **on_tpu)(a, x, y, cuts=cuts)


def _on_tpus(kernel: Callable, blocks: Blocks | None) -> dict[str, Callable]:
    return {"tpu": fixed(kernel, blocks=blocks), "tpu_mapped": fixed(kernel, blocks=blocks, mapped=True)}


def _forward(a, x, y, blocks, cuts):
    return _scale_add(a, x, y, blocks, cuts), (a, x)


def _backward(blocks, cuts, saved, g):
    a, x = saved
    if not x.size:
        da, dx = _backward_plain(a, g, x)
        return da, dx, g
    axes = mesh_rules.letters(x.ndim)
    rule = f", {axes}, {axes} -> {' '.join('+' + axis for axis in axes.split())}, {axes}"
    on_tpu = _on_tpus(_backward_on_tpu, blocks)
    da, dx = Op(name="gradient of scale_add", rule=rule, plain=_backward_plain, **on_tpu)(a, g, x, cuts=cuts)
    return da, dx, g


_scale_add.defvjp(_forward, _backward)


def _backward_plain(a, g, x):
    wide = g.astype(a.dtype)
    return jnp.sum(wide * x.astype(a.dtype)), (a * wide).astype(g.dtype)


def _cut(blocks: Blocks | None, x: Array, mapped: bool = False) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """The shape that x is seen as, that of its blocks, and the bytes of VMEM that blocks of three arrays take."""
    blocks = blocks or blocks_for(0, x, x)
    flat, block = elementwise.seen_as(x.shape, x.dtype.itemsize, blocks, mapped)
    needed = elementwise.vmem_bytes(block, [x.dtype.itemsize] * 3)
    check_fits(blocks, needed)
    return flat, block, needed


def _on_tpu(a, x, y, *, blocks, mapped=False):
    flat, block, needed = _cut(blocks, x, mapped)
    spec, scalar = pl.BlockSpec(block, lambda *step: step), pl.BlockSpec(memory_space=pltpu.SMEM)
    out = pl.pallas_call(
        _kernel,
        out_shape=out_type(x, flat, x.dtype),
        grid=tuple(pl.cdiv(n, b) for n, b in zip(flat, block, strict=True)),
        in_specs=[scalar, spec, spec],
        out_specs=spec,
        compiler_params=compiler_params(needed, *["parallel"] * len(flat)),
    )(a.reshape(1, 1), x.reshape(flat), y.reshape(flat))
    return out.reshape(x.shape)


def _backward_on_tpu(a, g, x, *, blocks, mapped=False):
    flat, block, needed = _cut(blocks, x, mapped)
    spec, scalar = pl.BlockSpec(block, lambda *step: step), pl.BlockSpec(memory_space=pltpu.SMEM)
    dx, da = pl.pallas_call(
        functools.partial(_backward_kernel, shape=flat),
        out_shape=[out_type(x, flat, x.dtype), out_type(x, (1, 1), a.dtype)],
        grid=tuple(pl.cdiv(n, b) for n, b in zip(flat, block, strict=True)),
        in_specs=[scalar, spec, spec],
        out_specs=[spec, scalar],
        compiler_params=compiler_params(needed, *["arbitrary"] * len(flat)),
    )(a.reshape(1, 1), g.reshape(flat), x.reshape(flat))
    return da.reshape(()), dx.reshape(x.shape)
