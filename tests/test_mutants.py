"""Wrong answers, and who refuses each of them with which sentence.

Every day those that run no kernel are tried, and of those with kernels one in each lesson, chosen so that every judge
has one; the others are a sweep. That our own answers pass is seen where the solutions are built (test_notebooks.py).
"""

import collections
import math
import re

import lesson_files
import nbformat
import pytest
from conftest import needs_libtpu, pinned
from jax.experimental.pallas import tpu as pltpu
from lesson_files import LESSONS, ROOT, TASKS, as_a_learner, code_cells, edited, mutants, names_before, span, stem_of

from course_lib import checks
from course_lib.checks.kinds import JUDGED

KERNELS = {task.id for task in TASKS if task.kind in JUDGED}
STAGE = re.compile(r"checks\.(planted|tuned)\(")


WITH_KERNELS = {stem: [c.metadata for c in mutants(stem) if c.metadata["answer"] in KERNELS] for stem in LESSONS}


def chosen_daily():
    """In each lesson one wrong answer with a kernel: the rarest judge's that has none yet, or else the first."""
    times = collections.Counter(cell["judge"] for cells in WITH_KERNELS.values() for cell in cells)
    for cells in filter(None, WITH_KERNELS.values()):
        cell = min(cells, key=lambda cell: times[cell["judge"]])
        times[cell["judge"]] = math.inf
        yield cell["answer"], cell["name"]


DAILY = set(chosen_daily())
OF_THE_PINNED_COMPILER = {"02.8: unrolls by 8"}  # at which libtpu 0.0.48 crashes, and 0.0.50 does not


def cases(stem):
    """A case for every wrong answer of a lesson: (its stem, the cell)."""
    for cell in mutants(stem):
        id, name, judge = (cell.metadata[key] for key in ("answer", "name", "judge"))
        marks = [needs_libtpu] if judge == "compiler" else []
        marks += [pinned] if f"{id}: {name}" in OF_THE_PINNED_COMPILER else []
        marks += [pytest.mark.sweep(one_in=6)] if id in KERNELS and (id, name) not in DAILY else []
        yield pytest.param(stem, cell, id=f"{id}: {name}", marks=marks)


MUTANTS = [case for stem in LESSONS for case in cases(stem)]


@pytest.fixture(autouse=True)
def a_notebook_s_settings():
    """What the first cell of a notebook sets, until the test is done."""
    checks.start()
    yield
    pltpu.set_tpu_interpret_mode(None)


def verdict(stem, id, answer, stages=False):
    """The verdict on exercise ``id`` with ``answer`` in the place of our own answer.

    The cells of the exercises before it run once for all its mutants; those of its own anew for each. ``stages``: those
    of a project run too in which its test is tested and its table compiled.
    """
    cells = code_cells("solutions/src", stem)
    first, check = span(stem, id)
    names = dict(names_before(stem, first))
    with checks.rehearsal(), as_a_learner():
        for cell in cells[first:check]:
            if STAGE.match(cell.source) and not stages:
                continue
            exec(answer if cell.metadata.get("answer") == id else cell.source, names)
        return eval(cells[check].source, names)


@pytest.mark.parametrize("stem, cell", MUTANTS)
def test_mutant_is_refused(stem, cell):
    said = verdict(stem, cell.metadata["answer"], cell.source, stages="stages" in cell.metadata)
    assert said.outcome == "not yet", str(said)
    assert said.judge == cell.metadata["judge"], str(said)
    assert re.search(cell.metadata["says"], str(said)), str(said)


def test_every_day_each_judge_refuses_one():
    judged = {(cell["answer"], cell["name"]): cell["judge"] for cells in WITH_KERNELS.values() for cell in cells}
    assert {judged[name] for name in DAILY} == set(judged.values())


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_exercise_has_three_mutants_or_more(task):
    assert collections.Counter(cell.metadata["answer"] for cell in mutants(stem_of(task)))[task.id] >= 3


@pytest.mark.parametrize("stem", LESSONS)
def test_no_mutant_is_left_over(stem):
    ids = {task.id for task in TASKS}
    cells = code_cells("solutions/mutants", stem)[1:]  # the first is the comment at the head of the file
    assert not {cell.metadata["answer"] for cell in cells if "answer" in cell.metadata} - ids
    assert all("says" in cell.metadata for cell in cells), "a header that cannot be read"


def test_no_file_of_mutants_is_left_over():
    assert {path.stem for path in (ROOT / "solutions/mutants").glob("*.py")} <= set(LESSONS)


# The edits

ANSWER = "a\n  b\n\nc\nc\nd"


def test_an_edit_takes_lines_out_and_puts_lines_in():
    assert edited(ANSWER, "#  a\n# -  b\n#\n# +  x\n\n# -c\n#  d\n# +\n# +e") == "a\n\n  x\nc\nd\n\ne"


@pytest.mark.parametrize(
    "edit, says",
    [
        ("# -b", "once in the answer, not 0 times:\nb$"),
        ("# -c\n# +e", "once in the answer, not 2 times:\nc$"),
        ("# +e", "once in the answer, not 7 times"),
        ("# -d\n\n# -a", "or stand above it:\na$"),
        ("# -c\n# -c\n\n# -c\n# -d", "these lines overlap the place before"),
        ("#  a", "the edit changes nothing"),
        ("# -a\n# +a", "the edit changes nothing"),
        ("# -a\n# e", "not with '# e'"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused(edit, says):
    with pytest.raises(ValueError, match=says):
        edited(ANSWER, edit)


def test_an_edit_that_does_not_fit_is_named(monkeypatch):
    header = {"answer": TASKS[0].id, "name": "a slip"}
    cells = {"solutions/mutants": [nbformat.v4.new_code_cell("# -no such line", metadata=header)], "solutions/src": []}
    monkeypatch.setattr(lesson_files, "code_cells", lambda kind, stem: cells[kind])
    with pytest.raises(ValueError, match=rf"solutions/mutants/x\.py, {TASKS[0].id} 'a slip': .* not 0 times"):
        mutants.__wrapped__("x")
