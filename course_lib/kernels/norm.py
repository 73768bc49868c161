"""Normalisation of each row, and RMSNorm with the residual that a transformer adds before it.

``rms_norm``           ``o[i] = x[i] / sqrt(mean_j x[i, j]**2 + eps) * weight``
``layer_norm``         ``o[i] = (x[i] - mean[i]) / sqrt(variance[i] + eps) * weight + bias``
``rms_norm_residual``  ``s = x + residual`` and ``rms_norm(s, weight, eps)``, both returned

Cost   FLOPs 4 * M * N, 7 * M * N, 5 * M * N;  HBM bytes 2 * M * N * itemsize, with a residual 4 * M * N * itemsize:
       each array read or written once. To them come weight and bias, N elements each, fetched once
VMEM   bm * N * (4 * itemsize + 8), with a residual bm * N * (8 * itemsize + 8)

An array of any rank is seen as (M, N), N its last axis, and cut into blocks of bm whole rows. Statistics are in f32
whatever x is. The gradients are kernels too: ``norm_backward``.
"""

import dataclasses
import functools
import math
from collections.abc import Callable

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from course_lib.arrays import Array, Described, Float, Ref
from course_lib.kernels import legal, norm_backward, norm_gpu, row_blocks, rules, sharding
from course_lib.kernels.compiler_params import check_fits, compiler_params
from course_lib.kernels.derivatives import differentiable
from course_lib.kernels.launch import Op, fixed
from course_lib.kernels.rules import Layout


def rms_norm_reference(
    x: Float[Array, "*shape N"], weight: Float[Array, " N"], eps: float = 1e-6
) -> Float[Array, "*shape N"]:
    """What ``rms_norm`` must compute: in f32, rounded once to the dtype of x."""
    wide = x.astype(jnp.float32)
    rstd = lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + eps)
    return (wide * rstd * weight.astype(jnp.float32)).astype(x.dtype)


def layer_norm_reference(
    x: Float[Array, "*shape N"], weight: Float[Array, " N"], bias: Float[Array, " N"], eps: float = 1e-6
) -> Float[Array, "*shape N"]:
    """What ``layer_norm`` must compute: in f32, rounded once to the dtype of x."""
    wide = x.astype(jnp.float32)
    centred = wide - jnp.mean(wide, axis=-1, keepdims=True)
    rstd = lax.rsqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + eps)
    return (centred * rstd * weight.astype(jnp.float32) + bias.astype(jnp.float32)).astype(x.dtype)


