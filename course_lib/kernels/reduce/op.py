"""``sum_over`` and ``max_over`` for callers: arguments checked, on meshes, differentiable, and plain JAX elsewhere."""

import functools

import jax.numpy as jnp

from course_lib.arrays import Array, Described, Num
from course_lib.kernels.common import arguments, axes, legal
from course_lib.kernels.common.along_axis import accumulator
from course_lib.kernels.common.compiler_params import check_fits, vmem_limit
from course_lib.kernels.common.symbolic import planned
from course_lib.kernels.dispatch import mesh_rules, sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.reduce.blocks import block_of, blocks_of, vmem_bytes
from course_lib.kernels.reduce.kernel import MAX, SUM, Axes, Blocks, Reduction, launch
from course_lib.kernels.reduce.middle import along_middle
from course_lib.kernels.reduce.passes import passes

_NAMES = {SUM: "sum_over", MAX: "max_over"}
_SIGNS = {SUM: "+", MAX: "^"}  # in a rule: of an axis whose parts lie on several devices


def sum_over(
    x: Num[Array, "*shape"], axis: Axes = None, *, blocks: Blocks | None = None, layout: Layout = None
) -> Num[Array, "*rest"]:
    """Return the sum over ``axis``: one, several in a tuple, or None for all. f32, bf16 or int32, and so is the result.

    Floats are summed in f32 and rounded once. Differentiable; XLA broadcasts the gradient, which needs no kernel. Runs
    the kernel on a TPU and plain JAX elsewhere. ``layout`` says how x lies on a mesh with Auto axes. Raises ValueError
    if x has no such axis, for another dtype, or if the blocks need more VMEM than there is.
    """
    (x,) = arguments.arrays("sum_over", arguments.NUMBERS, x=x)
    legal.check_kind("sum_over", blocks, Blocks)
    axis = axes.several("sum_over", x, axis)
    (x,), cuts = sharding.ready("sum_over", _rule(x.ndim, axis, SUM), (x,), layout)
    return _reduce(x, SUM, axis, blocks, cuts)


def max_over(
    x: Num[Array, "*shape"], axis: Axes = None, *, blocks: Blocks | None = None, layout: Layout = None
) -> Num[Array, "*rest"]:
    """Return the maximum, or NaN if there is one; as ``sum_over``.

    Equal maxima share the gradient, as those of ``jnp.max`` do. Also raises ValueError if there is nothing to choose
    from.
    """
    (x,) = arguments.arrays("max_over", arguments.NUMBERS, x=x)
    legal.check_kind("max_over", blocks, Blocks)
    axis = axes.several("max_over", x, axis)
    if 0 in (x.shape if axis is None else [x.shape[each] for each in axis]):
        raise ValueError(
            f"max_over: x has shape {x.shape}, and nothing has no maximum. Try an axis along which it is not empty."
        )
    (x,), cuts = sharding.ready("max_over", _rule(x.ndim, axis, MAX), (x,), layout)
    return _reduce(x, MAX, axis, blocks, cuts)


def blocks_for(x: Num[Described, "*shape"], axis: Axes = None) -> Blocks:
    """Return the blocks that ``sum_over`` and ``max_over`` choose for the first of several passes; for every chip."""
    first = passes(planned(x.shape), axes.several("blocks_for", x, axis))[0]
    return blocks_of(first.view, x.dtype.itemsize)


def _rule(rank: int, axis: tuple[int, ...] | None, reduction: Reduction) -> str:
    letters = mesh_rules.letters(rank).split()
    out = (_SIGNS[reduction] + letter if axis is None or n in axis else letter for n, letter in enumerate(letters))
    return f"{' '.join(letters)} -> {' '.join(out)}"


@functools.partial(differentiable, settings=4)
def _reduce(x, reduction, axis, blocks, cuts):
    plain = fixed(_plain, reduction=reduction, axis=axis)
    if not x.size or not x.ndim or axis == ():
        return plain(x)
    for each in passes(planned(x.shape), axis) if blocks else ():
        check_fits(blocks, vmem_bytes(each.view, each.axis, blocks, x.dtype.itemsize))
    on_tpu = fixed(_on_tpu, reduction=reduction, axis=axis, blocks=blocks)
    rule = _rule(x.ndim, axis, reduction)
    return Op(name=_NAMES[reduction], rule=rule, tpu=on_tpu, plain=plain)(x, cuts=cuts)


def _plain(x, *, reduction, axis):
    out = reduction.along(x.astype(accumulator(x.dtype)), axis).astype(x.dtype)
    if reduction is MAX and jnp.issubdtype(x.dtype, jnp.floating):  # on a CPU XLA's maximum of wide columns loses NaN
        out = jnp.where(jnp.isnan(x).any(axis), jnp.nan, out).astype(x.dtype)
    return out


def _on_tpu(x, *, reduction, axis, blocks):
    """Reduce one device's part of the array, pass by pass; between them it has the dtype of the accumulator."""
    out, all_passes = x, passes(x.shape, axis)
    for n, each in enumerate(all_passes, 1):
        dtype = x.dtype if n == len(all_passes) else accumulator(x.dtype)
        out = _along(each.seen(out), reduction, each.axis, blocks, dtype)
    left = () if axis is None else (size for n, size in enumerate(x.shape) if n not in axis)
    return out.reshape(tuple(left))


def _along(x, reduction, axis, blocks, dtype):
    """Reduce x (M, N) along ``axis``, or x (A, N, C) or (A, N, R, C) along N."""
    blocks = blocks or blocks_of(x.shape, x.dtype.itemsize)
    if x.ndim > 2:
        return along_middle(x, reduction, blocks.bm, blocks.bn, dtype)
    limit = vmem_limit(vmem_bytes(x.shape, axis, blocks, x.dtype.itemsize))
    return launch(x, reduction, axis, block_of(x.shape, axis, blocks), dtype, limit)


def _forward(x, reduction, axis, blocks, cuts):
    out = _reduce(x, reduction, axis, blocks, cuts)
    return out, (x, out) if reduction is MAX else x


def _backward(reduction, axis, blocks, cuts, saved, g):
    if reduction is SUM:
        return (_spread(g, axis, saved),)
    x, out = saved
    chosen = (x == _spread(out, axis, x)).astype(g.dtype)
    return (chosen * _spread(g / _reduce(chosen, SUM, axis, blocks, cuts), axis, x),)


def _spread(reduced, axis, x):
    """Return ``reduced``, repeated along the reduced axes of x, and cut among devices as x is."""
    wide = reduced if axis is None else jnp.expand_dims(reduced, axis)
    return jnp.broadcast_to(wide, x.shape, out_sharding=sharding.known(x))


_reduce.defvjp(_forward, _backward)
