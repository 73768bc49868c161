"""Paged attention under the names of other libraries, and over their pools: ours, and what the JAX wheel computes."""

import functools
import importlib

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_libtpu
from paged_pools import CASES, case
from sweeps import daily
from test_paged_attention import near, plain, reference, simulated, tolerance

from course_lib import compiler
from course_lib.kernels import paged_attention_wrappers


def apart(pages):
    """Keys and values as JAX and PyTorch/XLA have them."""
    d = pages.shape[-1] // 2
    return pages[..., :d].swapaxes(0, 1), pages[..., d:].swapaxes(0, 1)


def by_token(pages):
    """As vLLM has them."""
    n, heads, page, w = pages.shape
    return jnp.moveaxis(pages.reshape(n, heads, page, 2, w // 2), 2, 1).reshape(n, page, 2 * heads, w // 2)


WRAPPED = {
    name: CASES[name]
    for name in ("ragged", "empty", "bf16", "heads of 64", "one KV head", "heads of 256", "int8", "window")
}


@pytest.mark.parametrize("name", daily("bf16", of=[name for name in WRAPPED if name not in ("int8", "window")]))
def test_with_pages_apart_it_is_ours(name):
    q, pages, lengths, table = case(**CASES[name][0])
    for run in (simulated, plain):
        got = run(paged_attention_wrappers.paged_attention, q, *apart(pages), lengths, table)
        near(got, reference(q, pages, lengths, table, scale=1.0), tolerance(name))


@pytest.mark.parametrize("name", daily("bf16", of=WRAPPED))
def test_with_pages_by_token_it_is_ours(name):
    """Of each sequence one query, its last token, as in decoding."""
    described, how = CASES[name]
    q, pages, lengths, table, *scales = case(**described)
    batch = len(lengths)
    options = {"sm_scale": 0.1, "soft_cap": 5.0, "sliding_window": how.get("window")}
    if scales:
        scales[0][:] = scales[0][:, :1]
        options |= {"k_scale": float(scales[0][0, 0]), "v_scale": float(scales[0][1, 0])}
    more = jnp.arange(batch + 1, dtype=jnp.int32), jnp.int32([batch])
    fn = functools.partial(paged_attention_wrappers.ragged_paged_attention, **options)
    for run in (simulated, plain):
        got = run(fn, q, by_token(pages), lengths, table, *more)
        near(got, reference(q, pages, lengths, table, *scales, scale=0.1, softcap=5.0, **how), tolerance(name))


@needs_libtpu
@pytest.mark.parametrize("chip", daily("v6e", of=["v5e", "v5p", "v6e"]))
@pytest.mark.parametrize("dtype", daily("bfloat16", of=["bfloat16", "float32"]))
def test_other_libraries_pools_compile(dtype, chip):
    q, pages, lengths, table = case([20, 300], dtype=dtype, heads=8)

    def both(q, k_pages, v_pages, kv_pages, lengths, table):
        more = jnp.arange(3, dtype=jnp.int32), jnp.int32([2])
        one = paged_attention_wrappers.paged_attention(q, k_pages, v_pages, lengths, table)
        return one, paged_attention_wrappers.ragged_paged_attention(q, kv_pages, lengths, table, *more)

    args = q, *apart(pages), by_token(pages), lengths, table
    report = compiler.compile_tpu(both, *args, chip=chip, simulate=False)
    assert report.ok, report.error


def test_queries_of_a_prompt_see_the_tokens_up_to_their_own():
    """Two sequences of 3 and 1 queries, room for another, and rows of nobody; behind them in the arguments anything.

    Of the tokens up to its own a query sees so many as the window has: the second and third not the first.
    """
    _, pages, lengths, table = case([20, 33, 7])
    q = jnp.asarray(np.random.default_rng(1).normal(size=(6, 4, 128)), jnp.float32)
    starts, count = jnp.int32([0, 3, 4, -99]), jnp.int32([2])
    args = q, by_token(pages), lengths, table, starts, count
    got = plain(functools.partial(paged_attention_wrappers.ragged_paged_attention, sliding_window=18), *args)
    of_each = jnp.int32([18, 19, 20, 33, 0, 0])
    want = reference(q, pages, of_each, table[jnp.int32([0, 0, 0, 1, 0, 0])], window=18, scale=1.0)
    near(got, want, 1e-5)
    assert not got[4:].any()


@pytest.mark.parametrize("count", [3, 99])
def test_behind_as_many_sequences_as_there_may_be_rows_are_nobodys(count):
    """They got a longer past of the last sequence: as many tokens more as they are behind it."""
    _, pages, lengths, table = case([20, 33, 7])
    q = jnp.asarray(np.random.default_rng(1).normal(size=(7, 4, 128)), jnp.float32)
    args = q, by_token(pages), lengths, table, jnp.int32([0, 2, 3, 4]), jnp.int32([count])
    got = plain(paged_attention_wrappers.ragged_paged_attention, *args)
    of_each = jnp.int32([19, 20, 33, 7, 0, 0, 0])
    near(got, reference(q, pages, of_each, table[jnp.int32([0, 0, 1, 2, 2, 2, 2])], scale=1.0), 1e-5)
    assert not got[4:].any()


@pytest.mark.sweep
@pytest.mark.parametrize("window", [None, 1, 18, 19])
def test_it_is_what_jax_computes_of_ragged_queries(window):
    """By the reference that the JAX wheel ships beside its kernel, which vLLM's has its arguments from."""
    wheel = importlib.import_module("jax.experimental.pallas.ops.tpu.ragged_paged_attention")
    _, pages, lengths, table = case([20, 33], most=3)
    q = jnp.asarray(np.random.default_rng(1).normal(size=(4, 4, 128)), jnp.float32)
    args = q, by_token(jnp.nan_to_num(pages)), lengths, jnp.clip(table, 0, 5), jnp.int32([0, 3, 4]), jnp.int32([2])
    options = {"sm_scale": 0.1, "soft_cap": 3.0, "sliding_window": window}
    got = plain(functools.partial(paged_attention_wrappers.ragged_paged_attention, **options), *args)
    near(got, wheel.ref_ragged_paged_attention(*args, **options), 1e-4)


@pytest.mark.sweep
def test_it_is_what_the_kernel_of_jax_computes():
    wheel = importlib.import_module("jax.experimental.pallas.ops.tpu.paged_attention")
    q, pages, lengths, table = case([20, 33], most=4)
    args = q, *apart(jnp.nan_to_num(pages)), lengths, jnp.clip(table, 0, 5)
    how = {"pages_per_compute_block": 2}
    want = simulated(functools.partial(wheel.paged_attention, **how), *args)
    got = plain(functools.partial(paged_attention_wrappers.paged_attention, **how), *args)
    near(got, want, 2e-2)  # it multiplies in one pass of the MXU
