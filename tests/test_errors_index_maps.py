"""Failures of index maps, each provoked for real, and what a learner reads."""

import functools

import jax.numpy as jnp
import numpy as np
import provoke
import pytest
from jax.experimental import pallas as pl
from provoke import INDICES, ROWS_OF_8, V, X, call, compiled, copy, prefetching

FAILURES = {
    "index-map-results": (
        compiled(call(copy, block=(8, 512), grid=(32,), index_map=lambda i: (i,))),
        "must return one block index for each axis of the block (8, 512), 2 in total, but it returned 1.",
    ),
    "index-map-results, too many": (
        compiled(call(copy, (1024,), (4,), lambda i: (i, 0)), V),
        "for each axis of the block (1024,), 1 in total, but it returned 2.",
    ),
    "index-map-results, of the output": (
        compiled(call(copy, *ROWS_OF_8[:1], (32,), ROWS_OF_8[1], out_specs=pl.BlockSpec((8, 512), lambda i: None))),
        "The index map of the output must return one block index for each axis",
    ),
    "index-map-type": (
        compiled(call(copy, (8, 512), (32,), lambda i: (i / 1, 0))),
        "The index map of input 0 must return integers, one for each axis, but for axis 0 it returned float32[].",
    ),
    "index-map-type, an array": (
        compiled(call(copy, (8, 512), (32,), lambda i: (0, np.arange(2)))),
        "for axis 1 it returned int32[2].",
    ),
    "index-map-ref": (
        compiled(prefetching(lambda i, indices_ref: (indices_ref, 0)), INDICES, X),
        "The index map returned the prefetched ref indices_ref itself",
    ),
    "index-map-order": (
        compiled(prefetching(lambda indices_ref, i: (indices_ref[i], 0)), INDICES, X),
        "A prefetched ref is used as an index",
    ),
    "index-map-number": (
        compiled(prefetching(lambda indices_ref, i: (indices_ref[0], 0)), INDICES, X),
        "A scalar is indexed as if it were a list.",
    ),
    "index-map-table": (
        compiled(call(copy, (8, 512), (32,), lambda i: ([*range(32)][i], 0))),
        "An index map reads a list or an array from outside.",
    ),
    "index-map-table, in NumPy": (
        compiled(call(copy, (8, 512), (32,), lambda i: (np.arange(32)[i], 0))),
        "An index map reads a list or an array from outside.",
    ),
    "index-map-table, in JAX": (
        compiled(call(copy, (8, 512), (32,), functools.partial(lambda table, i: (table[i], 0), jnp.arange(32)))),
        "An index map reads a list or an array from outside.",
    ),
    "index-map-if": (compiled(call(copy, (8, 512), (32,), lambda i: (min(i, 3), 0))), "An index map used `if`"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_is_explained(failure):
    provoke.assert_explained(failure, *FAILURES[failure])


def test_the_advice_is_not_what_was_written():
    assert "one for each axis, such as (i,)." in FAILURES["index-map-results, too many"][0]().next
    assert "such as (i, 0); a def without a return" in FAILURES["index-map-results"][0]().next
    assert "such as (i, 0)." in compiled(call(copy, (8, 512), (32,), lambda i: (i, 0, 0)))().next
