"""Wide sweeps: every case in `make test-all`, and in `make test` those that are named, at least one of each class.

tests/README.md lists what is left to `make test-all`.
"""

import pytest


def daily(*chosen, of):
    """The cases ``of`` a test; all but the ``chosen`` are marked as a sweep. Raises where a chosen one is no case."""
    cases = list(of)
    assert all(case in cases for case in chosen), f"{set(chosen) - set(cases)} would never run"
    assert chosen, "nothing would run every day"
    return [case if case in chosen else _swept(case) for case in cases]


def _swept(case):
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.sweep)
