"""Failures that this library reports itself, each provoked for real, and what a learner reads."""

import jax.numpy as jnp
import provoke
import pytest
from provoke import INDICES, Shape, X, call, compiled, copy, prefetching, raised

from course_lib import errors, grid

NARROW, COLUMN = Shape((16, 128), jnp.bfloat16), Shape((16, 1), jnp.int32)
FAILURES = {
    "unreadable": (
        raised(lambda: grid.walk(prefetching(lambda i, indices_ref: (indices_ref[i], 0)), INDICES, X)),
        "from argument 0, but only its shape is known. Pass the array itself.",
    ),
    "time-limit": (
        compiled(call(copy), time_limit_s=0.001),
        "The compiler gave no answer within 0.001 s and was stopped.",
    ),
    "crash": (
        compiled(call(copy), memory_bytes=64 << 20),
        "may use 0.0625 GiB of memory",
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_is_explained(failure):
    provoke.assert_explained(failure, *FAILURES[failure])


def test_our_own_refusals_are_passed_on_whole():
    words = "this kernel cannot be read: " + "because of one thing and another, " * 20 + "so call it directly."
    assert errors.explain(grid.UnreadableCall(words)).what == words


@pytest.mark.parametrize(
    ("ending", "words", "memory"),
    [
        ("was ended by SIGABRT", "table.cc:719] Operation not supported: kVectorMaxIndexReduceBf16", False),
        ("was ended by SIGABRT", "checks.cc:1] Check failed: a == b (1 vs. 2)", False),
        ("was ended by SIGABRT", "", False),
        ("ended with exit status 1", "OpenBLAS error: Memory allocation still failed after 10 retries", True),
        ("was ended by SIGABRT", "terminate called after throwing an instance of 'std::bad_alloc'", True),
        ("was ended by SIGSEGV", "", True),
        ("was ended by SIGKILL", "", True),
    ],
)
def test_a_crash_is_put_down_to_memory_only_if_it_was(ending, words, memory):
    told = errors.explain(
        f"WorkerDied: the compiler's process {ending} (it may use 2 GiB of memory)"
        + (f"; its last words: {words}" if words else "")
    )
    assert told.name == "crash" and ("It may use 2 GiB of memory" in told.what) == memory, told
    assert words in told.what


def test_an_operation_that_the_chip_lacks_in_16_bits_is_read_off_the_crash():
    told = compiled(
        call(lambda x, o: o.__setitem__(..., jnp.argmax(x[...], 1, keepdims=True)), out_shape=COLUMN), NARROW
    )()
    assert told.name == "crash" and "kVectorMaxIndexReduceBf16" in told.what and "cast to float32" in told.next, told
