"""Mannerisms that readers stumbled over stay out of every text: home-made words for things that have names."""

import ast
import functools
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent
# What a text must not say, and what it should say instead. Add to it what a reader marks.
INSTEAD = {
    r"\bdear(er|est)?\b": "expensive, or costs more",
    r"\bis at it for\b": "takes",
    r"\bhang(s|ing)? (over|out)\b": "reaches past the edge of the array",
    r"\btak(e|es|ing) the cause away\b": "remove the cause",
    r"\b(made|read|reads|begins?|computed) anew\b": "again, or from zero",
    r"(?<!wait )(?<!waits )\bfor nothing\b": "free, or in vain",
    r"\bwhat it is made of\b": "its parts",
    r"\bthe way back\b": "the backward pass",
    r"\broads?\b": "way, method or engine",
    r"\bseats?\b|\bsittings?\b|\bhearings?\b": "judge, trial or run",
    r"(?<!=)\b(\d+|n|more|fewer|half of the|each of the) turns\b|\bturns of (a|the) loop\b": "iterations",
    r"\bis it that\b": "ask directly",
    r"\bof itself alone\b": "by itself",
    r"\bto the full\b": "completely",
    r"\ba word you do not know\b": "unsure about a term? see the glossary",
    r"\bkernels? [a-z ]*are asked for\b": "are opt-in",
    r"\bso much the (better|worse)\b": "say what follows",
    r"\bthree rivals\b|\bits rivals\b": "alternatives",
    r"\bat no cost of\b": "without",
}  # fmt: skip
CELLS = [*ROOT.glob("notebooks/src/*.py"), *ROOT.glob("solutions/src/*.py")]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
QUOTES = ROOT / "docs/coverage"  # what others have written
CODE = sorted((ROOT / "course_lib").rglob("*.py"))


@functools.cache
def texts(file: pathlib.Path) -> str:
    """What a reader of the file reads: a page, the comments of cells, or the strings of a module; on one line."""
    return " ".join(_texts(file).split())


def _texts(file: pathlib.Path) -> str:
    text = file.read_text("utf-8")
    if file in PAGES:
        return text
    if file in CELLS:
        return " ".join(line.lstrip("# ") for line in text.splitlines() if line.startswith("#"))
    constants = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
    return "\n".join(value for value in constants if isinstance(value, str))


@pytest.mark.parametrize("mannerism", INSTEAD)
def test_no_text_has_a_mannerism(mannerism):
    files = [file for file in (*CELLS, *PAGES, *CODE) if QUOTES not in file.parents]
    found = [
        f"{file.relative_to(ROOT)}: {text[max(0, hit.start() - 40) : hit.end() + 40]!r}"
        for file in files
        for text in [texts(file)]
        for hit in re.finditer(mannerism, text, re.IGNORECASE)
    ]
    assert not found, f"say {INSTEAD[mannerism]!r} instead:\n" + "\n".join(found)


def test_pages_cells_and_strings_are_read():
    assert all(len(files) > 10 for files in (CELLS, PAGES, CODE))
    assert "lesson 1" in texts(ROOT / "notebooks/src/02_the_machine.py")
    assert "There is no exercise" in texts(ROOT / "course_lib/checks/exercise.py"), "a message of the library"
    assert "import jax" not in texts(ROOT / "notebooks/src/02_the_machine.py"), "code is not prose"
