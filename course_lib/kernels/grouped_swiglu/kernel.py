"""The first half of an expert's feed-forward layer in one kernel: ``silu(x_e @ w_gate[e]) * (x_e @ w_up[e])``.

Cost   FLOPs 4*T*K*N;  HBM bytes, as of a grouped product, (T*K*ceil(N/bn) + 2*E*K*N + T*N) * itemsize. Two products
       and an activation behind them would also write and read both products: 4*T*N*itemsize more
VMEM   2 * (bm*K + 2*K*bn + bm*bn) * itemsize, and 8*bm*bn for the products

The grid is that of ``grouped_matmul``. The gradient recomputes both products: storing them would undo the fusion.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Float, Float32, Int32, Ref
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot
from course_lib.kernels.grouped.kernel import write_visit
from course_lib.kernels.grouped.visits import Visits, ends_of


def reference(
    x: Float[Array, "T K"], w_gate: Float[Array, "E K N"], w_up: Float[Array, "E K N"], sizes: Int32[Array, " E"]
) -> Float[Array, "T N"]:
    """Return what ``grouped_swiglu`` must compute: products, activation and their product in f32, rounded once."""
    group = jnp.searchsorted(ends_of(sizes, x.shape[0]), jnp.arange(x.shape[0]), side="right")
    mine = jax.nn.one_hot(group, sizes.shape[0], dtype=jnp.float32)
    x32, *weights = (array.astype(jnp.float32) for array in (x, w_gate, w_up))
    gate, up = (jnp.einsum("te,tk,ekn->tn", mine, x32, w, precision="highest") for w in weights)
    return (jax.nn.silu(gate) * up).astype(x.dtype)


def _swiglu_kernel(
    visits: Visits,
    x_ref: Float[Ref, "bm K"],  # the tile of visit v
    w_gate_ref: Float[Ref, "1 K bn"],  # the matrices of its group
    w_up_ref: Float[Ref, "1 K bn"],
    o_ref: Float[Ref, "bm bn"],  # its tile: stays put while one group after another visits it
    *,
    precision,
) -> None:
    def result(rows):
        x, w_gate, w_up = x_ref[rows], w_gate_ref[0], w_up_ref[0]
        return gated(dot(x, w_gate, precision=precision), dot(x, w_up, precision=precision))

    write_visit(visits, o_ref, result)


def gated(gate: Float32[Array, "m n"], up: Float32[Array, "m n"]) -> Float32[Array, "m n"]:
    """Return ``silu(gate) * up``."""
    return gate * lax.logistic(gate) * up


def launch_swiglu(x, w_gate, w_up, visits: Visits, blocks, *, precision, vmem) -> Float[Array, "T N"]:
    """Run the kernel on one TPU with ``blocks`` (bm, bn), none larger than the arrays, and the visits of bm rows."""
    (t, k), (groups, _, n), (bm, bn) = x.shape, w_gate.shape, blocks
    matrix = pl.BlockSpec((1, k, bn), lambda j, v, visits: (jnp.minimum(visits.group[v], groups - 1), 0, j))
    return pl.pallas_call(
        functools.partial(_swiglu_kernel, precision=precision),
        out_shape=out_type(x, (t, n), x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(pl.cdiv(n, bn), visits.group.shape[0]),
            in_specs=[pl.BlockSpec((bm, k), lambda j, v, visits: (visits.tile[v], 0)), matrix, matrix],
            out_specs=pl.BlockSpec((bm, bn), lambda j, v, visits: (visits.tile[visits.written(v)], j)),
        ),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary"), vmem_limit_bytes=vmem),
        name="grouped_matmul",
    )(visits, x, w_gate, w_up)


def swiglu_gradients(x, w_gate, w_up, sizes, g, *, multiply, gradients) -> tuple[Array, Array, Array]:
    """Return dx, dw_gate and dw_up, by the grouped product ``multiply`` and its ``gradients``."""
    gate, up = (multiply(x, w, sizes).astype(jnp.float32) for w in (w_gate, w_up))
    _, pull = jax.vjp(gated, gate, up)
    d_gate, d_up = (d.astype(x.dtype) for d in pull(g.astype(jnp.float32)))
    (dx, dw_gate), (dx_up, dw_up) = gradients(x, w_gate, sizes, d_gate), gradients(x, w_up, sizes, d_up)
    return dx + dx_up, dw_gate, dw_up
