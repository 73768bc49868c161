"""The environment this runs in (notebook, nbval, Colab, grader) and the folder where results may be cached."""

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
    """Whether pytest started this notebook's kernel. It compares outputs, so a progress line would count as one."""
    return "PYTEST_CURRENT_TEST" in os.environ and "ipykernel_launcher" in sys.argv[0]


def building() -> bool:
    """Whether the course's own notebooks are being built, so that the answers being checked are our own."""
    return os.environ.get("COURSE_BUILD") == "1"


def on_colab() -> bool:
    """Whether this is Google Colab, or a machine that is set up to look like it."""
    return "google.colab" in sys.modules or "COLAB_RELEASE_TAG" in os.environ


def under_a_grader() -> bool:
    """Whether a grader runs the cell: ours or nbgrader, which gives full marks to any cell that raises no exception."""
    return "COURSE_GRADING" in os.environ or "NBGRADER_EXECUTION" in os.environ


def cache_folder() -> pathlib.Path | None:
    """Return the folder for cached results, which may not exist yet, or None if nothing may be kept.

    The variable COURSE_CACHE names it; COURSE_CACHE=0 turns caching off. Without it, the folder is ``course_lib`` in
    the user's cache folder (XDG_CACHE_HOME, else ~/.cache; ~/Library/Caches on macOS), and under pytest or a grader
    nothing is kept.
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
    except RuntimeError:  # the user has no home folder
        return None
