"""A page of the best scores of a class: golf and projects, judged again in closed boxes, under names that people chose.

    python -m course_lib.grading.leaderboard handed_in        writes leaderboard.html

A notebook takes part if one of its cells says ``leaderboard_name = "..."``. A score that it prints, or that an earlier
report has, has no effect: every kernel is judged and counted anew. docs/grading.md explains the page.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import functools
import os
import pathlib
import secrets
import sys

from course_lib.grading import aliases, submission
from course_lib.grading.folder import find
from course_lib.grading.grade import Grade, grade
from course_lib.grading.graft import course_notebooks
from course_lib.grading.rows import ERROR, Row

MAX_JOBS = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """A score that counts. ``place`` is the rank; equal scores have the same."""

    name: str
    score: int
    place: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Board:
    """The scores of one exercise, the lowest first. ``unscored``: how many that took part have no score in it."""

    id: str
    unit: str
    entries: tuple[Entry, ...]
    unscored: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Player:
    """A notebook that takes part: its name on the page, and its grade."""

    name: str
    grade: Grade


def boards(players: list[Player]) -> list[Board]:
    """Return a board for each exercise in which somebody has a score, ordered by the numbers in their ids."""
    rows: dict[str, list[tuple[str, Row]]] = {}
    for player in players:
        for row in player.grade.rows:
            if row.unit:
                rows.setdefault(row.id, []).append((player.name, row))
    found = [_board(id, rows[id]) for id in sorted(rows, key=lambda id: tuple(map(int, id.split("."))))]
    return [board for board in found if board.entries]


def _board(id: str, rows: list[tuple[str, Row]]) -> Board:
    best: dict[str, int] = {}
    for name, row in rows:
        if row.score is not None and row.outcome != ERROR:
            best[name] = min(row.score, best.get(name, row.score))
    scores = sorted(best.values())
    entries = (Entry(name=name, score=score, place=scores.index(score) + 1) for name, score in best.items())
    order = sorted(entries, key=lambda entry: (entry.score, entry.name.casefold()))
    names = {name for name, _ in rows}
    return Board(id=id, unit=rows[0][1].unit, entries=tuple(order), unscored=len(names - best.keys()))


def players_of(
    notebooks: dict[str, pathlib.Path], rows_of, cell_timeout: float, jobs: int, said=print
) -> tuple[list[Player], list[str]]:
    """Judge the notebooks that take part; return them, and a sentence on each that wanted to and cannot.

    ``rows_of(course, submitted, cell_timeout)`` judges the exercises with scores of one notebook.
    """
    names, notes = {}, []
    for name, path in notebooks.items():
        try:
            if chosen := aliases.alias(submission.read(path)):
                names[name] = chosen
        except aliases.NoAlias as error:
            notes.append(f"{name}: {error}")
        except submission.Unreadable:
            continue  # it has no name either

    def one(name: str) -> Player:
        graded = grade(notebooks[name], name=name, cell_timeout=cell_timeout, rows_of=rows_of)
        said(f"{names[name]}: {sum(row.score is not None for row in graded.rows)} scores, {graded.seconds:.0f} s")
        return Player(name=names[name], grade=graded)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        players = list(pool.map(one, names))
    notes += [f"{player.name}: {player.grade.error}" for player in players if player.grade.error]
    return players, notes


def scored_ids() -> frozenset[str]:
    """Return the exercises that have a score."""
    return frozenset(task.id for course in course_notebooks() for task in course.tasks if task.golf is not None)


def main(prog: str = "pallas-leaderboard") -> int:
    """Run the command; return 0, or 2 if there is no page, with the reason on stderr."""
    options = _options(prog)
    from course_lib.grading.box import bwrap

    try:
        notebooks, ids = find(options.folder), scored_ids()
        if why := bwrap.problem():
            raise FileNotFoundError(f"a leaderboard is made only in closed boxes. {why}")
    except FileNotFoundError as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return 2
    players, notes = _judged(notebooks, ids, options)
    for note in notes:
        print(note, file=sys.stderr)
    from course_lib.grading.leaderboard_page import page_of  # which imports JAX, for the bounds

    options.out.write_text(page_of(boards(players), len(players), len(notebooks)), encoding="utf-8")
    print(f"{len(players)} of {len(notebooks)} notebooks take part. The page is {options.out}", file=sys.stderr)
    return 0


def _judged(notebooks: dict[str, pathlib.Path], ids: frozenset[str], options) -> tuple[list[Player], list[str]]:
    from course_lib.grading.box.grader import Grader

    grader = Grader(options.jobs, secrets.randbits(48))
    try:
        return players_of(
            notebooks, functools.partial(grader.rows, only=ids), options.cell_timeout, options.jobs,
            said=functools.partial(print, file=sys.stderr),
        )  # fmt: skip
    finally:
        grader.end()


def _options(prog: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=prog, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=pathlib.Path, metavar="FOLDER", help="a folder of notebooks, or one notebook")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("leaderboard.html"), help="the page")
    parser.add_argument("--cell-timeout", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, MAX_JOBS), metavar="N")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main(prog="make leaderboard"))
