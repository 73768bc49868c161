"""The leaderboard: who is on it, under which name, with which score; and a class of sixty in boxes."""

import json
import re

import pytest
from graded_class import STEM, make
from lesson_files import ROOT
from tiny_projects import a_project

from course_lib.checks.exercise import exercise
from course_lib.checks.kinds import golf
from course_lib.grading import leaderboard, leaderboard_page, rivals
from course_lib.grading.aliases import NoAlias, alias
from course_lib.grading.box import bwrap
from course_lib.grading.box.grader import Grader
from course_lib.grading.grade import Grade
from course_lib.grading.leaderboard import Player, boards
from course_lib.grading.rivals import Rivals
from course_lib.grading.rows import Row

boxed = pytest.mark.skipif(bool(bwrap.problem()), reason=bwrap.problem() or "there is a box")
AGAINST = Rivals(par=160_000, ours=147_456, xla=160_001, xla_note="counted", bound=147_455)


def player(name, score, outcome="passed", id="01.11"):
    row = Row(
        id=id, title="Golf", kind="golf", outcome=outcome, points=0, max_points=2, unit="bytes", score=score,
        par=160_000, ours=147_456,
    )  # fmt: skip
    return Player(name=name, grade=Grade(file=f"{name}.ipynb", rows=(row,)))


def said(*sources):
    return alias({"cell": list(sources)})


# Names


@pytest.mark.parametrize(
    "source, name",
    [
        ('leaderboard_name = "Ada"', "Ada"),
        ("x = 1\nleaderboard_name='Grace  H.'  # me\ny = 2", "Grace H."),
        ('leaderboard_name = "first"\nleaderboard_name = "second"', "second"),
        ("leaderboard_name = None", ""),
        ("leaderboard_name = open('x').read()", ""),
        ("# leaderboard_name = 'commented'", ""),
        ("print('nothing')", ""),
        ('leaderboard_name = "\\x1b[31mred\\x1b[0m"', "red"),
    ],
)
def test_a_name_is_read_and_nothing_is_run(source, name):
    assert said(source) == name


@pytest.mark.parametrize(
    "source, why",
    [
        ("leaderboard_name = 5", "is not text"),
        ('leaderboard_name = ""', "has 0 characters"),
        (f'leaderboard_name = "{"x" * 31}"', "has 31 characters"),
        ('leaderboard_name = "XLA"', "another line of the page"),
    ],
)
def test_a_name_that_cannot_be_shown(source, why):
    with pytest.raises(NoAlias, match=why):
        said(source)


# Places


def test_equal_scores_share_a_place():
    (board,) = boards([player("c", 700), player("B", 650), player("a", 650), player("d", 800)])
    assert [(e.place, e.name, e.score) for e in board.entries] == [
        (1, "a", 650), (1, "B", 650), (3, "c", 700), (4, "d", 800),
    ]  # fmt: skip


def test_the_best_of_two_notebooks_of_one_name_counts():
    (board,) = boards([player("a", 700), player("a", 650)])
    assert [(e.name, e.score) for e in board.entries] == [("a", 650)]


def test_what_no_judge_accepts_has_no_place():
    (board,) = boards([player("a", 650), player("b", None, "not yet"), player("c", 600, "error")])
    assert [e.name for e in board.entries] == ["a"] and board.unscored == 2
    assert boards([player("b", None, "not yet")]) == []


def test_exercises_come_by_number():
    found = boards([player("a", 1, id="10.2"), player("a", 1, id="02.11"), player("a", 1, id="02.9")])
    assert [board.id for board in found] == ["02.9", "02.11", "10.2"]


# The page


def test_the_page_has_every_line_in_the_order_of_scores(monkeypatch):
    monkeypatch.setattr(leaderboard_page, "rivals", lambda task: AGAINST)
    page = leaderboard_page.page_of(boards([player("<i>Ada</i>", 147_456), player("Bob", 155_000)]), 2, 5)
    assert "2 of 5 notebooks take part" in page and "<script" not in page
    names = re.findall(r'(?:<strong>|<span class="muted">)(.*?)</', page)
    assert names == ["the bound", "ours", "&lt;i&gt;Ada&lt;/i&gt;", "Bob", "par", "XLA (counted)"]
    assert "0.92" in page and "1.05" in page, "times par, and times the bound"


