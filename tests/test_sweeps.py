"""The marks of wide sweeps: what runs every day has none, and what is named but is no case is an error."""

import pytest
from sweeps import daily


def test_all_but_the_chosen_are_marked():
    first, second, third = daily("a", ("b", 2), of=["a", ("b", 2), ("c", 3)])
    assert (first, second) == ("a", ("b", 2))
    assert third.values == ("c", 3) and [mark.name for mark in third.marks] == ["sweep"]


def test_a_case_that_is_none_and_no_case_at_all_are_errors():
    with pytest.raises(AssertionError, match="would never run"):
        daily("a", "z", of=["a", "b"])
    with pytest.raises(AssertionError, match="nothing would run every day"):
        daily(of=["a", "b"])
