"""What takes long says so, in one line that goes away."""

import io
import sys
import time
import types

import pytest

from course_lib.compiler import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def watched(monkeypatch):
    monkeypatch.delenv("COURSE_PROGRESS", raising=False)
    monkeypatch.setattr(progress, "AFTER_S", 0.0)
    monkeypatch.setattr(progress, "_EVERY_S", 0.01)
    # Not sys.stderr itself: pytest sets that anew before the test runs.
    monkeypatch.setattr(progress, "sys", types.SimpleNamespace(stderr=Terminal(), modules=sys.modules, argv=[""]))
    return progress.sys.stderr


def until(true, limit_s=10.0):
    deadline = time.monotonic() + limit_s
    while not true() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert true()


def test_a_terminal_shows_one_line_that_can_be_renamed_and_goes_away(watched):
    with progress.shown("compiling") as say:
        until(lambda: "compiling … " in watched.getvalue())
        say("simulating")
        until(lambda: "simulating … " in watched.getvalue())
    assert watched.getvalue().endswith("\r\x1b[K"), "the line is empty in the end"


def test_what_is_quick_shows_nothing(watched, monkeypatch):
    monkeypatch.setattr(progress, "AFTER_S", 60.0)
    with progress.shown("compiling"):
        pass
    assert watched.getvalue() == ""


@pytest.mark.parametrize("why", ["asked to be quiet", "nobody watches"])
def test_nothing_is_shown_where_nobody_wants_it(watched, monkeypatch, why):
    if why == "asked to be quiet":
        monkeypatch.setenv("COURSE_PROGRESS", "0")
    else:
        monkeypatch.setattr(watched, "isatty", lambda: False)
    with progress.shown("compiling") as say:
        say("simulating")
        time.sleep(0.05)
    assert watched.getvalue() == ""


def test_a_notebook_shows_one_output_that_is_updated(watched, monkeypatch):
    shown = []
    handle = types.SimpleNamespace(update=lambda bundle, raw: shown.append(("update", bundle["text/plain"])))

    def display(bundle, raw, display_id):
        shown.append(("display", bundle["text/plain"]))
        return handle

    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    ipython.display = types.ModuleType("IPython.display")
    ipython.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    with progress.shown("compiling"):
        until(lambda: len(shown) > 2)
    assert [kind for kind, _ in shown[:2]] == ["display", "update"]
    assert shown[0][1].startswith("compiling … ") and shown[-1][1] == ""
    assert watched.getvalue() == ""


def test_what_is_done_inside_something_shows_nothing_of_its_own(watched):
    with progress.shown("judging"), progress.shown("compiling"):
        until(lambda: "judging … " in watched.getvalue())
    assert "compiling" not in watched.getvalue()
