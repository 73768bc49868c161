"""How what a learner handed over is said: in few words, without addresses."""

import textwrap

import pytest

from course_lib.checks.unfit import described


@pytest.mark.parametrize(
    "value, says",
    [
        ({"a": 1}, "a dict with 1 key"),
        ((1, 2, 3), "a tuple of 3"),
        ([], "a list of 0"),
        ("(6, 128)", "text: '(6, 128)'"),
        (7, "the number 7"),
        (None, "None"),
        (lambda i: i, "a function"),
        (textwrap.fill, "the function fill"),
        (object(), "<object object>"),
    ],
    ids=lambda each: each if isinstance(each, str) else type(each).__name__,
)
def test_what_is_handed_over_is_said_without_addresses(value, says):
    assert described(value) == says


def test_a_long_value_is_cut_between_words_and_ends_in_dots():
    said = described("one word after another, " * 9)
    assert said.endswith(" ...") and said.split()[-2].rstrip(",") in ("one", "word", "after", "another")
