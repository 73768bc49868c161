"""The first half of an expert's feed-forward layer in one kernel: ``silu(x_e @ w_gate[e]) * (x_e @ w_up[e])``.

Cost   FLOPs 4*T*K*N;  HBM bytes, as of one grouped product, (T*K*ceil(N/bn) + 2*E*K*N + T*N) * itemsize; two kernels
       and a gate behind them would write both products and read them again, 4*T*N*itemsize more
VMEM   2 * (bm*K + 2*K*bn + bm*bn) * itemsize, and 8*bm*bn for the products

The gradient computes both products again: kept they would be what the fusion saves.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax

from course_lib.arrays import Array, Described, Float, Float32, Int32
from course_lib.kernels import activations, grouped
from course_lib.kernels.common import arguments, legal
from course_lib.kernels.common.compiler_params import check_fits
from course_lib.kernels.common.products import dot, passes, precision_of
from course_lib.kernels.dispatch import sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.grouped import Blocks
from course_lib.kernels.grouped import kernel as grouped_kernels
from course_lib.kernels.grouped import plain as grouped_plain
from course_lib.kernels.grouped.visits import visits

_RULE = "T K, E K n, E K n, E -> T n"


def reference(
    x: Float[Array, "T K"], w_gate: Float[Array, "E K N"], w_up: Float[Array, "E K N"], sizes: Int32[Array, " E"]
) -> Float[Array, "T N"]:
    """What ``grouped_swiglu`` must compute: products, activation and their product in f32, rounded once."""
    wide = [a.astype(jnp.float32) for a in (x, w_gate, w_up)]
    gate, up = (grouped.reference(wide[0], w, sizes) for w in wide[1:])
    return (jax.nn.silu(gate) * up).astype(x.dtype)


def grouped_swiglu(
    x: Float[Array, "T K"],
    w_gate: Float[Array, "E K N"],
    w_up: Float[Array, "E K N"],
    sizes: Int32[Array, " E"],
    *,
    precision: lax.PrecisionLike = "highest",
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> Float[Array, "T N"]:
    """``silu(x_e @ w_gate[e]) * (x_e @ w_up[e])`` for the rows of each group e; all else as ``grouped_matmul``.

    Differentiable in x and both weights; the gradient keeps neither product, and computes them again. K must be whole.
    """
    x, w_gate, w_up = arguments.arrays("grouped_swiglu", arguments.FLOATS, x=x, w_gate=w_gate, w_up=w_up)
    x, w_gate, sizes = grouped.operands("grouped_swiglu", x, w_gate, sizes, False, "w_gate")
    x, w_up, sizes = grouped.operands("grouped_swiglu", x, w_up, sizes, False, "w_up")
    if w_gate.shape != w_up.shape:
        raise ValueError(
            f"grouped_swiglu: w_gate has shape {w_gate.shape} and w_up {w_up.shape}; they must be equal. "
            "Are both in one array? Then try *jnp.split(w, 2, axis=2)."
        )
    level = precision_of("grouped_swiglu", x.dtype, precision)
    legal.check_kind("grouped_swiglu", blocks, Blocks)
    operands, cuts = sharding.ready("grouped_swiglu", _RULE, (x, w_gate, w_up, sizes), layout)
    return _swiglu(*operands, level, blocks, cuts)


def blocks_for(
    x: Float[Described, "T K"],
    w_gate: Float[Described, "E K N"],
    w_up: Float[Described, "E K N"],
    sizes: Int32[Described, " E"],
    *,
    precision: lax.PrecisionLike = "highest",
) -> Blocks:
    """The blocks that ``grouped_swiglu`` chooses for these arguments, as ``grouped.blocks_for`` does for its own."""
    (t, k), (groups, _, n), level = x.shape, w_gate.shape, precision_of("blocks_for", x.dtype, precision)
    return grouped.blocks_of(t, k, n, groups, x.dtype, passes(level), matrices=2)


def _gated(gate: Float32[Array, "*shape"], up: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    return activations.apply("silu", gate) * up


def _result(x, w_gate, w_up, *, precision):
    return _gated(dot(x, w_gate, precision=precision), dot(x, w_up, precision=precision))


@functools.partial(differentiable, settings=3)
def _swiglu(x, w_gate, w_up, sizes, precision, blocks, cuts):
    launch = Op(
        name="grouped_swiglu",
        rule=_RULE,
        tpu=fixed(_on_tpu, precision=precision, blocks=blocks),
        plain=fixed(_plain, precision=precision),
        one_at_a_time=True,
        known="n",
    )
    return launch(x, w_gate, w_up, sizes, cuts=cuts)


def _plain(x, w_gate, w_up, sizes, *, precision):
    return _gated(*(grouped_plain.product(x, w, sizes, precision) for w in (w_gate, w_up))).astype(x.dtype)


def _on_tpu(x, w_gate, w_up, sizes, *, precision, blocks):
    (t, k), (groups, _, n) = x.shape, w_gate.shape
    given, blocks = blocks, blocks or grouped.blocks_of(t, k, n, groups, x.dtype, passes(precision), matrices=2)
    bm, bn = min(blocks.bm, t), min(blocks.bn, n)
    needed = grouped.vmem_bytes(bm, k, bn, x.dtype.itemsize, matrices=2)
    if given is None:
        grouped.check_depth("grouped_swiglu", k, needed)
    check_fits(blocks, needed)
    lists, result = visits(sizes, t, bm, of_matrices=False), fixed(_result, precision=precision)
    sizes_of = {"bm": bm, "bn": bn, "vmem_bytes": needed}
    return grouped_kernels.products(x, (w_gate, w_up), lists, result, transposed=False, **sizes_of)


def _forward(x, w_gate, w_up, sizes, *static):
    return _swiglu(x, w_gate, w_up, sizes, *static), (x, w_gate, w_up, sizes)


def _backward(precision, _, cuts, saved, g):
    x, w_gate, w_up, sizes = saved
    gate, up = (grouped.product(x, w, sizes, precision, cuts).astype(jnp.float32) for w in (w_gate, w_up))
    _, pull = jax.vjp(_gated, gate, up)
    found = [d.astype(x.dtype) for d in pull(g.astype(jnp.float32))]
    parts = [grouped.gradients(x, w, sizes, d, precision, cuts) for w, d in zip((w_gate, w_up), found, strict=True)]
    return parts[0][0] + parts[1][0], parts[0][1], parts[1][1], None


_swiglu.defvjp(_forward, _backward)
