"""A handout: a lesson on paper up to its exercises, with blanks where a learner predicts or answers."""

import re
from collections.abc import Iterator

import nbformat
from book.cells import output_of
from book.code import code
from book.text import Writer
from markupsafe import Markup

from pack import lesson

_MOST, _FEWEST = 6, 2  # lines to write on


def blocks(notebook: nbformat.NotebookNode, stem: str, writer: Writer) -> Iterator[Markup]:
    """Yield a lesson as HTML. Outputs that a text asks about, the texts that tell them, and answers are blanks."""
    given_away = False
    for part in lesson.parts(notebook):
        if part.begins:
            given_away = False
            if part.heading != lesson.OPENING:
                yield _html(f"## {part.heading}", writer)
        for block in part.blocks:
            if block.kind == "fold":
                yield Markup(f'<div class="text"><p>{lesson.fold(block.source)[0]}</p>{_blank("Your answer", 3)}</div>')
                continue
            if block.kind in ("question", "rule", "word"):
                given_away = False
            if not given_away and part.heading != lesson.QUESTIONS:
                yield _html(block.source, writer)
        for cell in part.cells if part.heading != lesson.QUESTIONS else ():  # the cells there compute the answers
            if lesson.is_folded(cell):
                continue
            predicted = part.asks or lesson.is_predicted(cell)
            drawn = (_prediction(out) if predicted else output_of(out, None, writer) for out in cell.outputs)
            yield Markup(f'<div class="cell">{code(cell.source)}{"".join(drawn)}</div>')
            given_away = given_away or predicted
    yield _html("## Exercises", writer)
    for id, task in lesson.exercises(stem).items():
        yield _html(f"**{id} {task.title}.** {task.takes}", writer)


def _prediction(output: nbformat.NotebookNode) -> str:
    if output.output_type == "stream":
        return _blank("Your prediction", min(max(output.text.count("\n"), _FEWEST), _MOST))
    return re.sub('class="blank"', 'class="blank picture"', _blank("Your prediction, as a sketch", 1))


def _blank(says: str, lines: int) -> str:
    return f'<div class="blank"><p>{says}</p>{"<i></i>" * lines}</div>'


def _html(markdown: str, writer: Writer) -> Markup:
    return Markup(f'<div class="text">{writer.html(markdown)}</div>')
