"""``scale_add`` for callers: arguments checked, on meshes, differentiable, and plain JAX where there is no TPU."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from course_lib.arrays import Array, Described, Num
from course_lib.kernels.common import arguments, legal
from course_lib.kernels.common.compiler_params import check_fits, vmem_limit
from course_lib.kernels.dispatch import mesh_rules, sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.elementwise.blocks import blocks_of, seen_as, vmem_bytes
from course_lib.kernels.elementwise.kernel import Blocks
from course_lib.kernels.elementwise.op import pair
from course_lib.kernels.scale_add.kernel import gradient_reference, launch, launch_gradient, reference


def scale_add(
    a: Num[Array, ""] | float,
    x: Num[Array, "*shape"],
    y: Num[Array, "*shape"],
    *,
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> Num[Array, "*shape"]:
    """Return ``a * x + y`` for two arrays of one shape and one dtype (f32, bf16, int32), differentiable by all three.

    ``a`` is converted to f32, or to int32 if x is int32; floats are computed in f32 and rounded once. Runs the kernel
    on a TPU and plain JAX elsewhere. ``layout`` says how x and y lie on a mesh with Auto axes: a PartitionSpec for
    both. Raises ValueError if ``a`` is no scalar, or a float beside integers, if shapes or dtypes differ, or if the
    blocks need more VMEM than there is.
    """
    x, y = pair("scale_add", x, y)
    a = _scalar(a, x)
    legal.check_kind("scale_add", blocks, Blocks)
    layout = (None, layout) if isinstance(layout, jax.sharding.PartitionSpec) else layout
    operands, cuts = sharding.ready("scale_add", _rule(x.ndim), (a, x, y), layout)
    return _scale_add(*operands, blocks, cuts)


def _scalar(a, x: Array) -> Array:
    """Return ``a`` as the kernel takes it: in f32, or in int32 if x is int32."""
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
    """Return the blocks that ``scale_add`` chooses for these arguments; right for every chip."""
    return blocks_of(x.shape, x.dtype.itemsize)


def _rule(rank: int) -> str:
    return f", {mesh_rules.letters(rank)}, {mesh_rules.letters(rank)} -> {mesh_rules.letters(rank)}"


@functools.partial(differentiable, settings=2)
def _scale_add(a, x, y, blocks, cuts):
    if not x.size:
        return reference(a, x, y)
    if blocks:
        check_fits(blocks, _cut(blocks, x)[2])
    on_tpu = _on_tpus(launch, blocks)
    how = {"leading": () if blocks else (1, 2), "dtypes": (x.dtype,)}
    return Op(name="scale_add", rule=_rule(x.ndim), plain=reference, **how, **on_tpu)(a, x, y, cuts=cuts)


def _forward(a, x, y, blocks, cuts):
    return _scale_add(a, x, y, blocks, cuts), (a, x)


def _backward(blocks, cuts, saved, g):
    a, x = saved
    if not x.size:
        da, dx = gradient_reference(a, g, x)
        return da, dx, g
    axes = mesh_rules.letters(x.ndim)
    rule = f", {axes}, {axes} -> {' '.join('+' + axis for axis in axes.split())}, {axes}"
    how = {"plain": gradient_reference, "dtypes": (a.dtype, g.dtype)} | _on_tpus(launch_gradient, blocks)
    da, dx = Op(name="gradient of scale_add", rule=rule, **how)(a, g, x, cuts=cuts)
    return da, dx, g


_scale_add.defvjp(_forward, _backward)


def _on_tpus(run: Callable, blocks: Blocks | None) -> dict[str, Callable]:
    how = {"run": run, "blocks": blocks}
    return {"tpu": fixed(_on_tpu, **how), "tpu_mapped": fixed(_on_tpu, **how, mapped=True)}


def _on_tpu(*operands: Array, run: Callable, blocks: Blocks | None, mapped: bool = False):
    """Run one of the kernels on one device's part of the arrays."""
    view, block, needed = _cut(blocks, operands[1], mapped)
    return run(*operands, view=view, block=block, vmem_limit_bytes=vmem_limit(needed))


def _cut(blocks: Blocks | None, x: Array, mapped: bool = False) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Return the view of x, the shape of its blocks, and the bytes of VMEM that blocks of three arrays take."""
    size = x.dtype.itemsize
    view, block = seen_as(x.shape, size, blocks or blocks_of(x.shape, size), mapped)
    return view, block, vmem_bytes(block, [size] * 3)
