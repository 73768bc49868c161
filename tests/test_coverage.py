"""docs/coverage: what the sources say, and the cell that shows it. Every row is looked up in the built notebooks."""

import re

import pytest
from lesson_files import LESSONS, ROOT, built, source

PAGES = {page.stem: page.read_text() for page in sorted((ROOT / "docs/coverage").glob("[0-9][0-9].md"))}
CODE = re.compile(r"`([^`]+)`")
DRAFT = "*This lesson is a draft.*"  # in the first cell of a lesson that is being written


def rows(page: str, head: str) -> list[list[str]]:
    """The cells of the rows of the table that begins with ``head``; none where there is no such table."""
    lines = page.partition(f"{head}\n")[2].partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


SHOWN = [
    (n, row) for n, page in PAGES.items() for row in rows(page, "| it says | in | notebook | the cell | it shows |")
]
LATER = [(n, row) for n, page in PAGES.items() for row in rows(page, "| it says | in |")]

FOLDERS = {"lesson": "notebooks", "exercises": "solutions"}


def shown(cell) -> str:
    """What a reader sees of a cell: its output, or, where there is none, the cell itself."""
    outputs = cell.get("outputs", [])
    said = "\n".join(o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs)
    return said if outputs else cell.source


@pytest.mark.parametrize("number, row", SHOWN, ids=[f"{number}. {row[0]:.60}" for number, row in SHOWN])
def test_the_cell_shows_what_the_source_says(number, row):
    says, letters, notebook, line, words = row
    line, words = (CODE.fullmatch(text)[1].replace(r"\|", "|") for text in (line, words))
    (stem,) = (stem for stem in LESSONS if stem[:2] == number)
    there = [shown(cell) for cell in built(FOLDERS[notebook], stem) if line in cell.source]
    assert there, f"no cell of the {notebook} of {stem} has the line {line!r}"
    assert any(words in text for text in there), f"the cell with {line!r} shows no {words!r}, but:\n" + there[0]
    assert says and set(letters.split()) <= set("BTKX")


@pytest.mark.parametrize("number, row", LATER, ids=[f"{number}. {row[0]:.60}" for number, row in LATER])
def test_what_is_to_come_is_in_no_finished_lesson(number, row):
    says, letters = row
    assert says and set(letters.split()) <= set("BTKX")
    written = [stem for stem in LESSONS if stem[:2] == number]
    assert not written or DRAFT in source("notebooks/src", written[0]), (
        f"{written[0]} exists: name the cell that shows it"
    )


@pytest.mark.parametrize("stem", LESSONS)
def test_every_lesson_has_a_page(stem):
    assert [row for number, row in SHOWN if number == stem[:2]], f"docs/coverage/{stem[:2]}.md has no row"


def test_every_source_has_rows():
    assert {letter for _, row in SHOWN + LATER for letter in row[1].split()} == set("BTKX")


def test_every_row_is_read():
    """A table with another head would be passed over."""
    written = sum(line.startswith("| ") for page in PAGES.values() for line in page.splitlines())
    heads = sum(line.startswith("| it says |") for page in PAGES.values() for line in page.splitlines())
    assert written - heads == len(SHOWN) + len(LATER)
