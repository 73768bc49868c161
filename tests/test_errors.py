"""The table of failures as a whole, and what becomes of a failure that is not in it.

The rows of each subject are provoked in tests/test_errors_<subject>.py.
"""

import collections
import importlib
import pathlib
import subprocess
import sys

import pytest
from provoke import compiled, raised

from course_lib import errors
from course_lib.errors.rows import ROWS, SUBJECTS

ROOT = pathlib.Path(__file__).parent.parent


def name_of(subject):
    return subject.__name__.rpartition(".")[2]


@pytest.mark.parametrize("subject", SUBJECTS, ids=name_of)
def test_every_row_is_provoked(subject):
    failures = importlib.import_module(f"test_errors_{name_of(subject)}").FAILURES
    assert {failure.split(",")[0] for failure in failures} == {row.name for row in subject.ROWS}


def test_every_subject_is_in_the_table():
    files = {file.stem for file in (ROOT / "course_lib/errors/rows").glob("*.py")} - {"__init__"}
    assert sorted(map(name_of, SUBJECTS)) == sorted(files)


def test_names_of_rows_are_unique():
    assert [name for name, times in collections.Counter(row.name for row in ROWS).items() if times > 1] == []


def test_lessons_that_are_referred_to_are_written():
    sources = ROOT.glob("notebooks/src/[0-9]*.py")
    assert set(errors.WRITTEN) == {source.stem[:2] for source in sources} - {"00"}


def test_importing_errors_is_light():
    heavy = "import sys, course_lib.errors; print({'jax', 'numpy', 'keras'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", heavy], cwd=ROOT, text=True).strip() == "set()"


def test_no_path_of_a_machine_is_repeated():
    assert "/" not in compiled(lambda x: (x, "text"))().what


def test_unknown_failure_keeps_its_own_words():
    assert errors.explain(ZeroDivisionError("division by zero")).what == "ZeroDivisionError: division by zero"
    assert errors.explain("").what == "no message"


def test_a_failure_without_words_names_the_functions_it_came_from():
    def a_function_that_objects():
        raise AssertionError

    assert raised(a_function_that_objects)().what.startswith("AssertionError: no message, from a_function_that_objects")


def test_long_failures_are_cut_between_words():
    what = errors.explain(ValueError("word " * 100)).what
    assert len(what) <= 300 and what.endswith("word ...")
