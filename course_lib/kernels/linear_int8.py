"""A linear layer whose weight is stored in int8: ``y = act(x @ (scale * q) + b)``, one scale for each column of q.

Cost   FLOPs 2*M*N*K;  HBM bytes (M*K + M*N) * itemsize, and K*N*ceil(M/bm) of the weight: half of bf16's
VMEM   2 * (bm*K + bm*bn) * itemsize + 2*K*bn: the weight's blocks are bytes; and K*bn * itemsize for one made wide

The block of the weight is made wide in VMEM, just before the MXU takes it: a prologue. All int8 numbers are bf16
numbers, so nothing is rounded there. The scale is one number a column, so it is put off until after the sum: M*N
products instead of K*N, and in f32. With few rows a layer waits for its weights alone, and reads half as many bytes.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Described, Float, Float32, Int8, Ref
from course_lib.kernels import activations, matmul
from course_lib.kernels.common import arguments, legal
from course_lib.kernels.common.layouts import is_by_columns
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot, passes, precision_of, zero_beyond
from course_lib.kernels.common.symbolic import planned
from course_lib.kernels.dispatch import mesh_rules, sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.matmul import Blocks
from course_lib.kernels.matmul import blocks as matmul_blocks
from course_lib.kernels.matmul.blocks import Problem


def quantize(w: Float[Array, "K N"]) -> tuple[Int8[Array, "K N"], Float32[Array, " N"]]:
    """``(q, scale)`` with w about ``q * scale``: the largest number of each column becomes 127, or -127.

    An element moves by half its column's scale at most. No int8 number stands for NaN or an infinity: raises ValueError
    where w has one; under a transformation of JAX, where that is not known yet, the scale of its column is NaN.
    """
    (w,) = arguments.arrays("quantize", arguments.FLOATS, w=w)
    if w.ndim != 2:
        raise ValueError(f"quantize: w has shape {w.shape}; it must have two axes, (K, N). Try jax.vmap for more.")
    wide = w.astype(jnp.float32)
    largest = jnp.max(jnp.abs(wide), axis=0, initial=0)
    finite = jnp.isfinite(largest)
    if not isinstance(finite, jax.core.Tracer) and not finite.all():
        column = int(jnp.argmin(finite))
        raise ValueError(f"quantize: column {column} of w has a NaN or an infinity. Try jnp.nan_to_num(w).")
    scale = jnp.where(finite, jnp.where(largest > 0, largest / 127, 1), jnp.nan)
    return jnp.round(jnp.where(finite, wide / scale, 0)).astype(jnp.int8), scale


def reference(
    x: Float[Array, "M K"],
    q: Int8[Array, "K N"],
    scale: Float32[Array, " N"],
    b: Float[Array, " N"],
    *,
    activation: str | None = None,
) -> Float[Array, "M N"]:
    """What ``linear_int8`` must compute: product, scale, bias and activation in f32, rounded once."""
    product = jnp.dot(x, q.astype(x.dtype), precision="highest", preferred_element_type=jnp.float32)
    return activations.apply(activation, product * scale + b.astype(jnp.float32)).astype(x.dtype)


def _kernel(
    x_ref: Float[Ref, "bm bk"],
    q_ref: Int8[Ref, "_bk _bn"],  # (bn, bk) with transpose_q
    scale_ref: Float32[Ref, "1 bn"],
    b_ref: Float[Ref, "1 bn"],
    o_ref: Float[Ref, "bm bn"],
    acc_ref: Float32[Ref, "bm bn"],
    *,
    activation: str,
    precision,
    size: int,
    transpose_q: bool,  # it lies so, where XLA stores it by columns
) -> None:
    k, bk = pl.program_id(2), x_ref.shape[1]

    @pl.when(k == 0)
    def _zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    x, w = x_ref[...], q_ref[...].astype(x_ref.dtype)
    if size % bk:
        x, w = zero_beyond(x, 1, size - k * bk), zero_beyond(w, int(transpose_q), size - k * bk)
    acc_ref[...] += dot(x, w, transpose_y=transpose_q, precision=precision)

    @pl.when(k == pl.num_programs(2) - 1)
    def _store():
        z = acc_ref[...] * scale_ref[...] + b_ref[...].astype(jnp.float32)
        o_ref[...] = activations.apply(activation, z).astype(o_ref.dtype)


def linear_int8(
    x: Float[Array, "*batch K"],
    q: Int8[Array, "K N"],
    scale: Float32[Array, " N"],
    b: Float[Array, " N"] | None = None,
    *,
    activation: str | None = None,
    precision: lax.PrecisionLike = "highest",
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> Float[Array, "*batch N"]:
    """``act(x @ (scale * q) + b)`` for x in f32 or bf16, q in int8, scale in f32, b in the dtype of x.

    Differentiable in x, scale and b; q gets no gradient. The rest as ``linear.linear``; ``quantize`` makes q and scale.
    """
    x, q, scale = arguments.arrays("linear_int8", arguments.FACTORS, x=x, q=q, scale=scale)
    (b,) = arguments.arrays("linear_int8", arguments.FLOATS, b=jnp.zeros(q.shape[-1:], x.dtype) if b is None else b)
    _check(x, q, scale, b)
    activations.named(activation, "linear_int8")
    level = precision_of("linear_int8", x.dtype, precision)
    legal.check_kind("linear_int8", blocks, Blocks)
    matmul_blocks.check(blocks, _problem(x, q, level))
    how = level, blocks
    said = mesh_rules.cuts("linear_int8", _rule(x.ndim - 1, "k"), (x, q, scale, b), layout)
    if sharding.is_cut("k", "linear_int8", _rule(x.ndim - 1, "k"), (x, q, scale, b), said):
        # No device has the sum that the activation is of: bias and activation follow it.
        operands = x, q, scale, jnp.zeros_like(b)
        operands, said = sharding.ready("linear_int8", _rule(x.ndim - 1, "k"), operands, layout)
        z = _linear(*operands, "none", *how, True, said).astype(jnp.float32) + b.astype(jnp.float32)
        return activations.apply(activation, z).astype(x.dtype)
    operands, said = sharding.ready("linear_int8", _rule(x.ndim - 1, "K"), (x, q, scale, b), layout)
    return _linear(*operands, activation or "none", *how, False, said)


def blocks_for(
    x: Float[Described, "*batch K"],
    q: Int8[Described, "K N"],
    scale: Float32[Described, " N"],
    b: Float[Described, " N"] | None = None,
    *,
    activation: str | None = None,
    precision: lax.PrecisionLike = "highest",
) -> Blocks:
    """The blocks that ``linear_int8`` chooses for these arguments, on the chip traced for (a v5e where it is none)."""
    return matmul.blocks_of(matmul_blocks.fastest(_problem(x, q, precision_of("blocks_for", x.dtype, precision))))


def _problem(x: Described, q: Described, level: lax.Precision | None) -> Problem:
    """As if the weight were as wide as x, which a block of it is while it is multiplied."""
    (*rows, k), n = planned(x.shape), planned(q.shape)[1]
    return Problem(m=math.prod(rows), k=k, n=n, dtype=x.dtype, passes=passes(level))


def _check(x: Array, q: Array, scale: Array, b: Array) -> None:
    if x.ndim < 1 or q.ndim != 2 or x.shape[-1] != q.shape[0]:
        raise ValueError(
            f"linear_int8: x has shape {x.shape} and q {q.shape}; they must be (..., K) and (K, N), with one K."
        )
    for name, array in (("scale", scale), ("b", b)):
        if array.shape != q.shape[1:]:
            raise ValueError(
                f"linear_int8: {name} has shape {array.shape}; for q of shape {q.shape} it must be {q.shape[1:]}."
            )
    floats = x.dtype in (jnp.float32, jnp.bfloat16) and b.dtype == x.dtype
    if not floats or q.dtype != jnp.int8 or scale.dtype != jnp.float32:
        raise ValueError(
            f"linear_int8: x is {x.dtype}, q {q.dtype}, scale {scale.dtype} and b {b.dtype}; x must be float32 or "
            "bfloat16, q int8, scale float32, and b as x. linear_int8.quantize(w) makes q and scale."
        )


def _rule(batch: int, k: str) -> str:
    """``k`` is "K" where it must be whole, and "k" where the parts of a product are added."""
    rows = mesh_rules.letters(batch)
    return f"{rows} {k}, {k} n, n, n -> " + (f"{rows} n" if k == "K" else f"{rows} n +k")


@functools.partial(differentiable, settings=5)
def _linear(x, q, scale, b, activation, precision, blocks, summed, cuts):
    how = {"activation": activation, "precision": precision}
    if 0 in (*x.shape, *q.shape):
        return _plain(x, q, scale, b, **how)
    rule, on_tpu = _rule(x.ndim - 1, "k" if summed else "K"), fixed(_on_tpu, **how, blocks=blocks)
    leading = () if blocks else (0,)
    launch = Op(name="linear_int8", rule=rule, tpu=on_tpu, plain=fixed(_plain, **how), leading=leading)
    return launch(x, q, scale, b, cuts=cuts)


def _plain(x, q, scale, b, *, activation, precision):
    z = dot(_rows(x), q.astype(x.dtype), precision=precision) * scale + b.astype(jnp.float32)
    return activations.apply(activation, z).astype(x.dtype).reshape(*x.shape[:-1], q.shape[1])


def _rows(x: Array) -> Array:
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def _forward(x, q, scale, b, *how):
    return _linear(x, q, scale, b, *how), (x, q, scale, b)


def _backward(activation, precision, _, summed, cuts, saved, g):
    x, q, _, b = saved
    rows, k = mesh_rules.letters(x.ndim - 1), "k" if summed else "K"
    sums = " ".join("+" + letter for letter in rows.split())
    rule = f"{rows} {k}, {k} n, n, n, {rows} n -> {rows} {k} +n, n {sums} +k, n {sums}"
    how = {"activation": activation, "precision": precision}
    on_tpu, plain = fixed(_gradients, **how, product=_by_kernel), fixed(_gradients, **how, product=dot)
    if 0 in (*x.shape, *q.shape):
        dx, dscale, db = plain(*saved, g)
    else:
        dx, dscale, db = Op(name="gradient of linear_int8", rule=rule, tpu=on_tpu, plain=plain)(*saved, g, cuts=cuts)
    return dx, None, dscale, db.astype(b.dtype)


_linear.defvjp(_forward, _backward)


def _gradients(x, q, scale, b, g, *, activation, precision, product):
    """dx, dscale and db, with the weight made wide in HBM: who trains weights keeps them wide anyway."""
    wide, rows = q.astype(x.dtype), _rows(x)
    xq = product(rows, wide, precision=precision).astype(x.dtype).astype(jnp.float32)
    slope = activations.slope(activation, xq * scale + b.astype(jnp.float32))
    dz = _rows(g).astype(jnp.float32) * slope
    dx = product((dz * scale).astype(x.dtype), wide, transpose_y=True, precision=precision).astype(x.dtype)
    return dx.reshape(x.shape), jnp.sum(dz * xq, axis=0), jnp.sum(dz, axis=0)


def _by_kernel(x, y, *, transpose_y=False, precision):
    level = lax.Precision.HIGHEST if precision is None else precision
    return matmul.matmul_transposed(x, y, transpose_y=transpose_y, precision=level)


def _on_tpu(x, q, scale, b, *, activation, precision, blocks: Blocks | None) -> Array:
    problem = _problem(x, q, precision)
    m, (k, n) = math.prod(x.shape[:-1]), q.shape
    bm, bk, bn = sizes = matmul_blocks.chosen(blocks, problem)
    column = pl.BlockSpec((1, bn), lambda i, j, k: (0, j))
    if transpose_q := is_by_columns(q.shape):
        q, q_spec = q.T, pl.BlockSpec((bn, bk), lambda i, j, k: (j, k))
    else:
        q_spec = pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))
    out = pl.pallas_call(
        functools.partial(_kernel, activation=activation, precision=precision, size=k, transpose_q=transpose_q),
        out_shape=out_type(x, (m, n), x.dtype),
        grid=(pl.cdiv(m, bm), pl.cdiv(n, bn), pl.cdiv(k, bk)),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            q_spec,
            column,
            column,
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary"),
            vmem_limit_bytes=matmul_blocks.vmem_limit(sizes, problem),
        ),
        name="linear_int8",
    )(_rows(x), q, scale.reshape(1, n), b.reshape(1, n))
    return out.reshape(*x.shape[:-1], n)
