"""The contents of a core's VMEM as a stack, one box per buffer, against the limit."""

import collections
from collections.abc import Sequence
from typing import NamedTuple

from course_lib import text
from course_lib.viz.common import draw

_ABSENT = "The contents of VMEM are not known: the compiler gave no list of its allocations."

# purpose -> (fill, hatch)
_LOOKS = {
    "input window": (draw.BLUE, 0),
    "output window": (draw.ORANGE, 1),
    "scratch": (draw.GREEN, -1),
    "spill slots": (draw.RED, 1),
    "other": (draw.GREY, 0),
}
_SCALE = 180  # pixels for the limit, or for the stack if it is higher
_LEFT, _RIGHT = 84, 196  # edges of the stack
_THIN, _ENLARGED = 26, 140  # width of the thin stack, left edge of the enlarged one
_LITTLE = 0.4  # a stack that fills less of its limit is enlarged
_ROW, _MOST = 20, 12  # of the legend: height of a row, most rows before the smallest are merged


class Piece(NamedTuple):
    """One allocation to draw. ``bytes`` counts all its ``buffers`` together."""

    name: str
    bytes: int
    purpose: str
    buffers: int = 1


def pieces(rows: Sequence) -> list[Piece]:
    """Return what is in VMEM at the same time, from a Report's ``vmem`` or the rows of ``cost.vmem``.

    A row has ``name``, ``bytes``, ``buffers``, ``op`` and ``purpose``. Ops run one after another, so of several, only
    the one that needs most counts.
    """
    together = [row for row in rows if row.op == fullest(rows)]
    found = [Piece(row.name, row.bytes, row.purpose, row.buffers) for row in together if row.bytes]
    order = list(_LOOKS)  # inputs at the bottom
    return sorted(found, key=lambda piece: order.index(piece.purpose) if piece.purpose in order else len(order))


def fullest(rows: Sequence) -> str:
    """Return the op that needs most VMEM; "" if the rows name none."""
    needs = collections.Counter()
    for row in rows:
        needs[row.op] += row.bytes
    return max(needs, key=needs.get, default="")


def panel(rows: Sequence, limit: int | None = None) -> draw.Panel:
    """Draw the stack with heading and sentence. ``rows``: see ``pieces``; ``limit``: bytes a kernel may use, if known.

    A stack that fills little of its limit is drawn twice: thin and to scale, and enlarged beside it.
    """
    shown = _few(pieces(rows))
    if not shown:
        return draw.stacked([draw.heading("VMEM"), draw.paragraph(_ABSENT, fill=draw.MUTED)])
    total = sum(piece.bytes for piece in shown)
    most = max(total, limit or 0)
    enlarged = total < _LITTLE * most
    tall = min(_SCALE - 20, max(80, _ROW * len(shown))) if enlarged else _SCALE * total / most
    left, width = (_ENLARGED, _THIN) if enlarged else (_LEFT, _RIGHT - _LEFT)
    places = draw.columns(tall, [piece.bytes for piece in shown])
    tower = (
        _tower_piece(piece, left, _SCALE - bottom - high, high)
        for piece, (bottom, high) in zip(shown, places, strict=True)
    )
    body = _room(width, (limit or total) / most) + (_enlargement(total / most, tall) if enlarged else "")
    body += "".join(tower) + _limit_line(total, limit, most, width)
    body += _legend(shown, [_SCALE - bottom - high / 2 for bottom, high in places])
    height = max(_SCALE, _ROW * len(shown)) + 16
    drawn = draw.Panel(draw.moved(draw.Panel(body, height), 0, 8), height)
    return draw.stacked([draw.heading("VMEM", _use(rows, limit)), drawn])


def sentence(rows: Sequence, limit: int | None = None) -> str:
    """Say how much is used, and how much is free or missing."""
    return f"VMEM: {_use(rows, limit)}" if pieces(rows) else _ABSENT


def _use(rows: Sequence, limit: int | None) -> str:
    total = sum(piece.bytes for piece in pieces(rows))
    several = len({row.op for row in rows}) > 1
    whose = f" by {fullest(rows)}, which needs most" if several else ""
    if limit is None:
        return f"{text.size(total)} used{whose}; the limit is not known."
    if total > limit:
        return f"{text.size(total)} needed{whose}, {text.size(total - limit)} over the limit of {text.size(limit)}."
    return f"{text.size(total)} of {text.size(limit)} used{whose}, {text.size(limit - total)} free."


def _few(shown: list[Piece]) -> list[Piece]:
    """Merge the smallest pieces so that at most ``_MOST`` remain."""
    if len(shown) <= _MOST:
        return shown
    by_size = sorted(range(len(shown)), key=lambda n: -shown[n].bytes)
    kept, rest = sorted(by_size[: _MOST - 1]), by_size[_MOST - 1 :]
    together = Piece(f"{len(rest)} smaller ones", sum(shown[n].bytes for n in rest), "other")
    return [together, *(shown[n] for n in kept)]


