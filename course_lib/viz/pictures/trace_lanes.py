"""A recorded profile as lanes over time: what ran when on which thread, and the gaps in between."""

import math
from collections.abc import Mapping

from course_lib import text
from course_lib.viz.common import draw
from course_lib.viz.common.picture import Picture

_NAME, _LANE, _AXIS = 120, 34, 26
_TICKS = 6  # at most
_COLOURS = (draw.BLUE, draw.ORANGE, draw.GREEN, draw.PURPLE, draw.SKY, draw.RED)
_LEGEND = 6  # names with a colour of their own; the others are grey


def trace_lanes(trace: Mapping, first_ms: float | None = None, last_ms: float | None = None) -> Picture:
    """Draw the complete events of a trace in Chrome's format, one lane per thread, from ``first_ms`` to ``last_ms``.

    ``trace`` is what ``json.load`` returns for such a file: "traceEvents" with "ts" and "dur" in microseconds, and the
    names of the threads. Its "about" stands above the lanes and names the source of the figures. The names that take
    most time have colours. Raises ValueError if there is no event between the two times.
    """
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    ends = [(event["ts"] + event["dur"]) / 1000 for event in events]
    first = 0.0 if first_ms is None else first_ms
    last = max(ends, default=0.0) if last_ms is None else last_ms
    shown = [e for e, end in zip(events, ends, strict=True) if end > first and e["ts"] / 1000 < last]
    if not shown or last <= first:
        raise ValueError(f"trace_lanes: no event lies between first_ms={first_ms} and last_ms={last_ms}.")
    colours = _colours(shown)
    panels = [draw.paragraph(str(trace.get("about", "")), size=14)] if trace.get("about") else []
    panels += [
        _lane(name, [e for e in shown if e["tid"] == thread], first, last, colours) for thread, name in _threads(trace)
    ]
    others = len({event["name"] for event in shown}) > len(colours)
    panels += [_axis(first, last), _legend(colours | ({"everything else": draw.GREY} if others else {}))]
    words = _words(trace, shown, first, last)
    svg = draw.card(draw.stacked(panels, 4), "A profile", words)
    return Picture(svg=svg, text=words)


def _threads(trace: Mapping) -> list[tuple[int, str]]:
    return [
        (e["tid"], e["args"]["name"]) for e in trace["traceEvents"] if e["ph"] == "M" and e["name"] == "thread_name"
    ]


def _colours(events: list[dict]) -> dict[str, str]:
    """Assign colours to the names that take most time."""
    took: dict[str, float] = {}
    for event in events:
        took[event["name"]] = took.get(event["name"], 0) + event["dur"]
    names = sorted(took, key=lambda name: -took[name])[:_LEGEND]
    return dict(zip(names, _COLOURS, strict=False))


def _lane(name: str, events: list[dict], first: float, last: float, colours: dict[str, str]) -> draw.Panel:
    room, parts = draw.INNER - _NAME, [draw.label(0, 21, name, _NAME - 6, size=13)]
    parts.append(draw.box(_NAME, 3, room, 26, draw.TRACK))
    for event in sorted(events, key=lambda event: -event["dur"]):
        begin = max(event["ts"] / 1000, first)
        end = min((event["ts"] + event["dur"]) / 1000, last)
        left, wide = _NAME + room * (begin - first) / (last - first), room * (end - begin) / (last - first)
        inside = any(o is not event and _holds(o, event) for o in events)
        top, high = (9, 14) if inside else (3, 26)
        title = f"{event['name']}, {_time(event['dur'] / 1000, last)}"
        parts.append(draw.box(left, top, max(wide, 0.6), high, colours.get(event["name"], draw.GREY), title=title))
    return draw.Panel("".join(parts), _LANE)


def _holds(outer: dict, inner: dict) -> bool:
    return outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]


def _axis(first: float, last: float) -> draw.Panel:
    room, parts, every = draw.INNER - _NAME, [], draw.stride(last - first, _TICKS)
    for tick in range(math.ceil(first / every), math.floor(last / every) + 1):
        left = _NAME + room * (tick * every - first) / (last - first)
        anchor = "start" if left < _NAME + 20 else "end" if left > draw.INNER - 20 else "middle"
        shown = _time(tick * every, last)
        parts += [draw.line(left, 0, left, 6), draw.label(left, 20, shown, 80, size=12, anchor=anchor)]
    return draw.Panel("".join(parts), _AXIS)


def _time(ms: float, most: float) -> str:
    """Format a time in the unit that fits the longest one."""
    return f"{ms:.3g} ms" if most >= 1 else f"{1000 * ms:.3g} us"


def _legend(colours: dict[str, str]) -> draw.Panel:
    half, parts = draw.INNER / 2, []
    for number, (name, colour) in enumerate(colours.items()):
        left, top = half * (number % 2), 22 * (number // 2)
        parts += [draw.box(left, top + 2, 14, 14, colour), draw.label(left + 22, top + 14, name, half - 30, size=13)]
    return draw.Panel("".join(parts), 22 * -(-len(colours) // 2) + 4)


def _words(trace: Mapping, events: list[dict], first: float, last: float) -> str:
    lanes = dict(_threads(trace))
    counts = [f"{name}: {text.counted(sum(e['tid'] == n for e in events), 'event')}" for n, name in lanes.items()]
    return f"{trace.get('about', '')}\nFrom {_time(first, last)} to {_time(last, last)}. {'; '.join(counts)}."
