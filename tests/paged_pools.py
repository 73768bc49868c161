"""Sequences in pages for the tests of ``paged_attention``: NaN wherever no token is, and tables that point anywhere."""

import jax.numpy as jnp
import numpy as np

from course_lib.kernels.paged_attention import Blocks

NOWHERE = 10**9  # in the table, past the end of a sequence

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
    "one KV head": ({"lengths": [20, 300], "group": 8, "heads": 1}, {}),
    "heads of 64": ({"lengths": [20, 300], "d": 64}, {}),
    "heads of 72": ({"lengths": [20, 300], "d": 72}, {}),
    "heads of 256": ({"lengths": [20, 300], "d": 256}, {}),
    "pages of 128": ({"lengths": [20, 300], "page": 128, "most": 4}, {"blocks": Blocks(pages=2)}),
    "pages of 24": ({"lengths": [20, 400], "page": 24, "most": 20}, {}),
    "bf16": ({"lengths": [20, 300], "dtype": "bfloat16"}, {}),
    "int8": ({"lengths": [20, 300], "int8": True}, {}),
    "int8, bf16": ({"lengths": [20, 300], "int8": True, "dtype": "bfloat16", "page": 32}, {}),
    "int8, heads of 64, softcap": ({"lengths": [20, 300], "int8": True, "d": 64}, {"softcap": 3.0}),
    "window": ({"lengths": [1, 137, 40, 390]}, {"window": 40}),
    "window, heads of 64": ({"lengths": [0, 300, 20], "d": 64, "page": 24}, {"window": 130}),
    "window, bf16": ({"lengths": [383, 300], "dtype": "bfloat16"}, {"window": 256}),
    "large": ({"lengths": [20, 300], "large": 1e4}, {}),
    "softcap": ({"lengths": [20, 300]}, {"softcap": 2.0, "scale": 0.3}),
}


def case(lengths, *, heads=2, group=2, page=16, d=128, most=24, dtype="float32", large=1.0, int8=False):
    """q, pages, lengths, table, and scales of int8 pages: as ``paged_attention`` takes them."""
    rng, batch = np.random.default_rng(0), len(lengths)
    pages = np.full((batch * most + 3, heads, page, 2 * d), np.nan, np.float32)
    table = np.full((batch, most), NOWHERE)
    free = iter(rng.permutation(len(pages)))
    for b, length in enumerate(lengths):
        for i in range(-(-min(length, most * page) // page)):
            table[b, i] = next(free)
            rows = min(page, length - i * page)
            pages[table[b, i], :, :rows] = rng.normal(size=(heads, rows, 2 * d))
    q = jnp.asarray(rng.normal(size=(batch, heads * group, d)) * large, dtype)
    arrays = jnp.asarray(lengths, jnp.int32), jnp.asarray(table, jnp.int32)
    if not int8:
        return q, jnp.asarray(pages, dtype), *arrays
    scales = np.float32(rng.uniform(0.5, 2.0, (2, heads)) / 127 * 4)
    return q, jnp.asarray(np.clip(np.nan_to_num(pages / 4 * 127, nan=99.0), -127, 127), jnp.int8), *arrays, scales


def tokens(pages, table, length, d):
    """Keys and values of one sequence by hand, (length, KH, D) each."""
    page = pages.shape[2]
    rows = [np.float32(pages[table[t // page], :, t % page]) for t in range(length)]
    rows = np.stack(rows) if rows else np.zeros((0, pages.shape[1], 2 * d), np.float32)
    return rows[..., :d], rows[..., d:]
