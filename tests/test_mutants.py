"""Wrong answers, and who refuses each of them with which sentence. Our own answers pass."""

import collections
import functools
import os
import pathlib
import re
from unittest import mock

import jupytext
import pytest
from conftest import needs_libtpu
from jax.experimental.pallas import tpu as pltpu

from course_lib import checks

ROOT = pathlib.Path(__file__).resolve().parent.parent
LESSONS = [path.name for path in sorted((ROOT / "solutions/src").glob("[0-9]*.py"))]


@functools.cache
def code_cells(path):
    """The code cells of a percent file under solutions/; none if there is no such file."""
    path = ROOT / "solutions" / path
    return [c for c in jupytext.read(path).cells if c.cell_type == "code"] if path.exists() else []


MUTANTS = [
    pytest.param(
        *(lesson, cell),
        id=f"{cell.metadata['answer']}: {cell.metadata['name']}",
        marks=[needs_libtpu] if cell.metadata["judge"] == "compiler" else [],
    )
    for lesson in LESSONS
    for cell in code_cells(f"mutants/{lesson}")
    if "answer" in cell.metadata
]
EXERCISES = [
    pytest.param(lesson, cell.metadata["answer"], id=cell.metadata["answer"])
    for lesson in LESSONS
    for cell in code_cells(f"src/{lesson}")
    if "answer" in cell.metadata
]


@pytest.fixture(scope="module", autouse=True)
def started():
    """What the first cell of a notebook sets, until this module is done."""
    checks.start()
    yield
    pltpu.set_tpu_interpret_mode(None)


def check(lesson, id, answer=None):
    """The verdict on exercise ``id``, with ``answer`` in the place of our own answer."""
    with checks.rehearsal():  # no test knows what another has hinted or assessed
        return verdict_on(lesson, id, answer)


def verdict_on(lesson, id, answer):
    namespace = {"checks": checks}
    for cell in code_cells(f"src/{lesson}"):
        if cell.source.strip() == "# FIRST CELL":
            continue
        if cell.metadata.get("check") == id:
            return evaluate(cell.source, namespace)
        if "check" not in cell.metadata:
            mutated = answer is not None and cell.metadata.get("answer") == id
            exec(answer if mutated else cell.source, namespace)
    raise AssertionError(f"solutions/src/{lesson} has no check of {id}")


def evaluate(source, namespace):
    with mock.patch.dict(os.environ):
        os.environ.pop("PYTEST_CURRENT_TEST", None)  # a learner's verdict is printed, not raised
        return eval(source, namespace)


@pytest.mark.parametrize("lesson, cell", MUTANTS)
def test_mutant_is_refused(lesson, cell):
    verdict = check(lesson, cell.metadata["answer"], cell.source)
    assert verdict.outcome == "not yet", str(verdict)
    assert verdict.judge == cell.metadata["judge"], str(verdict)
    assert re.search(cell.metadata["says"], str(verdict)), str(verdict)


@pytest.mark.parametrize("lesson, id", EXERCISES)
def test_our_own_answer_passes(lesson, id):
    verdict = check(lesson, id)
    assert verdict.passed, str(verdict)


@pytest.mark.parametrize("lesson, id", EXERCISES)
def test_exercise_has_three_to_six_mutants(lesson, id):
    counts = collections.Counter(cell.metadata.get("answer") for cell in code_cells(f"mutants/{lesson}"))
    assert 3 <= counts[id] <= 6


def test_no_mutant_is_left_over():
    ids = {param.values[1] for param in EXERCISES}
    strays = {p.values[1].metadata["answer"] for p in MUTANTS} - ids
    assert not strays
    # The first is the comment at the head of the file.
    mutants = [cell for lesson in LESSONS for cell in code_cells(f"mutants/{lesson}")[1:]]
    nameless = [cell.source for cell in mutants if "says" not in cell.metadata]
    assert not nameless, "a header that cannot be read"
    written = {path.name for path in (ROOT / "solutions/mutants").glob("*.py")}
    assert written <= set(LESSONS)
