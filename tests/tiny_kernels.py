"""Two small kernels: a decaying sum that carries its state from block to block, and the mean of ragged rows."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments

HINTS = ("a nudge", "a push", "nearly everything")
DIVIDED = ({"T": 16, "N": 128}, {"T": 24, "N": 256}, {"T": 8, "N": 128})
RAGGED = ({"M": 16, "N": 256}, {"M": 8, "N": 128}, {"M": 13, "N": 300})


# h[t] = h[t - 1] / 2 + x[t]


def decayed(x):
    """Return h[t] = h[t - 1] / 2 + x[t] for each column, in float32."""
    return lax.scan(lambda h, row: (0.5 * h + row,) * 2, jnp.zeros(x.shape[1], x.dtype), x)[1]


def decay_kernel(x_ref, o_ref, h_ref):
    @pl.when(pl.program_id(0) == 0)
    def _begin():
        h_ref[...] = jnp.zeros_like(h_ref)

    def row(t, h):
        h = 0.5 * h + x_ref[pl.ds(t, 1), :]
        o_ref[pl.ds(t, 1), :] = h
        return h

    h_ref[...] = lax.fori_loop(0, x_ref.shape[0], row, h_ref[...])


def decay(x, bt=8):
    block = pl.BlockSpec((bt, x.shape[1]), lambda t: (t, 0))
    return pl.pallas_call(
        decay_kernel, grid=(x.shape[0] // bt,), in_specs=[block], out_specs=block, out_shape=x,
        scratch_shapes=[pltpu.VMEM((1, x.shape[1]), jnp.float32)],
    )(x)  # fmt: skip


# The mean of each row, in blocks that the rows do not divide into


def means(x):
    """Return the mean of each row as a column."""
    return jnp.mean(x, axis=1, keepdims=True)


def mean_kernel(x_ref, o_ref, acc_ref, *, columns):
    k = pl.program_id(1)

    @pl.when(k == 0)
    def _zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    place = k * x_ref.shape[1] + lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
    acc_ref[...] += jnp.where(place < columns, x_ref[...], 0).sum(axis=1, keepdims=True)

    @pl.when(k == pl.num_programs(1) - 1)
    def _write():
        o_ref[...] = acc_ref[...] / columns


def mean_rows(x, bm=8, bn=128):
    m, n = x.shape
    return pl.pallas_call(
        functools.partial(mean_kernel, columns=n), grid=(pl.cdiv(m, bm), pl.cdiv(n, bn)),
        in_specs=[pl.BlockSpec((bm, bn), lambda i, k: (i, k))], out_specs=pl.BlockSpec((bm, 1), lambda i, k: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((m, 1), x.dtype), scratch_shapes=[pltpu.VMEM((bm, 1), jnp.float32)],
    )(x)  # fmt: skip


def decaying(**changed):
    """An exercise that asks for the decaying sum."""
    declared = {"id": "18.1", "title": "A decaying sum", "kind": "write", "defines": "decay", "reference": decayed}
    declared |= {"cases": lambda: arguments(("x: f32[T,N]",), DIVIDED), "hints": HINTS, "points": 5}
    return Exercise(**declared | changed)


def averaging(**changed):
    """An exercise that asks for the mean of ragged rows."""
    declared = {"id": "18.2", "title": "The mean of ragged rows", "kind": "write", "defines": "mean_rows"}
    declared |= {"reference": means, "inputs": ("x: f32[M,N]",), "sizes": RAGGED, "hints": HINTS, "points": 5}
    return Exercise(**declared | changed)
