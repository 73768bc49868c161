"""The pages of the book: which files of the course become one, where each goes, and in which order they are read."""

import dataclasses
import pathlib
import posixpath
import re
from collections.abc import Iterator

import nbformat
from building import ROOT

from book import BookError

FRONT = "README.md"
INDEX = "docs/README.md"  # its sections are those of the menu
_TITLE = re.compile(r"^# (.+)$", re.M)
_LINK = re.compile(r"\]\(([^)#\s]+\.md)(?:#[^)]*)?\)")


@dataclasses.dataclass(frozen=True)
class Page:
    """A page. ``source`` is its file, from the root of the course, and ``text`` that file or, of a notebook, None."""

    source: str
    title: str
    text: str | None = None
    notebook: nbformat.NotebookNode | None = None

    @property
    def path(self) -> str:
        """Its file in the book; the page of a folder is called index.html."""
        stem = posixpath.splitext(self.source)[0]
        return re.sub(r"(^|/)README$", r"\1index", stem) + ".html"

    @property
    def folder(self) -> str:
        """The folder of its source: "notebooks", "exercises", "docs", … or "" for the root."""
        return posixpath.dirname(self.source)

    @property
    def stem(self) -> str:
        """The name of its source, without folder and suffix."""
        return pathlib.PurePosixPath(self.source).stem

    def to(self, path: str) -> str:
        """Return a link from this page to another file of the book."""
        return posixpath.relpath(path, posixpath.dirname(self.path) or ".")


def course() -> dict[str, Page]:
    """Return every page of the course by its source, in the order of reading."""
    texts = {file.relative_to(ROOT).as_posix(): file for file in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))}
    pages = {source: _of_text(source, file.read_text()) for source, file in sorted(texts.items())}
    for file in (*ROOT.glob("notebooks/[0-9]*.ipynb"), *ROOT.glob("exercises/[0-9]*.ipynb")):
        page = _of_notebook(file.relative_to(ROOT).as_posix(), nbformat.read(file, 4))
        pages[page.source] = page
    order = dict.fromkeys(
        (FRONT, *lessons_and_exercises(pages), *(source for _, group in menu(pages) for source in group))
    )
    return {source: pages[source] for source in (*order, *(source for source in pages if source not in order))}


def lessons_and_exercises(pages: dict[str, Page]) -> list[str]:
    """Return the sources of the lessons, each followed by its exercises."""
    notebooks = [source for source, page in pages.items() if page.notebook is not None]
    return sorted(notebooks, key=lambda source: (pages[source].stem, pages[source].folder != "notebooks"))


def menu(pages: dict[str, Page]) -> list[tuple[str, list[str]]]:
    """Return (section of docs/README.md, the sources of its pages); the first section that names a page has it.

    The index itself is the first page of all.
    """
    groups, seen = [], {INDEX}
    for section in re.split(r"^## ", pages[INDEX].text, flags=re.M)[1:]:
        heading, _, rows = section.partition("\n")
        linked = [posixpath.normpath(posixpath.join("docs", link)) for link in _LINK.findall(rows)]
        new = [source for source in dict.fromkeys(linked) if source in pages and source not in seen]
        seen |= set(new)
        if new:
            groups.append((heading.strip(), new))
    return [(heading, [INDEX, *group] if group is groups[0][1] else group) for heading, group in groups]


def neighbours(pages: dict[str, Page]) -> Iterator[tuple[Page, Page | None, Page | None]]:
    """Yield each page with the one before and the one after it, where they are read in a row.

    The front page, lessons and exercises are one row, the pages of the menu are another, and so are those of each
    other folder.
    """
    in_menu = {source for _, group in menu(pages) for source in group}

    def row(page: Page) -> str:
        if page.notebook is not None or page.source == FRONT:
            return "lessons"
        return "menu" if page.source in in_menu else page.folder

    listed = list(pages.values())
    for page in listed:
        others = [other for other in listed if row(other) == row(page)]
        here = others.index(page)
        yield page, (others[here - 1] if here else None), (others[here + 1] if here + 1 < len(others) else None)


def _of_text(source: str, text: str) -> Page:
    return Page(source, _title(source, text), text=text)


def _of_notebook(source: str, notebook: nbformat.NotebookNode) -> Page:
    texts = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    return Page(source, _title(source, texts), notebook=notebook)


def _title(source: str, text: str) -> str:
    if (said := _TITLE.search(text)) is None:
        raise BookError(f"{source} has no title: no line begins with `# `.")
    return re.sub(r"[`*]", "", said[1])
