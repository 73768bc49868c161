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

from course_lib.arrays import Array, Bool, Described, Float, Ref
from course_lib.kernels.common import arguments, legal, row_blocks
from course_lib.kernels.common.compiler_params import check_fits, compiler_params
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.symbolic import cut, planned
from course_lib.kernels.dispatch import mesh_rules, sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.norm import backward as norm_backward
from course_lib.kernels.norm import mosaic_gpu as norm_gpu
from course_lib.kernels.norm import traced_eps


def rms_norm_reference(
    x: Float[Array, "*shape N"], weight: Float[Array, " N"], eps: float | Float[Array, ""] = 1e-6
) -> Float[Array, "*shape N"]:
    """What ``rms_norm`` must compute: in f32, rounded once to the dtype of x."""
    wide = x.astype(jnp.float32)
    rstd = lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + eps)
    return (wide * rstd * weight.astype(jnp.float32)).astype(x.dtype)


def layer_norm_reference(
    x: Float[Array, "*shape N"],
    weight: Float[Array, " N"],
    bias: Float[Array, " N"] | None = None,
    eps: float | Float[Array, ""] = 1e-6,
) -> Float[Array, "*shape N"]:
    """What ``layer_norm`` must compute: in f32, rounded once to the dtype of x."""
    wide = x.astype(jnp.float32)
    centred = wide - jnp.mean(wide, axis=-1, keepdims=True)
    rstd = lax.rsqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + eps)
    normed = centred * rstd * weight.astype(jnp.float32)
    return (normed if bias is None else normed + bias.astype(jnp.float32)).astype(x.dtype)


