"""The pipeline chart as SVG: the first steps, lane by lane."""

import math

from course_lib import text
from course_lib.viz.common import draw
from course_lib.viz.pipeline_chart import pipeline_lanes, pipeline_words
from course_lib.viz.pipeline_chart.pipeline_lanes import Bar, Played, Settings

_LEFT, _LANE, _GAP = 80, 20, 5  # pixels
_KEYS = 3  # of the legend, side by side
_AXIS = 36
_TICKS = 8  # at most
# kind of bar -> (fill, stroke and lean of its hatch, words)
LOOKS = {
    "queue": ("#dfe4ea", "", 0, "other copies' bytes first"),
    "latency": ("#cfe3f1", draw.BLUE, 1, "latency of a read"),
    "bytes": (draw.BLUE, "", 0, "its bytes arrive"),
    "waits": (draw.PAPER, "", 0, "full, and not used yet"),
    "in use": ("#d3eee4", "", 0, "the core works on it"),
    "work": (draw.GREEN, "", 0, "the core works"),
    "bubble": (draw.PAPER, "", 0, "bubble: the core waits"),
    "leaving": (draw.ORANGE, "", 0, "bytes leave"),
    "answer": ("#fbe9c6", draw.ORANGE, -1, "latency of a write"),
}
_RED = "#b34700"


def still(data: dict, s: Settings) -> str:
    """Draw the first steps, a legend, and the readout as a card."""
    found = pipeline_lanes.played(data, s)
    head = pipeline_words.title(data, s)
    rows = [f"{name}: {value}" for name, value in pipeline_words.readout(data, s, found)]
    kinds = {bar.kind for bar in pipeline_lanes.bars(found, s)}
    words = [draw.paragraph("; ".join(rows) + ".", size=13)]
    words += [draw.paragraph(line, size=13, fill=draw.MUTED) for line in pipeline_words.hints(data, s, found)]
    title = draw.paragraph(head, size=14, bold=True)
    panel = draw.stacked([title, lanes(data, s, found), _legend(kinds), *words], gap=6)
    return draw.card(panel, head, " ".join(rows))


def lanes(data: dict, s: Settings, found: Played) -> draw.Panel:
    """Draw the lanes between their time axes."""
    names, wide = pipeline_lanes.lanes(data, s), draw.INNER - _LEFT - 10
    scale, tops = wide / found.end, {}
    parts = [_axis(found.end / data["clock"] * 1e6, wide, _AXIS - 8, "us", -6)]
    top = _AXIS
    parts.append(_steps(found, s, scale, top))
    top += _LANE + _GAP
    for name in names:
        tops[name] = top
        parts.append(draw.box(_LEFT, top, wide, _LANE, "#f4f6f8"))
        parts.append(draw.label(_LEFT - 8, top + 14, name, _LEFT - 8, anchor="end", bold=name == "core"))
        top += _LANE + _GAP
    for step in found.steps[: min(s.shown, len(found.steps))]:
        x = _LEFT + step.done * scale
        parts.append(draw.line(x, _AXIS, x, top, draw.LINE, dash="2 3"))
    drawn = [bar for bar in pipeline_lanes.bars(found, s) if bar.lane in tops]
    parts += [_bar(bar, scale, tops[bar.lane]) for bar in drawn]
    parts += [_name(bar, scale, tops[bar.lane], len(found.steps)) for bar in drawn]
    parts.append(_axis(found.end, wide, top + 2, "cycles", 15))
    return draw.Panel("".join(parts), top + _AXIS - 12)


def _steps(found: Played, s: Settings, scale: float, top: float) -> str:
    """Write the number of each step between the end of the previous work and the end of its own."""
    parts, before = [draw.label(_LEFT - 8, top + 14, "step", _LEFT - 8, anchor="end", fill=draw.MUTED)], 0.0
    for n, step in enumerate(found.steps[: s.shown]):
        left, right = _LEFT + before * scale, _LEFT + step.done * scale
        parts.append(_fitting((left + right) / 2, top + 14, str(n), right - left))
        before = step.done
    return "".join(parts)


def _fitting(middle: float, base: float, words: str, room: float, fill: str = draw.INK) -> str:
    return draw.label(middle, base, words, room, anchor="middle", fill=fill) if _fits(words, room) else ""


def _fits(words: str, room: float) -> bool:
    return draw.width_of(words, 12) + 6 < room


def _bar(bar: Bar, scale: float, top: float, high: float = _LANE) -> str:
    fill, stroke, lean, does = LOOKS[bar.kind]
    left, width = _LEFT + bar.start * scale, max((bar.end - bar.start) * scale, 0.8)
    words = f"step {bar.step}, {does}: {pipeline_words.cycles(bar.end - bar.start)}"
    body = draw.box(left, top, width, high, fill, stroke=draw.GREY if bar.kind == "waits" else "", title=words)
    if bar.kind == "bubble":
        edges = (draw.line(left, y, left + width, y, _RED, width=1.6, dash="4 3") for y in (top, top + high))
        return body + "".join(edges)
    return body + (draw.hatch(left, top, width, high, stroke, lean=lean) if lean and width > 3 else "")


def _name(bar: Bar, scale: float, top: float, steps: int) -> str:
    """Write the step of a copy on a white plate, or the length of a bubble."""
    left, width = _LEFT + bar.start * scale, (bar.end - bar.start) * scale
    if bar.kind == "bubble":
        words = pipeline_words.bubble(bar, steps)
        return next(filter(None, (_fitting(left + width / 2, top + 14, each, width, _RED) for each in words)), "")
    words = str(bar.step)
    if bar.kind not in ("latency", "answer") or not _fits(words, width):
        return ""
    plate = draw.width_of(words, 12) + 4
    box = draw.box(left + width / 2 - plate / 2, top + 3, plate, _LANE - 6, draw.PAPER, radius=3)
    return box + draw.label(left + width / 2, top + 14, words, anchor="middle")


def _axis(end: float, wide: float, y: float, unit: str, down: float) -> str:
    """Draw an axis with ticks at round numbers up to ``end``, and the unit on the left."""
    parts = [draw.line(_LEFT, y, _LEFT + wide, y, draw.GREY)]
    parts.append(draw.label(_LEFT - 8, y + down, unit, _LEFT - 8, anchor="end", fill=draw.MUTED))
    every = draw.stride(end, _TICKS)
    for n in range(math.floor(end / every) + 1):
        x, words = _LEFT + n * every * wide / end, text.significant(n * every, 3)
        parts.append(draw.line(x, y - 3, x, y + 3, draw.GREY))
        parts.append(draw.label(x, y + down, words, 60, anchor="middle", fill=draw.MUTED))
    return "".join(parts)


def _legend(kinds: set[str]) -> draw.Panel:
    parts, room = [], draw.INNER / _KEYS
    shown = [kind for kind in LOOKS if kind in kinds]
    for n, kind in enumerate(shown):
        left, top = n % _KEYS * room, n // _KEYS * 20
        key = _bar(Bar("", kind, 0, 0, 1), 22, 0, high=14)
        parts.append(draw.moved(draw.Panel(key, 14), left - _LEFT, top + 3))
        parts.append(draw.label(left + 30, top + 14, LOOKS[kind][3], room - 34))
    return draw.Panel("".join(parts), -(-len(shown) // _KEYS) * 20)
