"""Planted bugs: who refuses each with which sentence, and the page that says so. The bugs are in tests/zoo."""

import functools
import multiprocessing
import pathlib
import re

import pytest
from conftest import PINNED, needs_libtpu, pinned
from zoo import BUGS, examine, page

from course_lib import judges

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/zoo.md").read_text()
REWRITE = "the page is out of date: python tools/bug_zoo.py --write"
KINDS = {
    "index maps", "revisits", "initialisation", "tails and masks", "parallel axes", "copies", "precision", "arithmetic",
    "softmaxes", "attention", "attention gradients", "paged attention", "block sparse", "grouped products", "memory",
    "aliasing", "scalars", "promises", "gradients", "pipelines", "code",
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def examiner():
    yield
    examine.stop()


@functools.cache
def row(name):
    """What every judge says of a bug when it is asked alone, by the judge's name."""
    return examine.row(next(bug for bug in BUGS if bug.name == name))


def param(bug):
    marks = [needs_libtpu] if bug.caught_by == "compiler" else []
    marks += [pytest.mark.sweep] if bug.caught_by and bug.name not in DAILY else []
    return pytest.param(bug, id=bug.name, marks=marks)


# Every day the first bug of each kind and the first that each judge refuses; the rest every night.
CAUGHT = [bug for bug in reversed(BUGS) if bug.caught_by]
DAILY = {*{bug.kind: bug.name for bug in CAUGHT}.values(), *{bug.caught_by: bug.name for bug in CAUGHT}.values()}


@pytest.mark.parametrize("bug", [param(bug) for bug in CAUGHT])
def test_bug_is_refused_by_its_judge_and_by_none_before_it(bug):
    answers = row(bug.name)
    before = judges_before(bug.caught_by)
    assert {judge: answers[judge] for judge in before} == {judge: examine.Cell("-") for judge in before}
    assert answers[bug.caught_by].word == "refuses", answers[bug.caught_by]
    assert re.search(bug.says, answers[bug.caught_by].said), answers[bug.caught_by].said
    assert not PINNED or page.row_line(bug, answers) in PAGE, REWRITE


def judges_before(judge):
    names = list(judges.JUDGES)
    return names[: names.index(judge)]


@pytest.mark.parametrize("bug", [param(bug) for bug in BUGS if not bug.caught_by])
def test_bug_that_is_called_undetectable_is_seen_by_nobody(bug):
    answers = row(bug.name)
    assert {answers[judge].word for judge in judges.JUDGES} <= {"-", "skipped"}
    assert answers[examine.BARE].word == "passes"
    assert bug.undetectable.startswith("only a chip shows it")
    assert not PINNED or page.row_line(bug, answers) in PAGE, REWRITE


@pytest.mark.parametrize("judge", [name for name in judges.JUDGES if name != "compiler"])
def test_asked_in_order_the_judges_stop_where_the_matrix_says(judge):
    """The matrix asks each judge alone, in another process; a learner's verdict comes from judges.judge."""
    bug = next(bug for bug in BUGS if bug.caught_by == judge)
    verdicts = judges.judge(bug.fn, bug.reference, *bug.args)
    assert [(v.judge, v.passed) for v in verdicts] == [(name, True) for name in judges_before(judge)] + [(judge, False)]
    assert f"{verdicts[-1].message}\n{verdicts[-1].next}".strip() == row(bug.name)[judge].said


def test_every_kind_has_a_file_of_its_name():
    files = {path.stem.replace("_", " ") for path in (ROOT / "tests/zoo").glob("*.py")}
    assert KINDS <= files


def test_the_zoo_is_large_and_every_kind_is_there():
    assert len(BUGS) >= 40
    assert len({bug.name for bug in BUGS}) == len(BUGS)
    assert {bug.kind for bug in BUGS} == KINDS
    assert {bug.caught_by for bug in BUGS} == {*judges.JUDGES, None}
    assert {bug.caught_by for bug in BUGS if bug.name in DAILY} == set(judges.JUDGES)
    assert {bug.kind for bug in BUGS if bug.name in DAILY} == {bug.kind for bug in BUGS if bug.caught_by}


def test_every_bug_says_what_is_to_be_read_or_why_nobody_can_see_it():
    for bug in BUGS:
        assert bool(bug.says) == bool(bug.caught_by) != bool(bug.undetectable), bug.name


def test_a_question_without_an_answer_in_time_hangs(monkeypatch):
    monkeypatch.setattr(examine, "LIMIT_S", 0.0)
    monkeypatch.setattr(examine, "PATIENCE_S", 0.0)
    assert {cell.word for cell in examine.row(BUGS[0]).values()} == {"hangs"}


def test_a_question_that_ends_the_process_crashes():
    ours, theirs = multiprocessing.Pipe()
    theirs.close()
    with ours:
        assert examine.answer(ours).word == "crashes"


@pinned
def test_the_page_is_what_its_lines_say():
    """Each line of the matrix is computed above, where its bug is: here all that follows from them."""
    rows = [page.written_row(PAGE, bug) for bug in BUGS]  # those on GPUs are in test_judges_gpu.py
    assert PAGE == page.page(BUGS, rows, examine.LIMIT_S), REWRITE


def test_the_table_lines_up_under_its_columns():
    rows = [dict.fromkeys(examine.COLUMNS, examine.Cell("refuses")) for _ in BUGS]
    head, *lines = page.table(BUGS, rows).splitlines()
    starts = [head.index(column) for column in examine.COLUMNS]
    answers = [line for line in lines if "refuses   " in line]
    assert len(answers) == len(BUGS)
    assert max(map(len, answers)) <= 94
    assert all(line[start:].startswith("refuses") for line in answers for start in starts)
