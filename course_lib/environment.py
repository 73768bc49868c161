"""Where this runs: in a notebook, under nbval, on Colab, under a grader; and where it may keep what it has computed."""

import os
import pathlib
import sys

_SOMEBODY_ELSE = ("COURSE_GRADING", "NBGRADER_EXECUTION", "PYTEST_CURRENT_TEST")


def in_a_notebook() -> bool:
    """Whether a notebook's kernel runs this, so that pictures can be shown."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")


def under_nbval() -> bool:
    """In a notebook kernel that pytest has started: it compares outputs, and a progress line would be one."""
    return "PYTEST_CURRENT_TEST" in os.environ and "ipykernel_launcher" in sys.argv[0]


def building() -> bool:
    """While the course's own notebooks are built: what is checked there are our own answers."""
    return os.environ.get("COURSE_BUILD") == "1"


def on_colab() -> bool:
    """On Google Colab, or on a machine that is set up to look like it."""
    return "google.colab" in sys.modules or "COLAB_RELEASE_TAG" in os.environ


def under_a_grader() -> bool:
    """A grader runs the cell: ours, or nbgrader, for which a cell without an exception is worth full marks."""
    return "COURSE_GRADING" in os.environ or "NBGRADER_EXECUTION" in os.environ


def cache_folder() -> pathlib.Path | None:
    """The folder for what need not be computed twice, which may not exist yet; None where nothing is to be kept.

    COURSE_CACHE names it, and COURSE_CACHE=0 keeps nothing. Without it: ``course_lib`` in the user's folder for caches
    (XDG_CACHE_HOME, else ~/.cache; ~/Library/Caches on macOS), and nothing under pytest and under a grader.
    """
    named = os.environ.get("COURSE_CACHE")
    if named == "0" or (not named and any(name in os.environ for name in _SOMEBODY_ELSE)):
        return None
    try:
        if named:
            return pathlib.Path(named).expanduser()
        home = pathlib.Path(os.environ.get("XDG_CACHE_HOME", ""))
        if not home.is_absolute():
            home = pathlib.Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
        return home / "course_lib"
    except RuntimeError:  # a user without a home
        return None
