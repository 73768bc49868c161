"""``grouped_swiglu`` for callers: arguments checked, on meshes, differentiable, plain JAX where there is no TPU."""

import functools

from jax import lax

from course_lib.arrays import Array, Described, Float, Int32
from course_lib.kernels import grouped
from course_lib.kernels.common import arguments, legal
from course_lib.kernels.common.products import passes, precision_of
from course_lib.kernels.dispatch import sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.grouped.kernel import Blocks
from course_lib.kernels.grouped.op import cut_and_checked
from course_lib.kernels.grouped.plain import plain_product
from course_lib.kernels.grouped.visits import visits_of
from course_lib.kernels.grouped_swiglu.kernel import gated, launch_swiglu, swiglu_gradients

_RULE = "T K, E K n, E K n, E -> T n"


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
    """Return ``silu(x_e @ w_gate[e]) * (x_e @ w_up[e])`` for the rows of each group e; otherwise as ``grouped_matmul``.

    Differentiable in x and both weights; the gradient stores neither product, and computes them again. On a mesh N may
    be cut, but not K.
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
    """Return the blocks chosen for these arguments, as ``grouped.blocks_for`` does for ``grouped_matmul``."""
    (t, k), (groups, _, n), level = x.shape, w_gate.shape, precision_of("blocks_for", x.dtype, precision)
    return grouped.blocks_of(t, k, n, groups, x.dtype, passes(level), matrices=2)


@functools.partial(differentiable, settings=3)
def _swiglu(x, w_gate, w_up, sizes, precision, blocks, cuts):
    op = Op(
        name="grouped_swiglu",
        rule=_RULE,
        tpu=fixed(_on_tpu, precision=precision, blocks=blocks),
        plain=fixed(_plain, precision=precision),
        one_at_a_time=True,
        known="n",
    )
    return op(x, w_gate, w_up, sizes, cuts=cuts)


def _plain(x, w_gate, w_up, sizes, *, precision):
    return gated(*(plain_product(x, w, sizes, precision=precision) for w in (w_gate, w_up))).astype(x.dtype)


def _on_tpu(x, w_gate, w_up, sizes, *, precision, blocks):
    groups, _, n = w_gate.shape
    sizes_of, limit = cut_and_checked("grouped_swiglu", x, n, groups, precision, blocks, matrices=2)
    visits = visits_of(sizes, x.shape[0], sizes_of[0], of_matrices=False)
    return launch_swiglu(x, w_gate, w_up, visits, sizes_of, precision=precision, vmem=limit)


def _forward(x, w_gate, w_up, sizes, *static):
    return _swiglu(x, w_gate, w_up, sizes, *static), (x, w_gate, w_up, sizes)


def _backward(precision, _, cuts, saved, g):
    multiply = functools.partial(grouped.product, precision=precision, cuts=cuts)
    gradients = functools.partial(grouped.gradients, precision=precision, cuts=cuts)
    return *swiglu_gradients(*saved, g, multiply=multiply, gradients=gradients), None


_swiglu.defvjp(_forward, _backward)
