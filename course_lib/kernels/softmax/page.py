"""The last part of the page that ``python -m course_lib.kernels softmax`` prints, behind kernel.py.

Left to the library: checks of arguments, meshes, GPUs, blocks for any chip, and columns too long for VMEM.
"""

import functools
import math

import jax
from jax import Array, lax
from jax.experimental import pallas as pl

from course_lib.kernels.common.layouts import is_by_columns
from course_lib.kernels.softmax.kernel import (
    GRADIENT_KERNELS,
    KERNELS,
    Blocks,
    gradient_reference,
    launch,
    reference,
)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def softmax(x: Array, axis: int = -1, blocks: Blocks | None = None) -> Array:
    """Return the softmax of x: the kernel on a TPU, plain JAX elsewhere. It is differentiable."""
    return _run(KERNELS, reference, axis, blocks, x)


def _run(kernels, plain, axis, blocks, *operands):
    plain = functools.partial(plain, axis=axis)
    on_tpu = functools.partial(_on_tpu, kernels, plain, axis % operands[0].ndim, blocks)
    return lax.platform_dependent(*operands, tpu=on_tpu, default=plain)


softmax.defvjp(
    lambda x, axis, blocks: (softmax(x, axis, blocks),) * 2,
    lambda axis, blocks, y, g: (_run(GRADIENT_KERNELS, gradient_reference, axis, blocks, y, g),),
)


def _on_tpu(kernels, plain, axis, blocks, *operands):
    x, bytes_each = operands[0], 2 * (len(operands) + 1) * operands[0].dtype.itemsize + 8  # of an element in VMEM
    before, size, behind = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
    columns_fit = size * 128 * bytes_each <= 112 << 20
    if is_by_columns(x.shape) and (axis == 0 or columns_fit):  # its transpose is what lies in HBM
        return _on_tpu(kernels, plain, 1 - axis, blocks, *(operand.T for operand in operands)).T
    if behind > 1 and not columns_fit:
        return plain(*operands)
    elements = min(2**19, max(2**17, x.size // 4))  # of a block: 2 MiB in f32, less for a small array
    if behind > 1:
        bn = max(128, elements // size // 128 * 128)
        view, block = (before, size, behind), (min(before, max(1, elements // (size * bn))), size, min(bn, behind))
    else:
        rows = min(pl.cdiv(elements, size), 1024, max(32, before // 2))
        bm, bn = (blocks.bm, blocks.bn) if blocks else (pl.cdiv(rows, 16) * 16, None if size <= 2**16 else 2**14)
        view, block = (before, size), (min(bm, before), min(bn or size, size))
    padded = [pl.cdiv(length, tile) * tile for length, tile in zip(block[-2:], (16, 128), strict=True)]
    limit = min(128 << 20, max(16 << 20, math.prod((*block[:-2], *padded, bytes_each)) * 5 // 4))
    return launch(kernels, *operands, view=view, block=block, vmem_limit_bytes=limit)
