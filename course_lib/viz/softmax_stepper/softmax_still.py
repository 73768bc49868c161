"""The still picture of the softmax stepper: the bars, and the table after all steps."""

from collections.abc import Sequence
from typing import NamedTuple

from course_lib import text
from course_lib.viz.common import draw
from course_lib.viz.softmax_stepper import softmax_steps
from course_lib.viz.softmax_stepper.softmax_steps import MASKED, score_words

_TITLE = "Online softmax, block by block"
_HIGH, _SIZE, _ROW = 110, 14, 24
_HEAD = ("block", "m before", "m after", "shrink", "l", "acc")
_RIGHT = (0, 250, 350, 450, 560, 680)  # pixels at which the columns of the table end; the first begins at 0


class Row(NamedTuple):
    """One row of scores, -inf for a masked key, its values and block size, and the scores at the ends of the bars."""

    scores: Sequence[float]
    values: Sequence[float]
    block: int
    low: float
    high: float


def cells(step: softmax_steps.Step, number: int) -> list[str]:
    """Return a line of the table; ``number`` counts blocks from 0."""
    figures = [softmax_steps.figure(value) for value in (step.shrink, step.total, step.acc)]
    return [f"{number}: {softmax_steps.keys(step)}", score_words(step.m_before), score_words(step.m), *figures]


def as_text(row: Row) -> str:
    """Return the table after all steps as text, what happened in each, and the result."""
    given = row.scores, row.values, row.block
    found = softmax_steps.steps(*given)
    table = text.table([_HEAD, *(cells(step, n) for n, step in enumerate(found))], right={1, 2, 3, 4, 5})
    said = [softmax_steps.said(found, number) for number in range(1, len(found) + 1)]
    return text.folded("\n".join([_TITLE, *table, *said, softmax_steps.ended(*given)]))


def still(row: Row) -> str:
    """Draw the bars, and below them the table after all steps with the result, as SVG."""
    given = row.scores, row.values, row.block
    rows = [_HEAD, *(cells(step, n) for n, step in enumerate(softmax_steps.steps(*given)))]
    lines = [
        draw.Panel("".join(_cell(words, n, bold=not number) for n, words in enumerate(line)), _ROW)
        for number, line in enumerate(rows)
    ]
    end = draw.paragraph(softmax_steps.ended(*given), size=_SIZE)
    note = "Shrink is exp(m before - m after); l and acc are what the kernel holds after the block."
    panels = [_bars(row), draw.stacked(lines), end, draw.paragraph(note, size=_SIZE, fill=draw.MUTED)]
    head = draw.paragraph(_TITLE, size=16, bold=True)
    return draw.card(draw.stacked([head, *panels], gap=8), _TITLE, as_text(row))


def _cell(words: str, column: int, bold: bool) -> str:
    anchor = "end" if column else "start"
    return draw.label(_RIGHT[column], 15, words, 150 if not column else 98, size=_SIZE, bold=bold, anchor=anchor)


def _bars(row: Row) -> draw.Panel:
    """Draw the scores as bars from 0, a mark for each block, and below each bar its element of v."""
    wide = min(64, draw.INNER / len(row.scores))

    def y(score: float) -> float:
        return 20 + _HIGH * (row.high - score) / (row.high - row.low)

    written = [*map(score_words, row.scores), *(f"{value:g}" for value in row.values)]
    zero, fits = y(0), all(draw.width_of(words) < wide - 1 for words in written)
    body = ""
    for key, (score, value) in enumerate(zip(row.scores, row.values, strict=True)):
        left, middle = key * wide, (key + 0.5) * wide
        if score == MASKED:
            body += draw.hatch(left + 2, 20, wide - 4, _HIGH, draw.GREY)
        else:
            body += draw.box(
                left + 0.18 * wide, min(y(score), zero), 0.64 * wide, max(2, abs(y(score) - zero)), draw.BLUE
            )
        if fits:
            body += draw.label(middle, 13, score_words(score), wide, anchor="middle")
            body += draw.label(middle, _HIGH + 36, f"{value:g}", wide, fill=draw.MUTED, anchor="middle")
        if key % row.block == 0:
            body += draw.line(left, 20, left, 20 + _HIGH, draw.INK)
    body += draw.line(0, zero, wide * len(row.scores), zero, draw.MUTED)
    what = "Above each bar stands its score, below it its element of v." if fits else "Each bar is a score."
    return draw.stacked([draw.Panel(body, _HIGH + 40), draw.paragraph(what, fill=draw.MUTED, size=_SIZE)], gap=2)
