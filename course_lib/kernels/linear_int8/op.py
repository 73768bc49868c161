"""``linear_int8`` for callers: arguments checked, on meshes, differentiable, and plain JAX where there is no TPU."""

import functools
import math

import jax
import jax.numpy as jnp
from jax import lax

from course_lib.arrays import Array, Described, Float, Float32, Int8
from course_lib.kernels import matmul
from course_lib.kernels.common import activations, arguments, legal
from course_lib.kernels.common.products import dot, passes, precision_of
from course_lib.kernels.common.symbolic import planned
from course_lib.kernels.dispatch import mesh_rules, sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.linear_int8.kernel import gradients_int8, launch_int8, plain_int8, quantized
from course_lib.kernels.matmul import Blocks
from course_lib.kernels.matmul import blocks as matmul_blocks
from course_lib.kernels.matmul.blocks import Problem


def quantize(w: Float[Array, "K N"]) -> tuple[Int8[Array, "K N"], Float32[Array, " N"]]:
    """Return ``(q, scale)`` with w about ``q * scale``: the largest element of each column becomes 127 or -127.

    An element moves by at most half its column's scale. No int8 value stands for NaN or an infinity: raises ValueError
    if w has one. Under a JAX transformation, where that is not known yet, the scale of its column is NaN.
    """
    (w,) = arguments.arrays("quantize", arguments.FLOATS, w=w)
    if w.ndim != 2:
        raise ValueError(f"quantize: w has shape {w.shape}; it must have two axes, (K, N). Try jax.vmap for more.")
    q, scale = quantized(w)
    if not isinstance(scale, jax.core.Tracer) and (wrong := jnp.isnan(scale)).any():
        column = int(jnp.argmax(wrong))
        raise ValueError(f"quantize: column {column} of w has a NaN or an infinity. Try jnp.nan_to_num(w).")
    return q, scale


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
    """Return ``act(x @ (scale * q) + b)`` for x in f32 or bf16, q in int8, scale in f32, b in the dtype of x.

    Differentiable in x, scale and b; q gets no gradient. Otherwise like ``linear.linear``. ``quantize`` makes q and
    scale.
    """
    x, q, scale = arguments.arrays("linear_int8", arguments.FACTORS, x=x, q=q, scale=scale)
    (b,) = arguments.arrays("linear_int8", arguments.FLOATS, b=jnp.zeros(q.shape[-1:], x.dtype) if b is None else b)
    _check(x, q, scale, b)
    activations.named(activation, "linear_int8")
    level = precision_of("linear_int8", x.dtype, precision)
    legal.check_kind("linear_int8", blocks, Blocks)
    matmul_blocks.check(blocks, _problem(x, q, level))
    rule = _rule(x.ndim - 1, "k")
    said = mesh_rules.cuts("linear_int8", rule, (x, q, scale, b), layout)
    if sharding.is_cut("k", "linear_int8", rule, (x, q, scale, b), said):
        # No device has the whole sum that the activation needs, so bias and activation follow the kernel.
        operands, said = sharding.ready("linear_int8", rule, (x, q, scale, jnp.zeros_like(b)), layout)
        z = _linear(*operands, "none", level, blocks, True, said).astype(jnp.float32) + b.astype(jnp.float32)
        return activations.apply(activation, z).astype(x.dtype)
    operands, said = sharding.ready("linear_int8", _rule(x.ndim - 1, "K"), (x, q, scale, b), layout)
    return _linear(*operands, activation or "none", level, blocks, False, said)


def blocks_for(
    x: Float[Described, "*batch K"],
    q: Int8[Described, "K N"],
    scale: Float32[Described, " N"],
    b: Float[Described, " N"] | None = None,
    *,
    activation: str | None = None,
    precision: lax.PrecisionLike = "highest",
) -> Blocks:
    """Return the blocks that ``linear_int8`` chooses, for the chip that is traced for (a v5e if there is none)."""
    return matmul.blocks_of(matmul_blocks.fastest(_problem(x, q, precision_of("blocks_for", x.dtype, precision))))


def _problem(x: Described, q: Described, level: lax.Precision | None) -> Problem:
    """Return the matmul with a weight as wide as x, which a block of it is while it is multiplied."""
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
    """Return the rule: ``k`` is "K" if it must be whole, and "k" if the parts of a product are added."""
    rows = mesh_rules.letters(batch)
    return f"{rows} {k}, {k} n, n, n -> " + (f"{rows} n" if k == "K" else f"{rows} n +k")


@functools.partial(differentiable, settings=5)
def _linear(x, q, scale, b, activation, precision, blocks, summed, cuts):
    how = {"activation": activation, "precision": precision}
    if 0 in (*x.shape, *q.shape):
        return plain_int8(x, q, scale, b, **how)
    rule, on_tpu = _rule(x.ndim - 1, "k" if summed else "K"), fixed(_on_tpu, **how, blocks=blocks)
    leading = () if blocks else (0,)
    op = Op(name="linear_int8", rule=rule, tpu=on_tpu, plain=fixed(plain_int8, **how), leading=leading)
    return op(x, q, scale, b, cuts=cuts)


def _on_tpu(x, q, scale, b, *, activation, precision, blocks: Blocks | None) -> Array:
    problem = _problem(x, q, precision)
    sizes = matmul_blocks.chosen(blocks, problem)
    how = {"activation": activation, "precision": precision}
    return launch_int8(x, q, scale, b, sizes, vmem_limit_bytes=matmul_blocks.vmem_limit(sizes, problem), **how)


def _forward(x, q, scale, b, *how):
    return _linear(x, q, scale, b, *how), (x, q, scale, b)


def _backward(activation, precision, _, summed, cuts, saved, g):
    x, q, _, b = saved
    rows, k = mesh_rules.letters(x.ndim - 1), "k" if summed else "K"
    sums = " ".join("+" + letter for letter in rows.split())
    rule = f"{rows} {k}, {k} n, n, n, {rows} n -> {rows} {k} +n, n {sums} +k, n {sums}"
    how = {"activation": activation, "precision": precision}
    on_tpu, plain = fixed(gradients_int8, **how, product=_by_kernel), fixed(gradients_int8, **how, product=dot)
    if 0 in (*x.shape, *q.shape):
        dx, dscale, db = plain(*saved, g)
    else:
        dtypes = (x.dtype, *[jnp.dtype(jnp.float32)] * 2)
        op = Op(name="gradient of linear_int8", rule=rule, tpu=on_tpu, plain=plain, dtypes=dtypes)
        dx, dscale, db = op(*saved, g, cuts=cuts)
    return dx, None, dscale, db.astype(b.dtype)


_linear.defvjp(_forward, _backward)


def _by_kernel(x, y, *, transpose_y=False, precision):
    level = lax.Precision.HIGHEST if precision is None else precision
    return matmul.matmul_transposed(x, y, transpose_y=transpose_y, precision=level)
