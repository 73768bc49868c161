"""The marks of wide sweeps: what runs every day has none, a name that is no case is an error, all have their turn."""

import pytest
import sweeps
from sweeps import daily

pytest_plugins = ["pytester"]


def test_all_but_the_chosen_are_marked():
    first, second, third = daily("a", ("b", 2), of=["a", ("b", 2), ("c", 3)])
    assert (first, second) == ("a", ("b", 2))
    assert third.values == ("c", 3) and [mark.name for mark in third.marks] == ["sweep"]


def test_a_case_that_is_none_and_no_case_at_all_are_errors():
    with pytest.raises(AssertionError, match="would never run"):
        daily("a", "z", of=["a", "b"])
    with pytest.raises(AssertionError, match="nothing would run every day"):
        daily(of=["a", "b"])


CROSSED = """
import pytest
from sweeps import daily

@pytest.mark.parametrize("x", daily(1, of=range(4)))
@pytest.mark.parametrize("y", daily(0, of=range(3), one_in=4))
def test_crossed(x, y):
    pass

@pytest.mark.sweep
def test_alone():
    pass
"""


def test_every_case_of_a_sweep_has_its_turn(pytester, monkeypatch):
    """Of two crossed sweeps too, once in so many runs as the rarer one says; a test that is whole always runs."""
    monkeypatch.setattr(sweeps, "SLICE", "all")
    items, _ = pytester.inline_genitems(pytester.makepyfile(CROSSED))
    swept = {item for item in items if item.get_closest_marker("sweep")}
    assert (len(items), len(swept)) == (13, 12)
    assert sweeps.not_their_turn(items) == set()
    turns = []
    for turn in "0123":
        monkeypatch.setattr(sweeps, "SLICE", turn)
        turns.append(swept - sweeps.not_their_turn(items))
    alone = {item for item in swept if item.name == "test_alone"}
    assert alone == set.intersection(*turns)
    assert sorted(item.name for turn in turns for item in turn - alone) == sorted(i.name for i in swept - alone)
