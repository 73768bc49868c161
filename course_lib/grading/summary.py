"""A class at a glance: each notebook's points, each exercise's outcomes, and the most frequent refusals."""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
import re
import shutil
import statistics
import textwrap
from collections import Counter

from course_lib.grading.grade import Grade, percentage
from course_lib.grading.graft import EXERCISES
from course_lib.grading.rows import NOT_YET, OUTCOMES, Row

_REFUSED = re.compile(r"^the \w+(?: judge)? (?:refused|could not run) it\. ")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tally:
    """One exercise over all notebooks. Each pair is (the most frequent text, how often it occurs)."""

    id: str
    title: str
    kind: str
    max_points: int
    weight: float
    counts: dict[str, int]  # by outcome
    judge: tuple[str, int]  # who refused most; ("", 0) if nobody did
    sentence: tuple[str, int]  # the first sentence of a "not yet"
    golf: Scores | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scores:
    """The scores of a golf exercise over all notebooks, for every kernel that the judges accept."""

    unit: str
    par: int
    ours: int | None
    best: int | None  # of the class
    by: tuple[str, ...]  # the notebooks with the best score
    count: int

    def __str__(self) -> str:
        ours = "" if self.ours is None else f", ours {self.ours:,}"
        if self.best is None:
            return f"no score yet; par {self.par:,} {self.unit}{ours}"
        more = f" and {len(self.by) - 1} more" if len(self.by) > 1 else ""
        return f"best {self.best:,} {self.unit} ({self.by[0]}{more}); par {self.par:,}{ours}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spread:
    """The points of all notebooks of one lesson."""

    lesson: str
    notebooks: int
    median: float
    low: int
    high: int
    max_points: int


def tallies(grades: list[Grade]) -> list[Tally]:
    """Return a tally for each exercise, ordered by the numbers in their ids."""
    rows: dict[str, list[Row]] = {}
    for grade in grades:
        for row in grade.rows:
            rows.setdefault(row.id, []).append(row)
    return [_tally(rows[id], _scores(grades, id)) for id in sorted(rows, key=_number)]


def spreads(grades: list[Grade]) -> list[Spread]:
    """Return a spread for each lesson, without the notebooks that could not be graded."""
    found = []
    for lesson in sorted({grade.lesson for grade in grades if grade.rows}):
        points = [grade.points for grade in grades if grade.rows and grade.lesson == lesson]
        of = max(grade.max_points for grade in grades if grade.lesson == lesson)
        found.append(
            Spread(
                lesson=lesson, notebooks=len(points), median=statistics.median(points),
                low=min(points), high=max(points), max_points=of,
            )
        )  # fmt: skip
    return found


def headline(grades: list[Grade]) -> list[str]:
    """Return how many notebooks there are, which were not graded, and a sentence on the points of each lesson."""
    failed = [grade.file for grade in grades if not grade.rows]
    lines = [f"{_count(len(grades))}, {len(grades) - len(failed)} graded."]
    if failed:
        lines[0] += f" Not graded: {', '.join(failed)}."
    for s in spreads(grades):
        points = f"points median {s.median:g} of {s.max_points}, from {s.low} to {s.high}."
        lines.append(f"{s.lesson}, {_count(s.notebooks)}: {points}")
    noted = dict.fromkeys(grade.note for grade in grades if grade.note)
    return [*lines, *(f"{note[:1].upper()}{note[1:]}." for note in noted)]


def text(grades: list[Grade], width: int = 0) -> str:
    """Return the class in aligned lines of at most ``width`` columns; 0 means the width of the terminal."""
    width = width or min(max(shutil.get_terminal_size((100, 24)).columns, 80), 120)
    lines = [textwrap.shorten(line, width, placeholder=" ...") for line in headline(grades)]
    return "\n".join([*lines, "", *_notebooks(grades, width), "", *_exercises(tallies(grades), width)])


