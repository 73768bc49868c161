"""All files of the book, from the pages of the course and the state of their widgets."""

import pathlib
import shutil

import jinja2
from building import ROOT, lessons
from markupsafe import Markup

from book import BookError, pages, search, widgets, words
from book.cells import cells
from book.links import Links
from book.pages import Page
from book.text import Writer
from course_lib.viz.common import draw

LIMIT = 700 * 1024  # bytes of a page with the style sheet and the scripts that it loads
_HERE = pathlib.Path(__file__).parent
_STATIC = ("theme.js", "page.js", "search.js", "widgets.js")
_MARK = ".book"  # a file that says that a folder is ours to replace
States = dict[str, list[dict | None] | None]  # by a lesson's source: the widget behind each picture
Files = dict[str, str]  # {path in the book: text}


def files(course: dict[str, Page], states: States) -> tuple[Files, set[str]]:
    """Return the book's files, and the paths from the course's root of files to copy.

    Raises BookError for a link that leads nowhere, a formula that cannot be drawn, and a page above LIMIT.
    """
    links = Links(course, words.of_the_lessons(), lessons.address())
    made: Files = {name: (_HERE / "static" / name).read_text() for name in _STATIC}
    made["book.css"] = (_HERE / "static/book.css").read_text() + f"\n@media screen {{ {draw.DARK} }}\n"
    made |= widgets.scripts([state for state in states.values() if state])
    template = _templates().get_template("page.html")
    shared = {"course": course[pages.FRONT].title, "groups": _groups(course)}
    found = []
    for page, before, after in pages.neighbours(course):
        writer, state = Writer(page, links), states.get(page.source)
        blocks = _blocks(page, writer, state)
        sections = [section for section in writer.sections if section.level == 2]
        kinds = sorted({widgets.path(widget) for widget in state or () if widget is not None})
        own = {"page": page, "before": before, "after": after, "sections": sections, "colab": links.colab(page)}
        made[page.path] = template.render(shared, **own, blocks=blocks, kinds=kinds)
        _weigh(page, made, kinds)
        found.append((page, writer.sections))
    made["search_index.js"] = search.index(found)
    return made, links.files


def write(folder: pathlib.Path, made: Files, copied: set[str]) -> None:
    """Write the book into ``folder``, in place of the one that was there. Raise BookError if it holds anything else."""
    if folder.exists() and any(folder.iterdir()) and not (folder / _MARK).exists():
        raise BookError(f"{folder} is not empty and holds no book or pack: remove it, or name another folder.")
    shutil.rmtree(folder, ignore_errors=True)
    for path, text in (made | {_MARK: ""}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    for path in sorted(copied):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, folder / path)


def _blocks(page: Page, writer: Writer, state: list[dict | None] | None) -> list[Markup]:
    if page.notebook is None:
        return [Markup(f'<div class="text">{writer.html(page.text)}</div>')]
    return list(cells(page.notebook, writer, state))


def _groups(course: dict[str, Page]) -> list[tuple[str, list[Page]]]:
    groups = [("Lessons", pages.lessons_and_exercises(course)), *pages.menu(course)]
    return [(heading, [course[source] for source in group]) for heading, group in groups]


def _weigh(page: Page, made: Files, kinds: list[str]) -> None:
    loaded = [page.path, "book.css", *_STATIC, *kinds]
    if (weight := sum(len(made[path].encode()) for path in loaded)) > LIMIT:
        raise BookError(
            f"the page of {page.source} weighs {weight // 1024} KiB, and {LIMIT // 1024} KiB is the limit: "
            f"show smaller arrays or fewer steps in its widgets."
        )


def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
