"""Wide sweeps: cases for `make test-all`; in `make test` those that are named, at least one of each class.

Of the cases of a test that have the mark ``sweep``, one run takes a share: one in ONE_IN of them, or one in so many as
the mark says, ``sweep(one_in=6)``. SLICE says which, a whole number (0 unless set) that the nightly run counts up, so
that every case has its turn; with SLICE=all they all run. tests/README.md lists what is left to `make test-all`.
"""

import collections
import os

import pytest

SLICE = os.environ.get("SLICE", "0")
ONE_IN = 3


def daily(*chosen, of, one_in=ONE_IN):
    """The cases ``of`` a test; all but the ``chosen`` are marked as a sweep. Raises where a chosen one is no case."""
    cases = list(of)
    assert all(case in cases for case in chosen), f"{set(chosen) - set(cases)} would never run"
    assert chosen, "nothing would run every day"
    return [case if case in chosen else _swept(case, one_in) for case in cases]


def share(cases, one_in=ONE_IN):
    """The cases whose turn it is, one in so many."""
    return [case for n, case in enumerate(cases) if SLICE == "all" or n % one_in == int(SLICE) % one_in]


def not_their_turn(items) -> set:
    """Those of pytest's ``items`` that this run leaves out: of each test with several swept cases, all but a share."""
    swept = collections.defaultdict(list)
    for item in items:
        if item.get_closest_marker("sweep"):
            swept[item.nodeid.partition("[")[0]].append(item)
    left_out = set()
    for cases in filter(lambda cases: len(cases) > 1, swept.values()):
        one_in = max(mark.kwargs.get("one_in", ONE_IN) for case in cases for mark in case.iter_markers("sweep"))
        left_out.update(set(cases) - set(share(cases, one_in)))
    return left_out


def _swept(case, one_in):
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.sweep(one_in=one_in))
