"""The last part of the page that ``python -m course_lib.kernels norm`` prints, behind kernel.py.

Left to the library: ``rms_norm_residual``, no bias, a traced eps, checks of arguments, meshes, GPUs, other chips.
"""

import functools
import math

import jax
from jax import Array, lax
from jax.experimental import pallas as pl

from course_lib.kernels.common.layouts import is_by_columns
from course_lib.kernels.norm.kernel import (
    Blocks,
    _gradient_kernel,
    _layer_norm_kernel,
    _rms_norm_kernel,
    launch,
    layer_norm_reference,
    rms_norm_reference,
)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def rms_norm(x: Array, weight: Array, eps: float = 1e-6, blocks: Blocks | None = None) -> Array:
    """Return the RMSNorm of the last axis: the kernel on a TPU, plain JAX elsewhere; differentiable."""
    return _run(_rms_norm_kernel, rms_norm_reference, eps, blocks, (x,), (weight,))[0]


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def layer_norm(x: Array, weight: Array, bias: Array, eps: float = 1e-6, blocks: Blocks | None = None) -> Array:
    """Return the LayerNorm of the last axis, likewise."""
    return _run(_layer_norm_kernel, layer_norm_reference, eps, blocks, (x,), (weight, bias))[0]


def _gradient(reference, eps, blocks, saved, g):
    plain = lambda x, g, *vectors, eps: jax.vjp(functools.partial(reference, eps=eps), x, *vectors)[1](g)  # noqa: E731
    return tuple(_run(_gradient_kernel, plain, eps, blocks, (saved[0], g), saved[1:], gradient=True))


rms_norm.defvjp(lambda *args: (rms_norm(*args), args[:2]), functools.partial(_gradient, rms_norm_reference))
layer_norm.defvjp(lambda *args: (layer_norm(*args), args[:3]), functools.partial(_gradient, layer_norm_reference))


def _run(kernel, plain, eps, blocks, arrays, vectors, gradient=False):
    rows, columns = math.prod(arrays[0].shape[:-1]), arrays[0].shape[-1]
    elements = 2**18 if gradient else 2**19  # of a block: 1 and 2 MiB in f32
    if is_by_columns(arrays[0].shape) and not blocks:  # its transpose is what lies in HBM: rows lie along lanes
        axis, bm = 0, pl.cdiv(max(1, min(elements // (pl.cdiv(columns, 8) * 8), pl.cdiv(rows, 4))), 128) * 128
    else:
        usual = min(elements // (pl.cdiv(columns, 128) * 128), 1024, max(32, pl.cdiv(rows, 2)))
        axis, bm = 1, min(rows, blocks.bm if blocks else pl.cdiv(max(1, usual), 16) * 16)
    how = {"bm": bm, "axis": axis, "gradient": gradient, "vmem_limit_bytes": 40 << 20}

    def on_tpu(*operands):
        return launch(functools.partial(kernel, eps=eps), operands[: len(arrays)], operands[len(arrays) :], **how)

    default = lambda *operands: jax.tree.leaves(plain(*operands, eps=eps))  # noqa: E731
    return lax.platform_dependent(*arrays, *vectors, tpu=on_tpu, default=default)
