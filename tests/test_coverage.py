"""docs/coverage: what the sources say, and the cell that shows it. Every row is looked up in the built notebooks."""

import re

import nbformat
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

SOURCES = set("BTGKX")
FOLDERS = {"lesson": "notebooks", "exercises": "solutions"}


def shown(cell, prose: bool) -> str:
    """What a cell shows: its output; a cell of text, where a row is called prose, itself."""
    if prose:
        return cell.source if cell.cell_type == "markdown" else ""
    outputs = cell.get("outputs", [])
    return "\n".join(o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs)


def complaint(row: list[str], notebooks: dict[str, list]) -> str:
    """What is wrong with a row of a written lesson; "" if nothing is. ``notebooks``: the cells, by the name of each."""
    says, letters, where, line, words = row
    notebook, _, prose = where.partition(", ")
    if notebook not in notebooks or prose not in ("", "prose"):
        return f"{where!r} is not {' or '.join(notebooks)}, and not followed by ', prose'"
    if not says or not set(letters.split()) <= SOURCES:
        return f"{letters!r} is no list of sources"
    line, words = (CODE.fullmatch(text)[1].replace(r"\|", "|") for text in (line, words))
    there = [shown(cell, bool(prose)) for cell in notebooks[notebook] if line in cell.source]
    if not any(words in text for text in there):
        return f"the {where} has no cell with the line {line!r} that shows {words!r}, but {len(there)}: {there}"
    return ""


@pytest.mark.parametrize("number, row", SHOWN, ids=[f"{number}. {row[0]:.60}" for number, row in SHOWN])
def test_the_cell_shows_what_the_source_says(number, row):
    (stem,) = (stem for stem in LESSONS if stem[:2] == number)
    assert not complaint(row, {notebook: built(folder, stem) for notebook, folder in FOLDERS.items()})


CELLS = [
    nbformat.v4.new_markdown_cell("Told: a chip has two."),
    nbformat.v4.new_code_cell("print(2)", outputs=[nbformat.v4.new_output("stream", text="2\n")]),
    nbformat.v4.new_code_cell("two = 2"),
]


@pytest.mark.parametrize(
    "where, line, words, right",
    [
        ("lesson", "`print(2)`", "`2`", True),
        ("lesson, prose", "`Told:`", "`has two`", True),
        ("lesson", "`Told:`", "`has two`", False),  # text that is not called prose
        ("lesson", "`two = 2`", "`two`", False),  # code without an output
        ("lesson, prose", "`print(2)`", "`2`", False),  # a cell that has one
        ("lesson, text", "`Told:`", "`has two`", False),
        ("homework", "`print(2)`", "`2`", False),
    ],
)
def test_a_row_without_an_output_is_refused_unless_it_is_called_prose(where, line, words, right):
    assert (complaint(["it says", "B", where, line, words], {"lesson": CELLS}) == "") == right


def test_a_row_without_a_known_source_is_refused():
    assert "no list of sources" in complaint(["it says", "Z", "lesson", "`print(2)`", "`2`"], {"lesson": CELLS})


@pytest.mark.parametrize("number, row", LATER, ids=[f"{number}. {row[0]:.60}" for number, row in LATER])
def test_what_is_to_come_is_in_no_finished_lesson(number, row):
    says, letters = row
    assert says and set(letters.split()) <= SOURCES
    written = [stem for stem in LESSONS if stem[:2] == number]
    assert not written or DRAFT in source("notebooks/src", written[0]), (
        f"{written[0]} exists: name the cell that shows it"
    )


@pytest.mark.parametrize("stem", LESSONS)
def test_every_lesson_has_a_page(stem):
    assert [row for number, row in SHOWN if number == stem[:2]], f"docs/coverage/{stem[:2]}.md has no row"


def test_every_source_has_rows():
    assert {letter for _, row in SHOWN + LATER for letter in row[1].split()} == SOURCES


def test_every_row_is_read():
    """A table with another head would be passed over."""
    written = sum(line.startswith("| ") for page in PAGES.values() for line in page.splitlines())
    heads = sum(line.startswith("| it says |") for page in PAGES.values() for line in page.splitlines())
    assert written - heads == len(SHOWN) + len(LATER)
