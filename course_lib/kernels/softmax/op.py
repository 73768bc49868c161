"""``softmax`` for callers: arguments checked, on meshes, differentiable, and plain JAX where there is no TPU."""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp

from course_lib.arrays import Array, Described, Float
from course_lib.kernels.common import arguments, axes, legal, portable, row_blocks
from course_lib.kernels.common.compiler_params import vmem_limit
from course_lib.kernels.common.layouts import is_by_columns
from course_lib.kernels.common.symbolic import cut
from course_lib.kernels.dispatch import mesh_rules, sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.norm import mosaic_gpu as norm_gpu
from course_lib.kernels.softmax import blocks as softmax_blocks
from course_lib.kernels.softmax.kernel import (
    GRADIENT_KERNELS,
    KERNELS,
    Blocks,
    gradient_reference,
    launch,
    reference,
)


def softmax(
    x: Float[Array, "*shape"], axis: int = -1, *, blocks: Blocks | None = None, layout: Layout = None
) -> Float[Array, "*shape"]:
    """Return the softmax of an f32 or bf16 array along one axis, as ``jax.nn.softmax`` does, infinities included.

    Differentiable. Runs the kernel on a TPU and plain JAX elsewhere. ``blocks`` None: those of ``blocks_for``.
    ``layout`` says how x lies on a mesh with Auto axes; if ``axis`` is cut among devices, plain JAX runs. Along another
    axis than the last, 128 columns are computed side by side; if fewer lie behind the axis, the other lanes are idle.
    Raises ValueError for another dtype, if x has no such axis, and for blocks that need more VMEM than there is.
    """
    (x,) = arguments.arrays("softmax", arguments.FLOATS, x=x)
    row_blocks.check_rows("softmax", x)
    legal.check_kind("softmax", blocks, Blocks)
    axis = axes.one("softmax", x, axis)
    (x,), cuts = sharding.ready("softmax", _rule(1, x, axis), (x,), layout)
    return _softmax(x, axis, blocks, cuts)


def blocks_for(x: Float[Described, "*shape"], axis: int = -1) -> Blocks:
    """Return the blocks that ``softmax`` chooses, on the chip traced for: whole rows, or columns, wherever they fit."""
    return softmax_blocks.fastest(x, axes.one("blocks_for", x, axis), arrays=2)


def _rule(operands: int, x: Array, axis: int) -> str:
    letters = mesh_rules.letters(x.ndim).split()
    letters[axis] = "N"
    return ", ".join([" ".join(letters)] * operands) + " -> " + " ".join(letters)


@functools.partial(differentiable, settings=3)
def _softmax(x, axis, blocks, cuts):
    on_gpus = {
        "gpu": fixed(norm_gpu.on_gpu, op=norm_gpu.softmax),
        "portable": fixed(portable.by_rows, kernel=fixed(KERNELS[0], axis=1), outside=-math.inf, name="softmax"),
    }
    return _call("softmax", KERNELS, reference, axis, blocks, cuts, x, **on_gpus)


def _forward(x, *how):
    y = _softmax(x, *how)
    return y, y


def _backward(axis, blocks, cuts, y, g):
    name = "gradient of softmax"
    by_rows = fixed(portable.by_rows, kernel=fixed(GRADIENT_KERNELS[0], axis=1), arrays=2, name=name)
    return (_call(name, GRADIENT_KERNELS, gradient_reference, axis, blocks, cuts, y, g, portable=by_rows),)


_softmax.defvjp(_forward, _backward)


def _call(op: str, kernels, plain: Callable, axis: int, blocks, cuts, *operands: Array, **on_gpus) -> Array:
    """Run ``kernels`` or ``plain``; ``on_gpus`` is what GPUs run, but only along the last axis."""
    x = operands[0]
    if not x.size:
        return x
    softmax_blocks.chosen(blocks, x, axis, len(operands) + 1)
    last = axis - x.ndim  # counted from the end, because jax.vmap may add axes in front
    launched = Op(
        name=op,
        rule=_rule(len(operands), x, axis),
        tpu=fixed(_on_tpu, kernels=kernels, axis=last, blocks=blocks),
        plain=fixed(plain, axis=last),
        leading=() if blocks else tuple(range(len(operands))),
        **(on_gpus if last == -1 else {}),
    )
    return launched(*operands, cuts=cuts)


def _on_tpu(*operands: Array, kernels, axis: int, blocks: Blocks | None) -> Array:
    x, arrays = operands[0], len(operands) + 1
    axis %= x.ndim
    if blocks is None and _is_taken_transposed(x, axis, arrays):
        return _on_tpu(*(operand.T for operand in operands), kernels=kernels, axis=1 - axis, blocks=None).T
    if axis != x.ndim - 1 and softmax_blocks.by_rows(x, axis, arrays):
        rows = (jnp.moveaxis(operand, axis, -1) for operand in operands)
        return jnp.moveaxis(_on_tpu(*rows, kernels=kernels, axis=-1, blocks=blocks), -1, axis)
    blocks, needed = softmax_blocks.chosen(blocks, x, axis, arrays)
    if axis == x.ndim - 1:
        view = math.prod(x.shape[:-1]), x.shape[-1]
        block = cut(blocks.bm, view[0]), min(view[1], blocks.bn or view[1])
    else:
        view, block = axes.seen_as(x.shape, axis), softmax_blocks.block_of_columns(x.shape, axis, blocks)
    return launch(kernels, *operands, view=view, block=block, vmem_limit_bytes=vmem_limit(needed))


def _is_taken_transposed(x: Described, axis: int, arrays: int) -> bool:
    """Whether to take the transpose, which is how XLA stores x: as rows of 64 elements, half of the lanes were idle."""
    if not is_by_columns(x.shape):
        return False
    return axis == 0 or not softmax_blocks.by_rows(jax.ShapeDtypeStruct(x.shape[::-1], x.dtype), 0, arrays)
