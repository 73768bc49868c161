"""Attention and grouped products beside what the JAX wheel has: jax.nn, lax.ragged_dot, the references of its kernels.

The cases are those of JAX's own tests (tests/nn_test.py, tests/lax_test.py, tests/pallas/tpu_gmm_test.py), as far as
our ops have what they ask for; each as plain JAX, and as kernels in the TPU simulator.
"""

import contextlib
import functools
import itertools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_examined import ragged_dot
from simulated import tpu_side
from sweeps import daily

from course_lib.kernels import attention, grouped

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from jax.experimental.pallas.ops.tpu import flash_attention as flash
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks


def sample(n, *shape, dtype=jnp.float32):
    return jnp.asarray(np.random.default_rng(n).normal(size=shape), dtype)


def qkv(batch, heads, kv_heads, s, d, dtype=jnp.float32):
    return tuple(sample(n, batch, h, s, d, dtype=dtype) for n, h in enumerate((heads, kv_heads, kv_heads)))


def turned(*arrays):
    """Heads behind the positions, as jax.nn has them."""
    return [jnp.swapaxes(x, -2, -3) for x in arrays]


def by_jax_nn(q, k, v, **how):
    return jnp.swapaxes(jax.nn.dot_product_attention(*turned(q, k, v), **how), -2, -3)