def rms_norm_residual_reference(
    x: Float[Array, "*shape N"], residual: Float[Array, "*shape N"], weight: Float[Array, " N"], eps: float = 1e-6
) -> tuple[Float[Array, "*shape N"], Float[Array, "*shape N"]]:
    """What ``rms_norm_residual`` must compute."""
    s = x + residual
    return rms_norm_reference(s, weight, eps), s


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Rows of a block, a multiple of 8; rows stay whole. They never change the result, only the speed."""

    bm: int

    def __post_init__(self):
        legal.check(self, bm=legal.SUBLANES)


def _rms_norm_kernel(
    x_ref: Float[Ref, "bm N"], weight_ref: Float[Ref, "1 N"], o_ref: Float[Ref, "bm N"], *, eps: float
) -> None:
    x = x_ref[...].astype(jnp.float32)
    rstd = lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps)
    o_ref[...] = (x * rstd * weight_ref[...].astype(jnp.float32)).astype(o_ref.dtype)


def _layer_norm_kernel(
    x_ref: Float[Ref, "bm N"],
    weight_ref: Float[Ref, "1 N"],
    bias_ref: Float[Ref, "1 N"],
    o_ref: Float[Ref, "bm N"],
    *,
    eps: float,
) -> None:
    x = x_ref[...].astype(jnp.float32)
    x -= jnp.mean(x, axis=-1, keepdims=True)  # the row is in VMEM: going over it twice costs no traffic
    rstd = lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps)
    o_ref[...] = (x * rstd * weight_ref[...].astype(jnp.float32) + bias_ref[...].astype(jnp.float32)).astype(
        o_ref.dtype
    )


def _rms_norm_residual_kernel(
    x_ref: Float[Ref, "bm N"],
    residual_ref: Float[Ref, "bm N"],
    weight_ref: Float[Ref, "1 N"],
    o_ref: Float[Ref, "bm N"],
    s_ref: Float[Ref, "bm N"],
    *,
    eps: float,
) -> None:
    s_ref[...] = x_ref[...] + residual_ref[...]
    _rms_norm_kernel(s_ref, weight_ref, o_ref, eps=eps)


def rms_norm(
    x: Float[Array, "*shape N"],
    weight: Float[Array, " N"],
    eps: float = 1e-6,
    *,
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> Float[Array, "*shape N"]:
    """RMSNorm over the last axis (Zhang and Sennrich 2019) of an f32 or bf16 array, differentiable.

    The result has the dtype of x, whatever that of ``weight``. Runs the kernel on a TPU and plain JAX elsewhere.
    ``blocks`` None: those of ``blocks_for``, and for the gradient what fits there. ``layout`` says how x lies on a mesh
    with Auto axes; rows that are cut among devices are left to plain JAX.
    Raises ValueError for other dtypes, a weight of another length, and rows or blocks that do not fit in VMEM.
    """
    row_blocks.check_rows("rms_norm", x)
    _check_vector("rms_norm", x, "weight", weight)
    operands, cuts = sharding.ready("rms_norm", _rule(x, 1, 1), (x, weight), layout)
    return _rms_norm(*operands, float(eps), blocks, cuts)


def layer_norm(
    x: Float[Array, "*shape N"],
    weight: Float[Array, " N"],
    bias: Float[Array, " N"],
    eps: float = 1e-6,
    *,
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> Float[Array, "*shape N"]:
    """LayerNorm over the last axis (Ba, Kiros and Hinton 2016); the rest as in ``rms_norm``."""
    row_blocks.check_rows("layer_norm", x)
    _check_vector("layer_norm", x, "weight", weight)
    _check_vector("layer_norm", x, "bias", bias)
    operands, cuts = sharding.ready("layer_norm", _rule(x, 1, 2), (x, weight, bias), layout)
    return _layer_norm(*operands, float(eps), blocks, cuts)


def rms_norm_residual(
    x: Float[Array, "*shape N"],
    residual: Float[Array, "*shape N"],
    weight: Float[Array, " N"],
    eps: float = 1e-6,
    *,
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> tuple[Float[Array, "*shape N"], Float[Array, "*shape N"]]:
    """``(rms_norm(s, weight, eps), s)`` with ``s = x + residual``, the residual for the next layer.

    x and residual have one shape and one dtype. The rest as in ``rms_norm``.
    """
    row_blocks.check_rows("rms_norm_residual", x)
    _check_vector("rms_norm_residual", x, "weight", weight)
    if (x.shape, x.dtype) != (residual.shape, residual.dtype):
        raise ValueError(
            f"rms_norm_residual: x is {x.dtype} of shape {x.shape} and residual {residual.dtype} of shape "
            f"{residual.shape}; they must be equal. Try residual.astype(x.dtype)."
        )
    operands, cuts = sharding.ready("rms_norm_residual", _rule(x, 2, 1), (x, residual, weight), layout)
    return _rms_norm_residual(*operands, float(eps), blocks, cuts)


def blocks_for(x: Float[Described, "*shape N"], *others, **named) -> Blocks:
    """The blocks that ``rms_norm`` and ``layer_norm`` choose, on the chip traced for; only x matters.

    Raises ValueError, naming the longest row that fits, where 8 rows are too many for VMEM.
    """
    return _blocks_for(x, operands=2)


def rms_norm_residual_blocks_for(x: Float[Described, "*shape N"], *others, **named) -> Blocks:
    """The blocks that ``rms_norm_residual`` chooses: as ``blocks_for``, with twice as many arrays to hold."""
    return _blocks_for(x, operands=4)


def _blocks_for(x: Described, operands: int) -> Blocks:
    return Blocks(bm=row_blocks.rows_for(x, operands, _TEMPORARIES))


_TEMPORARIES = 2  # f32 values of a block's size that live while it is computed


def _check_vector(op: str, x: Array, name: str, vector: Array) -> None:
    if vector.shape != x.shape[-1:] or not jnp.issubdtype(vector.dtype, jnp.floating):
        raise ValueError(
            f"{op}: {name} is {vector.dtype} of shape {vector.shape}; for x of shape {x.shape} it must be floats of "
            f"shape ({x.shape[-1]},). Try jnp.broadcast_to({name}, x.shape[-1:])."
        )


def _rule(x: Array, arrays: int, vectors: int) -> str:
    """Of so many arrays like x, which come out too, and vectors; rows stay whole."""
    axes = rules.letters(x.ndim - 1) + " N"
    return ", ".join([axes] * arrays + ["N"] * vectors) + " -> " + ", ".join([axes] * arrays)


@functools.partial(differentiable, settings=3)
def _rms_norm(x, weight, eps, blocks, cuts):
    return _call("rms_norm", _rms_norm_kernel, rms_norm_reference, eps, blocks, cuts, (x,), (weight,))


@functools.partial(differentiable, settings=3)
def _layer_norm(x, weight, bias, eps, blocks, cuts):
    return _call("layer_norm", _layer_norm_kernel, layer_norm_reference, eps, blocks, cuts, (x,), (weight, bias))


@functools.partial(differentiable, settings=3)
def _rms_norm_residual(x, residual, weight, eps, blocks, cuts):
    kernel, plain = _rms_norm_residual_kernel, rms_norm_residual_reference
    return _call("rms_norm_residual", kernel, plain, eps, blocks, cuts, (x, residual), (weight,))


# What is kept for the gradient is what was read, and no more: the statistics of a row that is read again cost nothing.


def _rms_norm_forward(x, weight, *how):
    return _rms_norm(x, weight, *how), (x, weight)


def _rms_norm_backward(eps, blocks, cuts, saved, g):
    x, weight = saved
    kernel, how = norm_backward.rms_norm_kernel, {"eps": eps, "blocks": blocks, "cuts": cuts}
    return norm_backward.call("rms_norm", kernel, rms_norm_reference, (x, g), (weight,), **how)


def _layer_norm_forward(x, weight, bias, *how):
    return _layer_norm(x, weight, bias, *how), (x, weight, bias)


def _layer_norm_backward(eps, blocks, cuts, saved, g):
    x, weight, bias = saved
    kernel, how = norm_backward.layer_norm_kernel, {"eps": eps, "blocks": blocks, "cuts": cuts}
    return norm_backward.call("layer_norm", kernel, layer_norm_reference, (x, g), (weight, bias), **how)


def _rms_norm_residual_forward(x, residual, weight, *how):
    o, s = _rms_norm_residual(x, residual, weight, *how)
    return (o, s), (s, weight)


def _rms_norm_residual_backward(eps, blocks, cuts, saved, gradients):
    s, weight = saved
    kernel, how = norm_backward.rms_norm_residual_kernel, {"eps": eps, "blocks": blocks, "cuts": cuts}
    ds, dweight = norm_backward.call("rms_norm_residual", kernel, _normed_and_kept, (s, *gradients), (weight,), **how)
    return ds, ds, dweight


def _normed_and_kept(s, weight, *, eps):
    return rms_norm_reference(s, weight, eps), s


_rms_norm.defvjp(_rms_norm_forward, _rms_norm_backward)
_layer_norm.defvjp(_layer_norm_forward, _layer_norm_backward)
_rms_norm_residual.defvjp(_rms_norm_residual_forward, _rms_norm_residual_backward)


def _call(op: str, kernel: Callable, plain: Callable, eps: float, blocks, cuts, arrays: tuple, vectors: tuple):
    x, plain = arrays[0], fixed(plain, eps=eps)
    if not x.size:
        return plain(*arrays, *vectors)
    _chosen(blocks, x, len(arrays))
    on_tpu = fixed(_on_tpu, kernel=fixed(kernel, eps=eps), blocks=blocks, count=len(arrays))
    rule = _rule(x, len(arrays), len(vectors))
    on_gpu = fixed(norm_gpu.on_gpu, op=_ON_GPU[op], eps=eps) if op in _ON_GPU else None
    return Op(name=op, rule=rule, tpu=on_tpu, gpu=on_gpu, plain=plain)(*arrays, *vectors, cuts=cuts)


_ON_GPU = {"rms_norm": norm_gpu.rms_norm, "layer_norm": norm_gpu.layer_norm}


def _chosen(blocks: Blocks | None, x: Array, arrays: int) -> tuple[int, int]:
    """Rows of a block, and the bytes of VMEM that the blocks take."""
    blocks = blocks or _blocks_for(x, 2 * arrays)
    needed = row_blocks.needed(blocks.bm, x.shape[-1], x, 2 * arrays, _TEMPORARIES)
    check_fits(blocks, needed)
    return blocks.bm, needed


def _on_tpu(*operands: Array, kernel: Callable, blocks: Blocks | None, count: int):
    """The first ``count`` operands are seen as (M, N), and as many such arrays come out; the rest are vectors."""
    x, columns = operands[0], operands[0].shape[-1]
    flat = (math.prod(x.shape[:-1]), columns)
    bm, needed = _chosen(blocks, x, count)
    bm = min(bm, flat[0])
    rows = pl.BlockSpec((bm, columns), lambda i: (i, 0))
    vector = pl.BlockSpec((1, columns), lambda i: (0, 0))
    outs = pl.pallas_call(
        kernel,
        out_shape=[sharding.result(x, flat, x.dtype)] * count,
        grid=(pl.cdiv(flat[0], bm),),
        in_specs=[rows] * count + [vector] * (len(operands) - count),
        out_specs=[rows] * count,
        compiler_params=compiler_params(needed, "parallel"),
    )(*(operand.reshape(-1, columns) for operand in operands))
    outs = tuple(out.reshape(x.shape) for out in outs)
    return outs if count > 1 else outs[0]
