"""Wide sweeps: cases for `make test-all`; in `make test` those that are named, at least one of each class.

A sweep of many slow cases runs a share of them: ``SLICE``, a whole number (0 unless set), says which. The nightly run
counts it up, so that every case has its turn. tests/README.md lists what is left to `make test-all`.
"""

import os

import pytest

SLICE = int(os.environ.get("SLICE", "0"))


def daily(*chosen, of, one_in=1):
    """The cases ``of`` a test; all but the ``chosen`` are marked as a sweep. Raises where a chosen one is no case.

    Of those that are marked, ``one_in`` so many runs.
    """
    cases = list(of)
    assert all(case in cases for case in chosen), f"{set(chosen) - set(cases)} would never run"
    assert chosen, "nothing would run every day"
    turn = share(range(len(cases)), one_in)
    return [case if case in chosen else _swept(case) for n, case in enumerate(cases) if case in chosen or n in turn]


def share(cases, one_in):
    """The cases of a sweep whose turn it is, one in so many."""
    return [case for n, case in enumerate(cases) if n % one_in == SLICE % one_in]


def _swept(case):
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.sweep)