def by_splash(q, k, v, mask=None, cap=None):
    """JAX's reference has one head; heads that share keys follow one another."""
    k, v = (jnp.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    mask = masks.FullMask((q.shape[-2], k.shape[-2])) if mask is None else mask
    shown = jnp.asarray(mask[:, :])
    one = functools.partial(splash.attention_reference, attn_logits_soft_cap=cap)
    heads = jax.vmap(jax.vmap(lambda q, k, v: one(shown, q, k, v, None)))
    return heads(q * q.shape[-1] ** -0.5, k, v).astype(q.dtype)


def segments(*ends):
    return jnp.asarray(np.stack([np.searchsorted(e, np.arange(128), side="right") for e in ends]), jnp.int32)


SMALL, GROUPS = qkv(2, 4, 4, 128, 32), qkv(2, 4, 2, 128, 32)
PAIR = qkv(2, 2, 2, 128, 32)  # for what is simulated every day: the heads are steps of a grid
MQA, LOW = qkv(2, 4, 1, 128, 32), qkv(2, 4, 2, 128, 32, jnp.bfloat16)
SEGMENTS = segments((30, 100), (64,))
_local = masks.LocalMask((128, 128), (6, 0), 0)
# Ours, theirs, the arguments.
ATTENTION = {
    "jax.nn": ({}, by_jax_nn, SMALL),
    "jax.nn, groups of 2": ({}, by_jax_nn, GROUPS),
    "jax.nn, groups of 4": ({}, by_jax_nn, MQA),
    "jax.nn, bfloat16": ({}, by_jax_nn, LOW),
    "jax.nn, causal": ({"causal": True}, functools.partial(by_jax_nn, is_causal=True), GROUPS),
    "jax.nn, causal, bfloat16": ({"causal": True}, functools.partial(by_jax_nn, is_causal=True), LOW),
    "jax.nn, a window": (
        {"causal": True, "window": 4},
        functools.partial(by_jax_nn, is_causal=True, local_window_size=(3, 2)),
        SMALL,
    ),
    "jax.nn, a scale": ({"scale": 0.3}, functools.partial(by_jax_nn, scale=0.3), SMALL),
    "jax.nn, padding": (
        {"segments": (jnp.zeros((2, 128), jnp.int32), segments((32,), (64,)))},
        functools.partial(by_jax_nn, key_value_seq_lengths=jnp.array([32, 64])),
        SMALL,
    ),
    "mha_reference": (
        {"scale": 1.0},
        lambda q, k, v: flash.mha_reference_no_custom_vjp(q, k, v),
        SMALL,
    ),
    "mha_reference, causal, segments": (
        {"causal": True, "segments": SEGMENTS, "scale": 0.2},
        lambda q, k, v: flash.mha_reference_no_custom_vjp(
            q, k, v, None, flash.SegmentIds(SEGMENTS, SEGMENTS), causal=True, sm_scale=0.2
        ),
        PAIR,
    ),
    "splash": ({}, by_splash, GROUPS),
    "splash, CausalMask": (
        {"causal": True},
        functools.partial(by_splash, mask=masks.CausalMask((128, 128))),
        GROUPS,
    ),
    "splash, LocalMask": (
        {"causal": True, "window": 7},
        functools.partial(by_splash, mask=masks.LogicalAnd(masks.CausalMask((128, 128)), _local)),
        MQA,
    ),
    "splash, soft cap": ({"softcap": 5.0}, functools.partial(by_splash, cap=5.0), SMALL),
}


def sizes_of(seed, m, groups):
    """As JAX's tests draw them: the ends of the groups anywhere, so that some are empty."""
    ends = np.sort(np.random.default_rng(seed).integers(0, m + 1, groups - 1))
    return jnp.asarray(np.diff([0, *ends, m]), jnp.int32)


def rows_of(m, k, n, groups, dtype=jnp.float32):
    return sample(1, m, k, dtype=dtype), sample(2, groups, k, n, dtype=dtype), sizes_of(m + groups, m, groups)


def of_ones(m, k, n, groups):
    """Groups of one row each: most rows are nobody's."""
    return jnp.ones((m, k)), jnp.ones((groups, k, n)), jnp.ones(groups, jnp.int32)


RAGGED = {
    "lax_test 1": rows_of(64, 4, 3, 1),
    "lax_test 2": rows_of(64, 9, 8, 2),
    "lax_test 3": rows_of(64, 9, 8, 2, jnp.bfloat16),
    "lax_test small 1": of_ones(5, 4, 3, 1),
    "lax_test small 2": of_ones(5, 4, 3, 2),
    "lax_test small 3": of_ones(9, 4, 3, 1),
    "lax_test small 4": of_ones(10, 9, 8, 2),
    "tpu_gmm_test small": rows_of(128, 128, 128, 5),
    "tpu_gmm_test big": rows_of(512, 2048, 256, 7),
    "tpu_gmm_test partial tiles": rows_of(128, 8, 16, 32),
}


def gmm_of_the_tests(lhs, rhs, sizes):
    """``reference_gmm`` of tests/pallas/tpu_gmm_test.py: one product after another; 0 for rows of nobody."""
    ends = np.cumsum(np.asarray(sizes))
    starts = [0, *ends[:-1]]
    parts = [
        jax.lax.dot(lhs[start:end], rhs[n], precision="highest", preferred_element_type=jnp.float32)
        for n, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]
    return jnp.concatenate([*parts, jnp.zeros((lhs.shape[0] - ends[-1], rhs.shape[2]))]).astype(lhs.dtype)


def by_ragged_dot(lhs, rhs, sizes):
    return jax.lax.ragged_dot(lhs, rhs, sizes, precision="highest", preferred_element_type=jnp.float32).astype(
        lhs.dtype
    )


def with_gradients(fn, g, *args):
    o, pull = jax.vjp(fn, *args)
    return o, *pull(g.astype(o.dtype))


def examine(side, ours, theirs, *args):
    """Values, and gradients for a cotangent that is no constant."""
    wide = [x.astype(jnp.float32) for x in args]
    shape = jax.eval_shape(ours, *args)
    g = sample(9, *shape.shape, dtype=shape.dtype)
    with side() as kernels:
        got = jax.jit(functools.partial(with_gradients, ours))(g, *args)
    assert kernels is None or kernels, "no kernel of ours was run"
    want = jax.jit(functools.partial(with_gradients, theirs))(g, *wide)
    near = 3e-2 if g.dtype == jnp.bfloat16 else 2e-5
    for name, mine, other in zip("odddd", got, want, strict=False):
        mine, other = np.float32(mine), np.float32(other)
        np.testing.assert_allclose(mine, other, rtol=near, atol=near * np.abs(other).max(), err_msg=name)


SIDES = {"plain": contextlib.nullcontext, "simulated": tpu_side}


@pytest.mark.parametrize(
    "case, side",
    daily(
        ("jax.nn, padding", "plain"),
        ("mha_reference, causal, segments", "simulated"),
        ("splash, LocalMask", "simulated"),
        of=[(case, side) for case in ATTENTION for side in SIDES],
    ),
)
def test_attention(case, side):
    how, theirs, args = ATTENTION[case]
    examine(SIDES[side], functools.partial(attention.flash_attention, **how), theirs, *args)


@pytest.mark.parametrize(
    "case, theirs, side",
    daily(
        ("lax_test 2", gmm_of_the_tests, "simulated"),
        ("lax_test small 4", by_ragged_dot, "simulated"),
        ("lax_test small 4", by_ragged_dot, "plain"),
        of=itertools.product(RAGGED, (by_ragged_dot, gmm_of_the_tests), SIDES),
    ),
)
def test_grouped_products(case, theirs, side):
    *factors, sizes = RAGGED[case]
    examine(SIDES[side], lambda *a: grouped.grouped_matmul(*a, sizes), lambda *a: theirs(*a, sizes), *factors)


def test_the_examiners_see_what_is_wrong():
    def without_the_last_key(q, k, v):
        return attention.flash_attention(q, k[..., :-1, :], v[..., :-1, :])

    def a_row_too_late(*args):
        return ragged_dot(*args, jnp.array([33, 31], jnp.int32))

    with pytest.raises(AssertionError, match="Mismatched elements"):
        examine(contextlib.nullcontext, without_the_last_key, by_jax_nn, *SMALL)
    lhs, rhs, _ = RAGGED["lax_test 2"]
    with pytest.raises(AssertionError, match="Mismatched elements"):
        examine(contextlib.nullcontext, a_row_too_late, lambda *a: by_ragged_dot(*a, jnp.array([32, 32])), lhs, rhs)
