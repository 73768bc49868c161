"""The still picture of the page player: the pool, the tables, and the same sequences in reserved pieces."""

from collections.abc import Sequence
from typing import NamedTuple

from course_lib import text
from course_lib.viz.common import draw
from course_lib.viz.page_player import page_steps
from course_lib.viz.page_player.page_steps import LETTERS, Pool, Request, Step

# Of sequences A to H: tints of the colours of Okabe and Ito, on which dark letters can be read. page_player.css has
# the same; a test compares them.
FILL = ("#8ccbf0", "#f0b94d", "#66c5a8", "#f5ec7a", "#e99a68", "#e3b0cd", "#5f9fd0", "#bcc3ca")
_TITLE = "Pages of the KV cache"
_NOTE = "The filled part of a page or piece holds tokens; the hatched part is lost. A page without a letter is free."
_SIZE, _COLUMNS, _WIDE, _TALL = 14, 8, 40, 34  # letters; pages in a row; pixels of a page
_TABLE = _COLUMNS * _WIDE + 24  # left edge of the tables
_LEFT = (26, 132, 196)  # of state, tokens and pages, from there
_BAR = 24


class Moment(NamedTuple):
    """A step to be drawn, and what led to it."""

    requests: Sequence[Request]
    pool: Pool
    steps: Sequence[Step]
    number: int

    @property
    def step(self) -> Step:
        """The rows of the step."""
        return self.steps[self.number]


def as_text(moment: Moment) -> str:
    """Return what happens in the step, a line for each sequence, and the tokens in pages and in reserved pieces."""
    step, pool = moment.step, moment.pool
    rows = [("", "state", "tokens", "pages")]
    for letter, row in zip(LETTERS, step, strict=False):
        rows.append((letter, row.state, f"{row.length:,}", ", ".join(map(str, row.pages)) or "none"))
    said = page_steps.said(moment.steps, moment.number, moment.requests, pool)
    uses = [page_steps.used_words(step, pool), page_steps.reserved_words(step, pool)]
    return text.folded("\n".join([_title(moment), said, *text.table(rows, right={2}), *uses]))


def _title(moment: Moment) -> str:
    return f"{_TITLE}, step {moment.number} of {len(moment.steps) - 1}"


def still(moment: Moment) -> str:
    """Draw the pool beside the tables, and below them both ways to use the memory, as SVG."""
    step, pool = moment.step, moment.pool
    tables, grid = _tables(step), _grid(step, pool)
    both = draw.Panel(grid.body + draw.moved(tables, _TABLE, 0), max(grid.height, tables.height))
    said = page_steps.said(moment.steps, moment.number, moment.requests, pool)
    panels = [
        draw.paragraph(_title(moment), size=16, bold=True),
        both,
        draw.paragraph(said, size=_SIZE),
        draw.paragraph(page_steps.used_words(step, pool), size=_SIZE, bold=True),
        _bar(step, pool, reserved=False),
        draw.paragraph(page_steps.reserved_words(step, pool), size=_SIZE, bold=True),
        _bar(step, pool, reserved=True),
        draw.paragraph(_NOTE, size=_SIZE, fill=draw.MUTED),
    ]
    return draw.card(draw.stacked(panels, gap=8), _TITLE, as_text(moment))


def _piece(x: float, y: float, wide: float, high: float, n: int, share: float) -> str:
    """Draw room that sequence ``n`` has, filled to ``share``, the rest hatched."""
    body = draw.box(x, y, share * wide, high, FILL[n])
    if share < 1:
        body += draw.hatch(x + share * wide, y, (1 - share) * wide, high, draw.GREY, gap=7)
    return body + draw.box(x, y, wide, high, "none", stroke=draw.MUTED)


def _grid(step: Step, pool: Pool) -> draw.Panel:
    taken, body = page_steps.filled(step, pool), ""
    for number in range(pool.room):
        x, y = number % _COLUMNS * _WIDE, number // _COLUMNS * _TALL
        if number not in taken:
            body += draw.box(x + 1, y + 1, _WIDE - 3, _TALL - 3, draw.PAPER, stroke=draw.LINE)
            body += draw.label(x + 4, y + 22, str(number), size=13, fill=draw.MUTED)
            continue
        n, tokens = taken[number]
        body += _piece(x + 1, y + 1, _WIDE - 3, _TALL - 3, n, tokens / pool.page)
        body += draw.label(x + 4, y + 22, str(number), size=13)
        body += draw.label(x + 29, y + 22, LETTERS[n], size=15, bold=True, anchor="middle", halo=tokens < pool.page)
    return draw.Panel(body, -(-pool.room // _COLUMNS) * _TALL)


def _tables(step: Step) -> draw.Panel:
    """Draw a row for each sequence: its letter, state, tokens and pages."""
    head = "".join(
        draw.label(x, 13, words, size=_SIZE, fill=draw.MUTED)
        for x, words in zip(_LEFT, ("state", "tokens", "pages in order"), strict=True)
    )
    panels = [draw.Panel(head, 20)]
    for n, row in enumerate(step):
        room = draw.INNER - _TABLE - _LEFT[2]
        lines = draw.wrapped(", ".join(map(str, row.pages)), room, _SIZE)
        body = draw.box(0, 1, 20, 20, FILL[n], stroke=draw.MUTED)
        body += draw.label(10, 16, LETTERS[n], size=_SIZE, bold=True, anchor="middle")
        body += draw.label(_LEFT[0], 16, row.state, size=_SIZE)
        body += draw.label(_LEFT[1] + 44, 16, f"{row.length:,}" if row.length else "", size=_SIZE, anchor="end")
        body += "".join(draw.label(_LEFT[2], 16 + 18 * k, line, room, size=_SIZE) for k, line in enumerate(lines))
        panels.append(draw.Panel(body, 6 + 18 * len(lines)))
    return draw.stacked(panels)


def _bar(step: Step, pool: Pool, reserved: bool) -> draw.Panel:
    """Draw the pool as one bar, with the room that each sequence has in pages, or in reserved pieces."""
    body, x = draw.box(0.5, 0.5, draw.INNER - 1, _BAR - 1, draw.PAPER, stroke=draw.LINE), 0.0
    fit = page_steps.figures(step, pool).fit
    for n in [n for n, row in enumerate(step) if row.pages][: fit if reserved else len(step)]:
        room = pool.reserve if reserved else len(step[n].pages) * pool.page
        wide = draw.INNER * room / pool.tokens
        body += _piece(x, 0.5, wide, _BAR - 1, n, step[n].length / room)
        if wide * step[n].length / room > 14:
            middle = x + wide * step[n].length / room / 2
            body += draw.label(middle, 17, LETTERS[n], size=_SIZE, bold=True, anchor="middle")
        x += wide
    return draw.Panel(body, _BAR)
