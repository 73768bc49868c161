"""Paged attention: its kernel by all four judges and at its edges, mistakes that must be seen, and other libraries'."""

import functools

import jax
import numpy as np
import pytest
from paged_pools import case, tokens
from sweeps import daily

from course_lib import compat, grid
from course_lib.kernels import paged_attention
from course_lib.kernels.paged_attention import Blocks

SMALL = Blocks(pages=8, slots=2)  # several blocks of some hundred tokens
# What is asked: lengths that end within a page, a block, on their edges; none at all; more copies than two under way;
# pages and heads of other sizes; options.
CASES = {
    "ragged": ({"lengths": [1, 137, 384, 265]}, {}),
    "whole blocks": ({"lengths": [128, 384, 256]}, {}),
    "empty": ({"lengths": [0, 20, 0, 0, 300, 0]}, {}),
    "all empty": ({"lengths": [0, 0]}, {}),
    "three blocks": ({"lengths": [0, 20, 384, 300, 5]}, {"blocks": Blocks(pages=8, slots=3)}),
    "one block": ({"lengths": [20, 300]}, {"blocks": Blocks(pages=8, slots=1)}),
    "longer than the table": ({"lengths": [1000, 48], "most": 3}, {}),
    "no grouping": ({"lengths": [20, 300], "group": 1, "heads": 3}, {}),
    "one head of keys": ({"lengths": [20, 300], "group": 8, "heads": 1}, {}),
    "heads of 64": ({"lengths": [20, 300], "d": 64}, {}),
    "heads of 72": ({"lengths": [20, 300], "d": 72}, {}),
    "heads of 256": ({"lengths": [20, 300], "d": 256}, {}),
    "pages of 128": ({"lengths": [20, 300], "page": 128, "most": 4}, {"blocks": Blocks(pages=2)}),
    "pages of 24": ({"lengths": [20, 400], "page": 24, "most": 20}, {}),
    "bf16": ({"lengths": [20, 300], "dtype": "bfloat16"}, {}),
    "int8": ({"lengths": [20, 300], "int8": True}, {}),
    "int8, bf16": ({"lengths": [20, 300], "int8": True, "dtype": "bfloat16", "page": 32}, {}),
    "int8, heads of 64, softcap": ({"lengths": [20, 300], "int8": True, "d": 64}, {"softcap": 3.0}),
    "large": ({"lengths": [20, 300], "large": 1e4}, {}),
    "softcap": ({"lengths": [20, 300]}, {"softcap": 2.0, "scale": 0.3}),
}


def simulated(fn, *args, **params):
    """In the TPU simulator, where what nothing has written is NaN."""
    traced = grid.trace(fn, *args)
    return jax.jit(lambda *a: grid.run(traced, compat.interpret_params(**params), *a))(*args)[0]


def near(got, want, tolerance):
    got, want = np.float32(got), np.float32(want)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * max(0.1, np.abs(want).max(initial=0)))


def tolerance(name):
    return 2e-2 if "bf16" in name else 1e-3 if name == "large" else 2e-5  # large scores are not known any better


@pytest.mark.parametrize("name", daily("ragged", "empty", "int8, bf16", "heads of 64", "three blocks", of=CASES))
def test_the_kernel_is_the_reference(name):
    described, how = CASES[name]
    args = case(**described)
    options = {key: value for key, value in how.items() if key != "blocks"}
    got = simulated(functools.partial(paged_attention.paged_attention, **{"blocks": SMALL} | how), *args)
    near(got, jax.jit(functools.partial(paged_attention.reference, **options))(*args), tolerance(name))


@pytest.mark.parametrize("name", CASES)
def test_plain_jax_is_attention_of_each_sequence_by_itself(name):
    """In NumPy, token by token; what is no token is not looked at."""
    described, how = CASES[name]
    q, pages, lengths, table, *scales = args = case(**described)
    options = {key: value for key, value in how.items() if key != "blocks"}
    got = paged_attention.paged_attention(*args, **options)
    heads, d = pages.shape[1], q.shape[-1]
    for b, length in enumerate(np.minimum(lengths, table.shape[1] * pages.shape[2])):
        k, v = tokens(np.asarray(pages), np.asarray(table[b]), length, d)
        if scales:
            k, v = k * scales[0][0][:, None], v * scales[0][1][:, None]
        s = np.einsum("hgd,thd->hgt", np.float64(q[b]).reshape(heads, -1, d), k) * options.get("scale", d**-0.5)
        if cap := options.get("softcap"):
            s = cap * np.tanh(s / cap)
        p = np.exp(s - s.max(axis=-1, initial=-1e30, keepdims=True))
        want = np.einsum("hgt,thd->hgd", p / np.maximum(p.sum(axis=-1, keepdims=True), 1e-300), v)
        near(got[b], want.reshape(q[b].shape), tolerance(name))
