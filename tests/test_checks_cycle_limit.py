"""checks.cycle_limit: who takes too many cycles, who has none, and who does not compile."""

import types

import pytest

from course_lib import compiler
from course_lib.checks import cycle_limit


def asked(monkeypatch, **report):
    report = types.SimpleNamespace(**{"ok": True, "error": None, "cycles": None, "notes": (), **report})
    monkeypatch.setattr(compiler, "compile_tpu", lambda *_: report)
    return cycle_limit.exceeded(None, (), 500, "For 8 rows", lambda report: ("All of them wait.", "wait less."))


def test_at_the_limit_nothing_is_said(monkeypatch):
    assert asked(monkeypatch, cycles=500) is None


@pytest.mark.parametrize(
    "report, what, next_",
    [
        (
            {"cycles": 501},
            "For 8 rows, it takes 501 cycles, predicted (compiler); the limit is 500. All",
            "wait less.",
        ),
        (
            {"notes": ("no cycles: a reason.",)},
            "the compiler's simulator gives none. no cycles: a reason.",
            "once more.",
        ),
        ({"ok": False, "error": "too large"}, "For 8 rows, the compiler refuses it: too large", "VMEM"),
    ],
)
def test_what_does_not_meet_it_is_told_why(monkeypatch, report, what, next_):
    said = asked(monkeypatch, **report)
    assert what in said[0] and next_ in said[1]


def test_without_a_compiler_nothing_is_demanded(monkeypatch):
    def missing(*_):
        raise compiler.Unavailable("no libtpu")

    monkeypatch.setattr(compiler, "compile_tpu", missing)
    assert cycle_limit.exceeded(None, (), 500, "For 8 rows", None) is None
