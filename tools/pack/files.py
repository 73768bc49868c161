"""All files of the pack, from the lessons as they are built; nothing is executed."""

import dataclasses
import pathlib
import zipfile
from collections.abc import Callable, Iterator

import jinja2
from book import widgets, words
from book.links import Links
from book.pages import Page
from book.site import States
from book.text import Writer
from building import ROOT
from markupsafe import Markup

from course_lib.viz.common import draw
from pack import PackError, cards, cuts, handout
from pack.slides import Deck, Slide

PAGES = {"grading_day.html": "docs/instructor/grading_day.md", "instructor.html": "docs/instructor.md"}
_BOOK = ROOT / "tools/book/static"
_HERE = pathlib.Path(__file__).parent
_DATE = (2026, 1, 1, 0, 0, 0)  # of every file in the archive, so that the same pack is the same bytes
Files = dict[str, str]


def files(
    course: dict[str, Page], states: States, start: int, tell: Callable[[str], None] = lambda text: None
) -> Files:
    """Return {path: text} of the pack.

    ``course`` are the pages of the book, ``states`` the widgets behind the pictures of its lessons, and ``start`` is
    the minute at which a day begins; ``tell`` is told which lesson is under way. Raises PackError or BookError.
    """
    lessons = {page.stem: page for page in course.values() if page.folder == "exercises"}
    if not lessons:
        raise PackError("there are no lessons with exercises: run `make build` first.")
    known = words.of_the_lessons()
    links = Links({}, known, {"repo": "", "tag": ""})  # nothing leads out of the pack
    made: Files = {}
    for stem in lessons:
        tell(stem)
        lesson = course[f"notebooks/{stem}.ipynb"]
        made[f"slides/{stem}.html"] = _slides(lesson, Writer(lesson, links), states.get(lesson.source))
        blocks = handout.blocks(lesson.notebook, stem, Writer(lesson, links))
        made[f"handouts/{stem}.html"] = _paper("handout", lesson.title, blocks)
    page = course[cuts.SOURCE]
    named = {f"cards/{cut.name.lower().replace(' ', '_')}.html": cut for cut in cuts.cuts()}
    for path, cut in named.items():
        made[path] = _paper("card", cut.name, cards.card(cut, start, Writer(page, links)))
    for path, source in PAGES.items():
        text = Markup(f'<div class="text">{Writer(course[source], links).html(course[source].text)}</div>')
        made[path] = _paper("page", course[source].title, [text])
    listed = {stem: course[f"notebooks/{stem}.ipynb"].title for stem in lessons}
    index = _template("index.html").render(
        lessons=listed, cards={path: cut.name for path, cut in named.items()}, start=cuts.by_the_clock(0, start)
    )
    made["index.html"] = _paper("page", "Instructor's pack", [Markup(index)])
    return made


def archive(made: Files, file: pathlib.Path) -> None:
    """Write the pack as one zip, in a folder of its own."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for path, text in sorted(made.items()):
            packed.writestr(zipfile.ZipInfo(f"pack/{path}", _DATE), text, zipfile.ZIP_DEFLATED)


def _slides(page: Page, writer: Writer, state: list[dict | None] | None) -> str:
    shown = [_headed(slide, writer) for slide in Deck(page.notebook, page.stem, writer, state).slides()]
    scripts = [(_HERE / "static/slides.js").read_text()]
    if state:
        scripts += [*widgets.scripts([state]).values(), (_BOOK / "widgets.js").read_text()]
    return _template("slides.html").render(
        name=page.title,
        lesson=page.title,
        slides=shown,
        style=_style("slides.css"),
        theme=_theme(),
        scripts=_inline(scripts),
    )


def _headed(slide: Slide, writer: Writer) -> dict:
    """Return a slide with its title as HTML too."""
    heading = writer.html(slide.title).strip().removeprefix("<p>").removesuffix("</p>")
    plain = slide.title.replace("`", "")
    return {field.name: getattr(slide, field.name) for field in dataclasses.fields(slide)} | {
        "heading": Markup(heading),
        "title": plain,
        "notes": [Markup(note) for note in slide.notes],
    }


def _paper(kind: str, title: str, blocks: Iterator[Markup] | list[Markup]) -> str:
    return _template("paper.html").render(
        kind=kind, title=title, blocks=list(blocks), style=_style("paper.css"), theme=_theme()
    )


def _style(own: str) -> Markup:
    book, ours = (_BOOK / "book.css").read_text(), (_HERE / "static" / own).read_text()
    return Markup(f"{book}\n@media screen {{ {draw.DARK} }}\n{ours}")


def _theme() -> Markup:
    return Markup((_BOOK / "theme.js").read_text())


def _inline(scripts: list[str]) -> list[Markup]:
    """Return scripts that can stand in a page, where "</script" would end one."""
    return [Markup(script.replace("</script", "<\\/script")) for script in scripts]


def _template(name: str) -> jinja2.Template:
    loader = jinja2.FileSystemLoader(_HERE / "templates")
    settings = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True, "undefined": jinja2.StrictUndefined}
    return jinja2.Environment(loader=loader, **settings).get_template(name)
