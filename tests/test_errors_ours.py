"""Failures that this library reports itself, each provoked for real, and what a learner reads."""

import provoke
import pytest
from provoke import INDICES, X, call, compiled, copy, prefetching, raised

from course_lib import errors, grid

FAILURES = {
    "unreadable": (
        raised(lambda: grid.walk(prefetching(lambda i, indices_ref: (indices_ref[i], 0)), INDICES, X)),
        "that come from argument 0, of which only the shape is known. Pass the array itself.",
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