def _notebooks(grades: list[Grade], width: int) -> list[str]:
    """Return the notebooks in columns: name, points, percentage."""
    names = [who(grade) for grade in grades]
    longest = min(max(map(len, names), default=0), 28)
    cells = []
    for name, grade in zip(names, grades, strict=True):
        score = f"{grade.points:>3}/{grade.max_points:<3} {percentage(grade.percent):>6}"
        cells.append(f"{_cut(name, longest):<{longest}} {score if grade.rows else 'not graded':<14}")
    columns = max(1, (width + 1) // (longest + 18))
    lines = -(-len(cells) // columns)
    return ["   ".join(cells[n::lines]).rstrip() for n in range(lines)]


def who(grade: Grade) -> str:
    """Return the name without the part that all share: "alice" for alice/01_hello_kernel.ipynb."""
    name = grade.file.removesuffix(".ipynb")
    folder, _, last = name.rpartition("/")
    return folder if folder and last in (grade.lesson, *_lessons()) else name


@functools.cache
def _lessons() -> tuple[str, ...]:
    """Return the names of the course's exercise notebooks, for a notebook that could not be read."""
    return tuple(path.stem for path in EXERCISES.glob("[0-9]*.ipynb"))


def by_student(grades: list[Grade]) -> dict[tuple[str, str], list[Grade]]:
    """Return {(student, lesson): grades}, of which the first counts in the gradebooks: it has the most points."""
    found: dict[tuple[str, str], list[Grade]] = {}
    for grade in grades:
        if grade.rows:
            found.setdefault((who(grade), grade.lesson), []).append(grade)
    return {key: sorted(several, key=lambda grade: -grade.points) for key, several in sorted(found.items())}


def with_doubles_noted(grades: list[Grade]) -> list[Grade]:
    """Return the grades with a note on each that is not its student's only one of its lesson."""
    notes = {}
    for (student, lesson), several in by_student(grades).items():
        first, *others = (f"{grade.file} ({points_of(grade.points)})" for grade in several)
        said = (
            f"{student} handed in {len(several)} notebooks of {lesson}: {first}, which counts, and {', '.join(others)}"
        )
        notes |= {grade.file: said for grade in several if others}
    return [grade.noted(notes.get(grade.file, "")) for grade in grades]


def _exercises(found: list[Tally], width: int) -> list[str]:
    """Return a line of counts for each exercise, and below it the most frequent sentence."""
    outcomes = "".join(f"  {name}" for name in OUTCOMES)
    room = width - len(outcomes) - len("  refused most by")
    longest = max((len(f"{t.id}  {t.title}") for t in found), default=0)
    name_width = min(longest, room)
    lines = [f"{'':<{name_width}}{outcomes}  refused most by"] if found else []
    for tally in found:
        counts = "".join(f"  {tally.counts[name]:>{len(name)}}" for name in OUTCOMES)
        name = _cut(f"{tally.id}  {tally.title}", name_width)
        lines.append(f"{name:<{name_width}}{counts}  {_times(*tally.judge)}".rstrip())
        if tally.golf:
            lines.append(_cut(f"      {tally.golf}", width))
        if tally.sentence[0]:
            lines.append(_cut(f"      {tally.sentence[1]} x {tally.sentence[0]}", width))
    return lines


def as_csv(grades: list[Grade]) -> str:
    """Return CSV with a line per notebook: points, outcomes of the exercises, scores of golf, and the error."""
    found = tallies(grades)
    ids, scored = [tally.id for tally in found], [tally.id for tally in found if tally.golf]
    heads = (f"{tally.id} {tally.golf.unit}" for tally in found if tally.golf)
    lines = [("file", "lesson", "points", "max_points", "percent", *ids, *heads, "error", "note")]
    for grade in grades:
        outcomes = {row.id: row.outcome for row in grade.rows}
        scores = {row.id: row.score for row in grade.rows if row.score is not None}
        percent = "" if grade.percent is None else grade.percent
        score = (grade.points, grade.max_points, percent)
        cells = [*(outcomes.get(id, "") for id in ids), *(scores.get(id, "") for id in scored)]
        lines.append((grade.file, grade.lesson, *score, *cells, grade.error, grade.note))
    return table_csv(lines)


def exercises_csv(grades: list[Grade]) -> str:
    """Return CSV with a line per exercise: counts, the most frequent refusal and sentence, and the golf scores."""
    said = ("judge", "judge_count", "sentence", "sentence_count")
    lines = [("id", "title", "kind", "max_points", "weight", *OUTCOMES, *said, *(f.name for f in _OF_GOLF))]
    for t in tallies(grades):
        counts = (t.counts[name] for name in OUTCOMES)
        golf = ("" if t.golf is None else _cell(getattr(t.golf, f.name)) for f in _OF_GOLF)
        lines.append((t.id, t.title, t.kind, t.max_points, t.weight, *counts, *t.judge, *t.sentence, *golf))
    return table_csv(lines)


_OF_GOLF = dataclasses.fields(Scores)


def _cell(value: object) -> object:
    return "; ".join(value) if isinstance(value, tuple) else "" if value is None else value


def _scores(grades: list[Grade], id: str) -> Scores | None:
    """Return the scores of exercise ``id``; None if it has none."""
    rows = [(who(grade), row) for grade in grades for row in grade.rows if row.id == id and row.unit]
    if not rows:
        return None
    scored = [(row.score, who) for who, row in rows if row.score is not None]
    best, first = min(scored, default=(None,))[0], rows[0][1]
    return Scores(
        unit=first.unit, par=first.par, ours=first.ours, best=best,
        by=tuple(who for score, who in scored if score == best), count=len(scored),
    )  # fmt: skip


def _tally(rows: list[Row], scores: Scores | None) -> Tally:
    first = rows[0]
    counts = Counter(row.outcome for row in rows)
    judges = Counter(row.judge for row in rows if row.judge)
    sentences = Counter(_REFUSED.sub("", row.message) for row in rows if row.outcome == NOT_YET)
    return Tally(
        id=first.id, title=first.title, kind=first.kind, max_points=first.max_points, weight=first.weight,
        counts={name: counts[name] for name in OUTCOMES}, judge=_most(judges), sentence=_most(sentences),
        golf=scores,
    )  # fmt: skip


def points_of(number: int) -> str:
    """Return a number of points in words."""
    return f"{number} point{'' if number == 1 else 's'}"


def _count(notebooks: int) -> str:
    return f"{notebooks} notebook{'' if notebooks == 1 else 's'}"


def _most(counter: Counter) -> tuple[str, int]:
    return counter.most_common(1)[0] if counter else ("", 0)


def _number(id: str) -> tuple[int, ...]:
    return tuple(int(part) for part in id.split("."))  # "01.10" comes after "01.9"


def _times(name: str, count: int) -> str:
    return f"{name} ({count})" if name else ""


def _cut(text: str, width: int) -> str:
    text = " ".join(text.split("\n"))
    return text if len(text) <= width else text[: width - 4] + " ..."


def table_csv(lines: list[tuple]) -> str:
    """Return CSV in which no text is a formula."""
    return plain_csv([[no_formula(cell) for cell in line] for line in lines])


def plain_csv(lines: list) -> str:
    """Return CSV of the cells as they are."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue()


def no_formula(cell):
    """Return text that a spreadsheet would evaluate as a formula in a form that it keeps as text."""
    return "'" + cell if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell
