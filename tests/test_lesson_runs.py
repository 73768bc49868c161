"""Every lesson's notebooks as others run them: graded, under nbval, and by a reader who has answered nothing yet."""

import ast
import contextlib
import io
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from unittest import mock

import nbformat
import pytest
from conftest import needs_libtpu
from jax.experimental.pallas import tpu as pltpu
from lesson_files import LESSONS, ROOT, as_a_learner, built

from course_lib import checks
from course_lib.checks.exercise import lesson
from course_lib.checks.result import does_nothing, is_empty
from course_lib.grading import submission
from course_lib.grading.grade import grade
from course_lib.grading.graft import course_notebook, graft


def code(folder, stem):
    return [cell for cell in built(folder, stem) if cell.cell_type == "code"]


def is_check(cell):
    return cell.id.endswith("-check")


# Graded, as `make grade` grades them


@pytest.mark.sweep(
    one_in=8
)  # every day test_grading_box.py grades an answer of each kind, and test_grading.py wrong ones
@pytest.mark.parametrize("stem", LESSONS)  # test_grading_box.py grades all of them, in a box
def test_our_own_answers_are_graded_to_full_marks(stem):
    graded = grade(ROOT / f"solutions/{stem}.ipynb", cell_timeout=120)
    assert not graded.error
    assert [row.id for row in graded.rows] == [task.id for task in lesson(stem[:2]).exercises]
    assert [(row.id, row.outcome, row.message) for row in graded.rows if row.outcome != "passed"] == []
    assert graded.points == graded.max_points > 0


@pytest.mark.sweep(one_in=8)  # every day test_grading.py grades an empty notebook
@pytest.mark.parametrize("stem", LESSONS)
def test_no_answers_are_graded_to_none(stem):
    graded = grade(ROOT / f"exercises/{stem}.ipynb", cell_timeout=120)
    assert not graded.error
    assert [(row.id, row.outcome) for row in graded.rows if row.outcome != "not attempted"] == []
    assert len(graded.rows) == len(lesson(stem[:2]).exercises) and graded.points == 0


@pytest.mark.parametrize("stem", LESSONS)
def test_our_own_answers_reach_their_checks_in_the_grader_s_notebook(stem):
    """Every cell but the scores runs as the grader has put it together; what stands for the checks counts answers."""
    submitted = submission.read(ROOT / f"solutions/{stem}.ipynb")
    course = course_notebook(submitted)
    grafted = graft(course, {task.answer: "\n\n".join(submitted[task.answer]) for task in course.tasks})
    scores, names, answers = {task.score for task in course.tasks}, {}, {}
    try:
        with contextlib.redirect_stdout(io.StringIO()), checks.rehearsal(), as_a_learner():
            with mock.patch.object(checks, "check", lambda id, answer=None: answers.setdefault(id, answer)):
                for cell in grafted["cells"]:
                    if cell["cell_type"] == "code" and cell["id"] not in scores:
                        exec(compile(ast.parse(cell["source"]), cell["id"], "exec"), names)
    finally:
        pltpu.set_tpu_interpret_mode(None)
    assert course.name == stem and list(answers) == [task.id for task in lesson(stem[:2]).exercises]
    assert [id for id, answer in answers.items() if is_empty(answer) or does_nothing(answer)] == []


# Run by a reader who has answered nothing yet


@pytest.mark.parametrize("stem", LESSONS)
def test_a_fresh_exercise_runs_to_its_end_with_no_red(stem):
    """In this process: a kernel of its own, and that every given cell runs there, is what the grader's run shows."""
    names, out, err = {}, io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), checks.rehearsal(), as_a_learner():
            for cell in code("exercises", stem):
                exec(compile(ast.parse(cell.source), cell.id, "exec"), names)
    finally:
        pltpu.set_tpu_interpret_mode(None)
    assert not err.getvalue()
    verdicts = re.findall(r"^(\d\d\.\d+) (not attempted|not yet|passed)", out.getvalue(), re.M)
    assert verdicts == [(task.id, "not attempted") for task in lesson(stem[:2]).exercises]


# Under nbval, which compares what the checks print with what is stored


@pytest.mark.parametrize("stem", LESSONS)
def test_the_stored_lines_are_passes_and_nbval_compares_them(stem):
    found = [cell for cell in code("solutions", stem) if is_check(cell)]
    assert len(found) == len(lesson(stem[:2]).exercises)
    for cell in found:
        assert "nbval-check-output" in cell.metadata.tags and cell.source.startswith("checks.check("), cell.id
        (output,) = cell.outputs
        (line,) = output.data["text/plain"].splitlines()
        assert output.data["text/html"].startswith('<div class="course-verdict"')
        assert line.startswith(f"{cell.id.removesuffix('-check').replace('-', '.')} passed: ")


@needs_libtpu  # without it the line says that the compiler is skipped
@pytest.mark.sweep(one_in=8)  # every day the next test finds, beside what differs, a line that is as it is stored
@pytest.mark.parametrize("stem", LESSONS)
def test_nbval_finds_what_is_stored(stem, tmp_path):
    failed, said = nbval(ROOT / f"solutions/{stem}.ipynb", tmp_path)
    assert failed == [], said


@needs_libtpu
def test_nbval_finds_what_differs(tmp_path):
    """The first lesson up to its third check, with another line stored below every check except the last."""
    notebook = nbformat.read(ROOT / f"solutions/{LESSONS[0]}.ipynb", 4)
    last = [n for n, cell in enumerate(notebook.cells) if is_check(cell)][2]  # the later ones are found as these are
    del notebook.cells[last + 1 :]
    found = [cell for cell in notebook.cells if is_check(cell)]
    for cell in found[:-1]:
        cell.outputs[0].data = {kind: text.replace("passed", "Passed") for kind, text in cell.outputs[0].data.items()}
    nbformat.write(notebook, tmp_path / "changed.ipynb")
    failed, said = nbval(tmp_path / "changed.ipynb", tmp_path)
    assert failed == [cell.id for cell in found[:-1]]
    assert said.count("Cell outputs differ") >= len(failed)  # where CI is set, pytest says it once more


def nbval(notebook, folder):
    """(the ids of the cells that fail, what was printed)."""
    junit = folder / "nbval.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval-lax", f"--junitxml={junit}"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "COV_"))}
    run = subprocess.run(
        [*command, "--nbval-current-env", "--nbval-cell-timeout=120", str(notebook)],
        cwd=ROOT,
        env=environment
        | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "nbval.plugin"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    cases = ET.parse(junit).getroot().findall(".//testcase")
    cells = [cell for cell in nbformat.read(notebook, 4).cells if cell.cell_type == "code"]
    assert len(cases) == len(cells)
    failed = [cell.id for cell, case in zip(cells, cases, strict=True) if case.find("failure") is not None]
    return failed, run.stdout
