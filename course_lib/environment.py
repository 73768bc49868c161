"""Where this runs: in a notebook, under nbval, on Colab, under a grader."""

import os
import sys


def in_a_notebook() -> bool:
    """Whether a notebook's kernel runs this, so that pictures can be shown."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")


def under_nbval() -> bool:
    """In a notebook kernel that pytest has started: it compares outputs, and a progress line would be one."""
    return "PYTEST_CURRENT_TEST" in os.environ and "ipykernel_launcher" in sys.argv[0]


def on_colab() -> bool:
    """On Google Colab, or on a machine that is set up to look like it."""
    return "google.colab" in sys.modules or "COLAB_RELEASE_TAG" in os.environ


def under_a_grader() -> bool:
    """A grader runs the cell: ours, or nbgrader, for which a cell without an exception is worth full marks."""
    return "COURSE_GRADING" in os.environ or "NBGRADER_EXECUTION" in os.environ