def test_a_page_without_scores():
    assert "Nobody has a score yet." in leaderboard_page.page_of([], 0, 3)


def test_rivals_of_a_golf_exercise():
    found = rivals.rivals(exercise("01.11"))
    assert found.bound <= found.ours <= found.par


def test_rivals_of_a_project(monkeypatch):
    monkeypatch.setattr(golf, "ours", lambda id: None)  # there is no build of it
    found = rivals.rivals(a_project())
    assert found.xla == pytest.approx(1_500_000, rel=0.01) and found.xla_note == "by its bytes"
    assert found.bound == pytest.approx(2 * 256 * 256 * 4 / 819e9 * 1.5e9, rel=0.01)


# A class


def named(folder, file, name):
    """Let a notebook take part under a name."""
    notebook = json.loads((folder / file).read_text())
    cell = {"cell_type": "code", "id": "me", "metadata": {}, "execution_count": None, "outputs": []}
    notebook["cells"].append(cell | {"source": f"leaderboard_name = {name!r}"})
    (folder / file).write_text(json.dumps(notebook))


def judged(folder, grader, seconds=60.0):
    notebooks = {path.name: path for path in sorted(folder.glob("*.ipynb"))}
    ids = leaderboard.scored_ids()

    def rows_of(course, submitted, timeout):
        return grader.rows(course, submitted, timeout, only=ids)

    return leaderboard.players_of(notebooks, rows_of, seconds, 1, said=lambda text: None)


@pytest.fixture(scope="module")
def grader():
    grader = Grader(1, seed=20261130)
    yield grader
    grader.end()


@boxed
def test_only_who_asks_is_on_the_board_and_is_judged_anew(grader, tmp_path):
    """A score that a notebook prints, or has patched into the library, is not looked at."""
    solved = json.loads((ROOT / f"solutions/{STEM}.ipynb").read_text())
    blank = json.loads((ROOT / f"exercises/{STEM}.ipynb").read_text())
    boast = json.loads(json.dumps(blank))
    next(c for c in boast["cells"] if c["id"] == "01-11")["source"] = (
        "import course_lib.checks.kinds.golf as golf\ngolf.score = lambda *a: 1\nprint('01.11 score: 1')\nblend = None"
    )
    for name, notebook in {"ada": solved, "bob": solved, "eve": boast, "shy": solved}.items():
        (tmp_path / f"{name}.ipynb").write_text(json.dumps(notebook))
        if name != "shy":
            named(tmp_path, f"{name}.ipynb", name.title())
    players, notes = judged(tmp_path, grader)
    assert [player.name for player in players] == ["Ada", "Bob", "Eve"] and notes == []
    (board,) = boards(players)
    assert [(e.place, e.name) for e in board.entries] == [(1, "Ada"), (1, "Bob")] and board.unscored == 1
    assert board.entries[0].score == players[0].grade.rows[0].ours


@boxed
@pytest.mark.sweep
def test_a_class_of_sixty(grader, tmp_path):
    """Solutions, wrong answers, blanks and attacks: who is on the board is known beforehand."""
    expected = make(tmp_path, 60, seed=3)
    for file in expected:
        named(tmp_path, file, file.removesuffix(".ipynb"))
    players, _ = judged(tmp_path, grader, seconds=20.0)
    (board,) = boards(players)
    there = {entry.name for entry in board.entries}
    for file, must in expected.items():
        if must.get("01.11") is not None:
            name = file.removesuffix(".ipynb")
            assert must["01.11"] == (name in there) or "mixed" in name, name  # a mutant above par has a score, too
    ours = players[0].grade.rows[0].ours
    assert all(entry.score >= ours or "solved" not in entry.name for entry in board.entries)