def rms_norm_residual_reference(
    x: Float[Array, "*shape N"],
    residual: Float[Array, "*shape N"],
    weight: Float[Array, " N"],
    eps: float | Float[Array, ""] = 1e-6,
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


# ``axis`` is that of a row: 1, or 0 in a block of the transpose, for a matrix that XLA stores by columns. ``inside``:
# which elements of a block lie in the array, where a row does not fill it (on a GPU); None: all of them.


def _rms_norm_kernel(
    x_ref: Float[Ref, "*block"],
    weight_ref: Float[Ref, "*row"],
    o_ref: Float[Ref, "*block"],
    *,
    eps: float,
    axis: int,
    inside: Bool[Array, "*block"] | None = None,
) -> None:
    x = x_ref[...].astype(jnp.float32)
    rstd = lax.rsqrt(jnp.mean(x * x, axis=axis, keepdims=True, where=inside) + eps)
    o_ref[...] = (x * rstd * row_blocks.vector(weight_ref, axis)).astype(o_ref.dtype)


def _layer_norm_kernel(
    x_ref: Float[Ref, "*block"],
    weight_ref: Float[Ref, "*row"],
    bias_ref: Float[Ref, "*row"],
    o_ref: Float[Ref, "*block"],
    *,
    eps: float,
    axis: int,
    inside: Bool[Array, "*block"] | None = None,
) -> None:
    x = x_ref[...].astype(jnp.float32)
    x -= jnp.mean(x, axis=axis, keepdims=True, where=inside)  # in fast memory: going over it twice costs no traffic
    rstd = lax.rsqrt(jnp.mean(x * x, axis=axis, keepdims=True, where=inside) + eps)
    o = x * rstd * row_blocks.vector(weight_ref, axis) + row_blocks.vector(bias_ref, axis)
    o_ref[...] = o.astype(o_ref.dtype)


def _rms_norm_residual_kernel(
    x_ref: Float[Ref, "*block"],
    residual_ref: Float[Ref, "*block"],
    weight_ref: Float[Ref, "*row"],
    o_ref: Float[Ref, "*block"],
    s_ref: Float[Ref, "*block"],
    *,
    eps: float,
    axis: int,
    inside: Bool[Array, "*block"] | None = None,
) -> None:
    s_ref[...] = x_ref[...] + residual_ref[...]
    _rms_norm_kernel(s_ref, weight_ref, o_ref, eps=eps, axis=axis, inside=inside)


def rms_norm(
    x: Float[Array, "*shape N"],
    weight: Float[Array, " N"],
    eps: float | Float[Array, ""] = 1e-6,
    *,
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> Float[Array, "*shape N"]:
    """RMSNorm over the last axis (Zhang and Sennrich 2019) of an f32 or bf16 array, differentiable.

    The result has the dtype of x, whatever that of ``weight``. ``eps`` may be traced, but has no gradient: a ValueError
    says so where it is asked for. Runs the kernel on a TPU and plain JAX elsewhere.
    ``blocks`` None: those of ``blocks_for``, and for the gradient what fits there. ``layout`` says how x lies on a mesh
    with Auto axes; rows that are cut among devices are left to plain JAX.
    Raises ValueError for other dtypes, a weight of another length, and rows or blocks that do not fit in VMEM.
    """
    x, weight = arguments.arrays("rms_norm", arguments.FLOATS, x=x, weight=weight)
    row_blocks.check_rows("rms_norm", x)
    _check_vector("rms_norm", x, "weight", weight)
    legal.check_kind("rms_norm", blocks, Blocks)
    eps, traced = traced_eps.split("rms_norm", eps)
    operands, cuts = sharding.ready("rms_norm", _rule(x, 1, 1, *traced), (x, weight, *traced), layout)
    return _rms_norm(*operands, eps, blocks, cuts)


def layer_norm(
    x: Float[Array, "*shape N"],
    weight: Float[Array, " N"],
    bias: Float[Array, " N"] | None = None,
    eps: float | Float[Array, ""] = 1e-6,
    *,
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> Float[Array, "*shape N"]:
    """LayerNorm over the last axis (Ba, Kiros and Hinton 2016), without a bias where it is None.

    The rest as in ``rms_norm``.
    """
    x, weight = arguments.arrays("layer_norm", arguments.FLOATS, x=x, weight=weight)
    bias = jnp.zeros_like(weight) if bias is None else bias
    (bias,) = arguments.arrays("layer_norm", arguments.FLOATS, bias=bias)
    row_blocks.check_rows("layer_norm", x)
    _check_vector("layer_norm", x, "weight", weight)
    _check_vector("layer_norm", x, "bias", bias)
    legal.check_kind("layer_norm", blocks, Blocks)
    eps, traced = traced_eps.split("layer_norm", eps)
    operands, cuts = sharding.ready("layer_norm", _rule(x, 1, 2, *traced), (x, weight, bias, *traced), layout)
    return _layer_norm(*operands, eps, blocks, cuts)


def rms_norm_residual(
    x: Float[Array, "*shape N"],
    residual: Float[Array, "*shape N"],
    weight: Float[Array, " N"],
    eps: float | Float[Array, ""] = 1e-6,
    *,
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> tuple[Float[Array, "*shape N"], Float[Array, "*shape N"]]:
    """``(rms_norm(s, weight, eps), s)`` with ``s = x + residual``, the residual for the next layer.

    x and residual have one shape and one dtype. The rest as in ``rms_norm``.
    """
    given = {"x": x, "residual": residual, "weight": weight}
    x, residual, weight = arguments.arrays("rms_norm_residual", arguments.FLOATS, **given)
    row_blocks.check_rows("rms_norm_residual", x)
    _check_vector("rms_norm_residual", x, "weight", weight)
    if (x.shape, x.dtype) != (residual.shape, residual.dtype):
        raise ValueError(
            f"rms_norm_residual: x is {x.dtype} of shape {x.shape} and residual {residual.dtype} of shape "
            f"{residual.shape}; they must be equal. Try residual.astype(x.dtype)."
        )
    legal.check_kind("rms_norm_residual", blocks, Blocks)
    eps, traced = traced_eps.split("rms_norm_residual", eps)
    rule, operands = _rule(x, 2, 1, *traced), (x, residual, weight, *traced)
    operands, cuts = sharding.ready("rms_norm_residual", rule, operands, layout)
    return _rms_norm_residual(*operands, eps, blocks, cuts)


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
    if vector.shape != x.shape[-1:]:
        raise ValueError(
            f"{op}: {name} is {vector.dtype} of shape {vector.shape}; for x of shape {x.shape} it must be floats of "
            f"shape ({x.shape[-1]},). Try jnp.broadcast_to({name}, x.shape[-1:])."
        )


def _rule(x: Array, arrays: int, vectors: int, *eps: Array) -> str:
    """Of so many arrays like x, which come out too, vectors, and eps where it is an operand; rows stay whole."""
    axes = mesh_rules.letters(x.ndim - 1) + " N"
    return ", ".join([axes] * arrays + ["N"] * vectors + [""] * len(eps)) + " -> " + ", ".join([axes] * arrays)


# Their arguments: arrays, vectors, eps where it is traced; then settings: eps, which is None there, blocks and cuts.


@functools.partial(differentiable, settings=3)
def _rms_norm(*args):
    return _call("rms_norm", _rms_norm_kernel, rms_norm_reference, 1, *args)


@functools.partial(differentiable, settings=3)
def _layer_norm(*args):
    return _call("layer_norm", _layer_norm_kernel, layer_norm_reference, 1, *args)


@functools.partial(differentiable, settings=3)
def _rms_norm_residual(*args):
    kernel, plain = _rms_norm_residual_kernel, rms_norm_residual_reference
    return _call("rms_norm_residual", kernel, plain, 2, *args)


# What is kept for the gradient is what was read, and no more: the statistics of a row that is read again cost nothing.


def _rms_norm_forward(*args, moving):
    return _rms_norm(*args), traced_eps.kept("rms_norm", args, moving)


def _rms_norm_backward(eps, blocks, cuts, saved, g):
    x, weight, *traced = saved
    kernel = norm_backward.rms_norm_kernel
    return _gradients("rms_norm", kernel, rms_norm_reference, (x, g), (weight,), traced, eps, blocks, cuts)


def _layer_norm_forward(*args, moving):
    return _layer_norm(*args), traced_eps.kept("layer_norm", args, moving)


def _layer_norm_backward(eps, blocks, cuts, saved, g):
    x, weight, bias, *traced = saved
    kernel = norm_backward.layer_norm_kernel
    return _gradients("layer_norm", kernel, layer_norm_reference, (x, g), (weight, bias), traced, eps, blocks, cuts)


def _rms_norm_residual_forward(*args, moving):
    _, _, *vectors = traced_eps.kept("rms_norm_residual", args, moving)
    o, s = _rms_norm_residual(*args)
    return (o, s), (s, *vectors)


def _rms_norm_residual_backward(eps, blocks, cuts, saved, g):
    s, weight, *traced = saved
    kernel = norm_backward.rms_norm_residual_kernel
    ds, *rest = _gradients("rms_norm_residual", kernel, _normed_and_kept, (s, *g), (weight,), traced, eps, blocks, cuts)
    return ds, ds, *rest


def _normed_and_kept(s, weight, *, eps):
    return rms_norm_reference(s, weight, eps), s


def _gradients(op: str, kernel: Callable, values: Callable, arrays, vectors, traced, eps, blocks, cuts) -> tuple:
    eps = traced[0] if traced else eps
    found = norm_backward.call(op, kernel, values, arrays, vectors, eps=eps, blocks=blocks, cuts=cuts)
    return *found, *[None] * len(traced)


_rms_norm.defvjp(_rms_norm_forward, _rms_norm_backward, asks="moving")
_layer_norm.defvjp(_layer_norm_forward, _layer_norm_backward, asks="moving")
_rms_norm_residual.defvjp(_rms_norm_residual_forward, _rms_norm_residual_backward, asks="moving")


def _call(op: str, kernel: Callable, plain: Callable, count: int, *args):
    operands, (eps, blocks, cuts) = traced_eps.operands(args), args[-3:]
    x, traced = operands[0], operands[-1:] if eps is None else ()
    plain = plain if traced else fixed(plain, eps=eps)
    if not x.size:
        return plain(*operands)
    _chosen(blocks, x, count)
    kernel = traced_eps.in_kernel(kernel, eps)
    how = {"kernel": kernel, "blocks": blocks, "count": count, "traced": len(traced)}
    on_tpu, mapped = fixed(_on_tpu, **how), fixed(_on_tpu, **how, mapped=True)
    rule = _rule(x, count, len(operands) - count - len(traced), *traced)
    leading = () if blocks else tuple(range(count))
    roads = {} if traced else norm_gpu.roads(op, kernel, count, eps)
    launch = Op(name=op, rule=rule, tpu=on_tpu, tpu_mapped=mapped, plain=plain, leading=leading, **roads)
    return launch(*operands, cuts=cuts)


def _chosen(blocks: Blocks | None, x: Array, arrays: int) -> tuple[int, int]:
    """Rows of a block, and the bytes of VMEM that the blocks take."""
    blocks = blocks or _blocks_for(x, 2 * arrays)
    needed = row_blocks.needed(blocks.bm, planned(x.shape)[-1], x, 2 * arrays, _TEMPORARIES)
    check_fits(blocks, needed)
    return blocks.bm, needed


def _on_tpu(*operands: Array, kernel: Callable, blocks: Blocks | None, count: int, traced: int, mapped: bool = False):
    """The first ``count`` operands are seen as (M, N), and as many such arrays come out; the rest are vectors.

    But for an eps, the last where there is a ``traced`` one. ``mapped``: jax.vmap is to add an axis.
    """
    operands, scalars = traced_eps.parted(operands, traced)
    arrays, vectors = operands[:count], operands[count:]
    x, columns = arrays[0], arrays[0].shape[-1]
    view = (math.prod(x.shape[:-1]), columns)
    bm, needed = _chosen(blocks, x, count)
    rows, axis = pl.BlockSpec((cut(bm, view[0]), columns), lambda i: (i, 0)), 1
    if by_columns := blocks is None and row_blocks.lanes_for(x, 2 * count, _TEMPORARIES):
        arrays, view, bm, axis = [array.T for array in arrays], view[::-1], by_columns, 0
        rows = pl.BlockSpec((columns, bm), lambda i: (0, i))
        needed = row_blocks.needed(bm, columns, x, 2 * count, _TEMPORARIES)
    vector, seen = row_blocks.vector_spec(x, mapped)
    outs = pl.pallas_call(
        functools.partial(kernel, axis=axis),
        out_shape=[out_type(x, view, x.dtype)] * count,
        grid=(pl.cdiv(view[1 - axis], bm),),
        in_specs=[traced_eps.SPEC] * traced + [rows] * count + [vector] * len(vectors),
        out_specs=[rows] * count,
        compiler_params=compiler_params(needed, "parallel"),
    )(*scalars, *(array.reshape(view) for array in arrays), *map(seen, vectors))
    outs = tuple(out.T if by_columns else out.reshape(x.shape) for out in outs)
    return outs if count > 1 else outs[0]