def _explained(piece: Piece) -> str:
    words = piece.purpose if piece.name else ""
    if piece.buffers > 1:
        each = f"{piece.buffers} buffers of {text.size(piece.bytes / piece.buffers)}"
        return f"{words}, {each}" if words else each
    return words


def _room(width: float, share: float) -> str:
    """Draw the empty memory behind a stack, and its floor."""
    room = _SCALE * share
    floor = draw.line(_LEFT - 8, _SCALE, _LEFT + width + 8, _SCALE, draw.INK, width=1.5)
    return draw.box(_LEFT, _SCALE - room, width, room, draw.TRACK) + floor


def _enlargement(share: float, tall: float) -> str:
    """Draw the used part of the thin stack, and lines from there to the enlarged one."""
    used, edge = max(_SCALE * share, 1.5), _LEFT + _THIN
    return (
        draw.box(_LEFT, _SCALE - used, _THIN, used, draw.INK)
        + draw.line(edge, _SCALE - used, _ENLARGED, _SCALE - tall, draw.GREY, dash="3 3")
        + draw.line(edge, _SCALE, _ENLARGED, _SCALE, draw.GREY, dash="3 3")
        + draw.label(_RIGHT, _SCALE - tall - 8, "enlarged", 80, fill=draw.MUTED, anchor="end")
    )


def _limit_line(total: int, limit: int | None, most: int, width: float) -> str:
    """Draw the limit, and beside the stack a bar along what exceeds it."""
    if limit is None:
        return ""
    y = _SCALE - _SCALE * limit / most
    over = _SCALE - _SCALE * total / most
    return (
        draw.line(_LEFT - 8, y, _LEFT + width + 8, y, draw.RED, width=2, dash="6 3")
        + draw.label(_LEFT - 14, y + 4, text.size(limit), _LEFT - 16, bold=True, anchor="end")
        + draw.label(_LEFT - 14, y + 18, "limit", _LEFT - 16, fill=draw.MUTED, anchor="end")
        + (draw.box(_LEFT - 7, over, 5, y - over, draw.RED, title="over the limit") if over < y else "")
    )


def _tower_piece(piece: Piece, left: float, top: float, tall: float) -> str:
    """Draw one box per buffer: a double-buffered window is two stacked boxes, the second one paler."""
    fill, lean = _LOOKS.get(piece.purpose, (draw.GREY, 0))
    width, each, parts = _RIGHT - left, tall / piece.buffers, []
    for n in range(piece.buffers):
        y = top + n * each
        title = f"{piece.name or piece.purpose}: {text.size(piece.bytes / piece.buffers)}"
        title += f" (buffer {n + 1} of {piece.buffers})" if piece.buffers > 1 else ""
        parts.append(draw.box(left, y, width, each, fill, title=title, opacity=1 if n == 0 else 0.65))
        if lean and each >= 4:
            parts.append(draw.hatch(left, y, width, each, lean=lean))
        if each >= 3:
            parts.append(draw.line(left, y, left + width, y, draw.PAPER, width=2 if n == 0 else 1))
    return "".join(parts)


def _legend(shown: list[Piece], middles: list[float]) -> str:
    """Write a row of words for each piece, near it if there is room, with a thin line to it."""
    left, parts = _RIGHT + 44, []
    for piece, middle, y in zip(shown, middles, _spread(middles), strict=True):
        edge = _RIGHT + 3
        parts.append(
            f'<path d="M{draw.number(edge)} {draw.number(middle)}h12L{draw.number(left - 17)} {draw.number(y)}h11" '
            f'stroke="{draw.GREY}" fill="none"/>'
        )
        name = piece.name or piece.purpose
        parts.append(draw.label(left, y + 4, name, 116, bold=True))
        parts.append(draw.label(left + 186, y + 4, text.size(piece.bytes), 72, anchor="end"))
        parts.append(draw.label(left + 198, y + 4, _explained(piece), draw.INNER - left - 198, fill=draw.MUTED))
    return "".join(parts)


def _spread(middles: list[float]) -> list[float]:
    """Place rows as near their pieces as possible without overlap; ``middles`` go up from the bottom of the stack."""
    rows = list(middles)
    for n in range(1, len(rows)):  # from the bottom up
        rows[n] = min(rows[n], rows[n - 1] - _ROW)
    top = min(rows) if rows else 0
    if top < 4:  # past the top: push down from there
        rows[-1] = 4
        for n in range(len(rows) - 2, -1, -1):
            rows[n] = max(rows[n], rows[n + 1] + _ROW)
    return rows
