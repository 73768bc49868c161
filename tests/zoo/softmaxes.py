"""Softmaxes in blocks: maxima and sums that are those of one block, or do not follow the row's maximum."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from zoo.arrays import normal
from zoo.bug import Bug

ROWS, KEYS = 16, 128
HIGHEST = jax.lax.Precision.HIGHEST


def rescaled(m_old, m_new):
    return jnp.exp(m_old - m_new)


def not_rescaled(m_old, m_new):
    return None


def rescaled_upwards(m_old, m_new):
    return jnp.exp(m_new - m_old)


def attention(q, k, v, of_sum=rescaled, of_values=rescaled, carried=True):
    """softmax(q @ k.T) @ v, in blocks of 128 keys, with a running maximum m, sum l and values acc."""

    def attention_kernel(q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref):
        @pl.when(pl.program_id(1) == 0)
        def _start():
            m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
            l_ref[...] = jnp.zeros_like(l_ref)
            acc_ref[...] = jnp.zeros_like(acc_ref)

        s = jnp.dot(q_ref[...], k_ref[...].T, precision=HIGHEST)
        m_old = m_ref[...]
        m_new = s.max(-1, keepdims=True)
        if carried:
            m_new = jnp.maximum(m_old, m_new)
        p = jnp.exp(s - m_new)
        for ref, shrink, new in (
            (l_ref, of_sum(m_old, m_new), p.sum(-1, keepdims=True)),
            (acc_ref, of_values(m_old, m_new), jnp.dot(p, v_ref[...], precision=HIGHEST)),
        ):
            ref[...] = new + (ref[...] if shrink is None else ref[...] * shrink)
        m_ref[...] = m_new

        @pl.when(pl.program_id(1) == pl.num_programs(1) - 1)
        def _finish():
            o_ref[...] = acc_ref[...] / l_ref[...]

    return pl.pallas_call(
        attention_kernel,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        grid=(q.shape[0] // ROWS, k.shape[0] // KEYS),
        in_specs=[
            pl.BlockSpec((ROWS, q.shape[1]), lambda i, j: (i, 0)),
            pl.BlockSpec((KEYS, q.shape[1]), lambda i, j: (j, 0)),
            pl.BlockSpec((KEYS, q.shape[1]), lambda i, j: (j, 0)),
        ],
        out_specs=pl.BlockSpec((ROWS, q.shape[1]), lambda i, j: (i, 0)),
        scratch_shapes=[
            pltpu.VMEM((ROWS, 1), jnp.float32),
            pltpu.VMEM((ROWS, 1), jnp.float32),
            pltpu.VMEM((ROWS, q.shape[1]), jnp.float32),
        ],
    )(q, k, v)


def softmax_by_blocks(x):
    """Softmax of each row, with the maximum and the sum of each block of 128 columns."""

    def softmax_kernel(x_ref, o_ref):
        e = jnp.exp(x_ref[...] - x_ref[...].max(-1, keepdims=True))
        o_ref[...] = e / e.sum(-1, keepdims=True)

    spec = pl.BlockSpec((ROWS, 128), lambda i, j: (i, j))
    grid = x.shape[0] // ROWS, x.shape[1] // 128
    return pl.pallas_call(softmax_kernel, out_shape=x, grid=grid, in_specs=[spec], out_specs=spec)(x)


def attention_in_jax(q, k, v):
    return jnp.dot(jax.nn.softmax(jnp.dot(q, k.T, precision=HIGHEST), -1), v, precision=HIGHEST)


Q, K, V = (normal(n, 128, seed=n) / 4 for n in (32, 384, 385))
V = V[:384]

BUGS = tuple(
    Bug(kind="softmaxes", name=name, fn=fn, reference=reference, args=args, caught_by="numbers", says=says)
    for name, fn, reference, args, says in (
        (
            "running sum not rescaled",
            partial(attention, of_sum=not_rescaled),
            attention_in_jax,
            (Q, K, V),
            r"(?s)adds to l_ref without rescaling what it already holds.*when m_ref grows.*exp\(old - new\)",
        ),
        (
            "running values not rescaled",
            partial(attention, of_values=not_rescaled),
            attention_in_jax,
            (Q, K, V),
            r"(?s)adds to acc_ref without rescaling what it already holds.*when m_ref grows.*exp\(old - new\)",
        ),
        (
            "rescaled the wrong way",
            partial(attention, of_values=rescaled_upwards),
            attention_in_jax,
            (Q, K, V),
            r"(?s)acc_ref is multiplied by exp\(new - old\).*instead, which is at most 1",
        ),
        (
            "maximum of one block",
            partial(attention, of_sum=not_rescaled, of_values=not_rescaled, carried=False),
            attention_in_jax,
            (Q, K, V),
            r"(?s)sums exp\(x - m\) over several steps.*one step's block.*carry the maximum",
        ),
        (
            "softmax of each block",
            softmax_by_blocks,
            lambda x: jax.nn.softmax(x, -1),
            (normal(16, 384),),
            r"(?s)x_ref holds block \(0, 0\).*depends on 3 blocks.*a sum or a maximum",
        ),
    )
)
