"""The memories of a chip as SVG and in words: a rung for each, with its bandwidth as a bar on a log axis."""

import math

from course_lib import text
from course_lib.viz.common import draw
from course_lib.viz.memory_ladder import memory_rungs

_TALL, _BAR = 62, 300  # pixels: height of a rung, left edge of the bars
_LOW, _HIGH = 1e9, 2e14  # bytes/s at the ends of the axis
_TICKS = (1e10, 1e11, 1e12, 1e13, 1e14)


def still(ladder: dict, view: str, size: int) -> str:
    """Draw ``memory_rungs.ladder``'s ``ladder`` as a card; ``view`` is "core" or "chip", ``size`` a number of bytes."""
    rungs = [_rung(rung, view, size) for rung in ladder["rungs"]]
    head = draw.paragraph(_title(ladder, view), size=18, bold=True)
    used = {
        memory_rungs.source(rung, view, field) for rung in ladder["rungs"] for field in rung["whose"] if field != "chip"
    }
    whose = [
        draw.paragraph(f"{letter}: {words}", size=14, fill=draw.MUTED)
        for letter, words in memory_rungs.WHOSE.items()
        if letter in used
    ]
    panel = draw.stacked([head, _axis(), *rungs, *whose], gap=3)
    return draw.card(panel, f"The memories of a {ladder['name']}", as_text(ladder, view, size))


def as_text(ladder: dict, view: str, size: int) -> str:
    """Return a line of text for each rung."""
    lines = [_title(ladder, view)]
    for rung in ladder["rungs"]:
        shared = ", of the whole chip" if rung["of_chip"] and ladder["cores"] > 1 and view == "core" else ""
        capacity, bandwidth = (_figure(rung, view, field) for field in ("capacity", "bandwidth"))
        took = memory_rungs.time_words(rung, view, size)
        lines.append(
            f"{rung['name']}{shared}: {capacity}; {bandwidth}; latency {_figure(rung, view, 'latency')}"
            + f"; {text.size(size)} take {took}"
        )
    return "\n".join(lines)


def _title(ladder: dict, view: str) -> str:
    core = f"its {ladder['core']}" if ladder["cores"] == 1 else f"one of its {ladder['cores']} {ladder['core']}s"
    return f"The memories of a {ladder['name']}: {core if view == 'core' else 'the whole chip'}"


def _figure(rung: dict, view: str, field: str) -> str:
    """Return a figure in words, with its source."""
    words = rung["latency"] if field == "latency" else memory_rungs.words(rung, view, field)
    whose = memory_rungs.source(rung, view, field)
    return f"{words} [{whose}]" if whose else words


def _place(rate: float) -> float:
    share = math.log(rate / _LOW) / math.log(_HIGH / _LOW)
    return _BAR + (draw.INNER - _BAR) * min(1, max(0, share))


def _axis() -> draw.Panel:
    parts = [draw.label(0, 30, "holds, latency", 200, size=15, fill=draw.MUTED)]
    parts.append(draw.label(_BAR, 12, "bandwidth, bytes/s (log scale)", 360, size=15, fill=draw.MUTED))
    for rate in _TICKS:
        x = _place(rate)
        parts.append(draw.line(x, 34, x, 40, draw.MUTED))
        parts.append(draw.label(x, 31, text.byte_rate(rate), 90, size=14, fill=draw.MUTED, anchor="middle"))
    return draw.Panel("".join(parts) + draw.line(_BAR, 40, draw.INNER, 40, draw.MUTED), 42)


def _rung(rung: dict, view: str, size: int) -> draw.Panel:
    rate = rung[view]["bandwidth"]
    parts = [draw.line(0, 0, draw.INNER, 0, draw.LINE)]
    parts.append(draw.label(0, 22, f"{rung['name']}", _BAR - 10, size=17, bold=True))
    parts.append(draw.label(0, 41, _figure(rung, view, "capacity"), _BAR - 10, size=15))
    latency = "" if rung["latency"] == memory_rungs.UNKNOWN else _figure(rung, view, "latency")
    parts.append(draw.label(0, 58, latency or "latency not published", _BAR - 10, size=14, fill=draw.MUTED))
    parts.append(draw.box(_BAR, 6, draw.INNER - _BAR, 18, draw.TRACK))
    if rate:
        parts.append(draw.box(_BAR, 6, max(2, _place(rate) - _BAR), 18, draw.ORANGE))
    words, took = _figure(rung, view, "bandwidth"), memory_rungs.time_words(rung, view, size)
    parts.append(draw.label(_BAR, 41, words, draw.INNER - _BAR, size=15, bold=bool(rate)))
    if took != memory_rungs.UNKNOWN:
        parts.append(draw.label(_BAR, 58, f"{text.size(size)}: {took}", draw.INNER - _BAR, size=14, fill=draw.MUTED))
    return draw.Panel("".join(parts), _TALL)
