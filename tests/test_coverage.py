"""docs/coverage.md: what the sources say, and the cell that shows it. Every row is looked up in the built notebooks."""

import pathlib
import re

import nbformat
import pytest

from course_lib import errors

ROOT = pathlib.Path(__file__).parent.parent
PAGE = (ROOT / "docs/coverage.md").read_text()
CODE = re.compile(r"`([^`]+)`")


def rows(heading: str) -> list[list[str]]:
    """The cells of a table's rows, without its head."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


SHOWN, LATER = rows("Lessons 1, 3 and 4"), rows("Later lessons")


def cells(lesson: str) -> list:
    """The cells of a lesson, or of its solved exercises."""
    folder = "solutions" if lesson.startswith("E") else "notebooks"
    (path,) = (ROOT / folder).glob(f"{lesson.removeprefix('E')}_*.ipynb")
    return nbformat.read(path, as_version=4).cells


def shown(cell) -> str:
    """What a reader sees of a cell: its output, or, where there is none, the cell itself."""
    outputs = cell.get("outputs", [])
    said = "\n".join(o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs)
    return said if outputs else cell.source


@pytest.mark.parametrize("row", SHOWN, ids=lambda row: f"{row[2]}: {row[0]:.60}")
def test_the_cell_shows_what_the_source_says(row):
    says, source, lesson, line, words = row
    line, words = (CODE.fullmatch(text)[1].replace(r"\|", "|") for text in (line, words))
    there = [shown(cell) for cell in cells(lesson) if line in cell.source]
    assert there, f"no cell of {lesson} has the line {line!r}"
    assert any(words in text for text in there), f"the cell with {line!r} shows no {words!r}, but:\n" + there[0]
    assert says and set(source.split()) <= set("BTKX")


@pytest.mark.parametrize("row", LATER, ids=lambda row: f"{row[2]}: {row[0]:.60}")
def test_a_later_lesson_is_not_written_yet(row):
    says, source, lesson = row
    assert says and set(source.split()) <= set("BTKX")
    assert lesson in {f"{n:02}" for n in range(2, 19)}
    assert lesson not in errors.WRITTEN, f"lesson {lesson} exists: name the cell that shows this"


def test_every_source_has_rows():
    assert {letter for row in SHOWN + LATER for letter in row[1].split()} == set("BTKX")
    assert {row[2].removeprefix("E") for row in SHOWN} == {"01", "03", "04"} & set(errors.WRITTEN)
