"""Paged attention with a sliding window: by all lengths, what is copied and read, and what it costs."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_libtpu
from paged_pools import NOWHERE, SMALL, case
from sweeps import daily
from test_paged_attention import near, plain, reference, simulated
from test_paged_attention_wrappers import by_token

from course_lib import compiler
from course_lib.kernels import paged_attention, paged_attention_wrappers
from course_lib.kernels.paged_attention import Blocks

WINDOWS = [(16, 17), (16, 1), (16, 16), (16, 129), (16, 1000), (24, 100), (64, 200), (128, 128)]  # page, window
LENGTHS = [0, 1, 15, 16, 17, 127, 128, 129, 200, 255, 256, 257, 300, 383]


@pytest.mark.sweep
@pytest.mark.parametrize(("page", "window"), WINDOWS)
def test_of_any_length_the_last_tokens_count(page, window):
    args = case(LENGTHS, page=page, heads=1, most=-(-384 // page))
    fn = functools.partial(paged_attention.paged_attention, window=window, blocks=SMALL)
    near(simulated(fn, *args), reference(*args, window=window), 2e-5)


def test_the_reference_is_that_of_the_last_tokens_alone():
    """Of sequences on an edge of a page: these are then sequences of their own."""
    q, pages, lengths, table = case([48, 64, 16])
    shorter = jnp.int32([32, 32, 16]), jnp.stack([table[0, 1:3], table[1, 2:4], table[2, :2]])
    near(reference(q, pages, lengths, table, window=32), reference(q, pages, *shorter), 1e-6)


@pytest.mark.parametrize("run", daily("plain", of=["plain", "simulated"]))
def test_what_lies_in_pages_before_the_window_is_not_looked_at(run):
    q, pages, lengths, table = case([137, 390])
    want = reference(q, pages, lengths, table, window=40)
    given_back = np.array(table)
    given_back[0, : (137 - 40) // 16], given_back[1, : (390 - 40) // 16] = NOWHERE, NOWHERE
    fn = functools.partial(paged_attention.paged_attention, window=40)
    near({"plain": plain, "simulated": simulated}[run](fn, q, pages, lengths, jnp.asarray(given_back)), want, 2e-5)


@pytest.mark.parametrize("window", daily(2**31, of=[2**30, 2**31, 2**40]))
def test_a_window_longer_than_anything_is_none(window):
    """Rows of many heads times such a number are no int32."""
    q, pages, lengths, table = case([137, 390])
    more = jnp.arange(3, dtype=jnp.int32), jnp.int32([2])
    fn = functools.partial(paged_attention_wrappers.ragged_paged_attention, sliding_window=window)
    got = simulated(fn, q, by_token(pages), lengths, table, *more)
    near(got, reference(q, pages, lengths, table, scale=1.0), 2e-5)


def test_a_block_has_no_more_pages_than_a_window_meets():
    q, pages, lengths, table = case([20, 33])
    assert paged_attention.blocks_for(q, pages, lengths, table).pages == 24
    assert paged_attention.blocks_for(q, pages, lengths, table, window=100) == Blocks(pages=8, slots=3)


def test_no_block_is_for_one_page_alone():
    """16 pages of 8 heads are a block; a window of 512 meets 33."""
    q, pages, lengths, table = case([20], dtype="bfloat16", heads=8, most=128)
    assert paged_attention.blocks_for(q, pages, lengths, table).pages == 16
    assert paged_attention.blocks_for(q, pages, lengths, table, window=512).pages == 24


@pytest.mark.sweep
@needs_libtpu
def test_a_window_costs_what_its_tokens_cost():
    """The cycles of a window in long sequences are about those of sequences as long as the window."""

    def cycles(length, **options):
        args = case([length] * 2, dtype="bfloat16", heads=8, group=4, most=-(-length // 16))
        report = compiler.compile_tpu(functools.partial(paged_attention.paged_attention, **options), *args)
        assert report.ok, report.error
        return report.cycles

    assert cycles(1530, window=512) < 1.25 * cycles(512)
