"""How long selected threads of a recorded profile work, and when none of them does."""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gaps:
    """Work of the chosen lanes: any is busy for ``busy_ms`` of ``whole_ms``; ``idle`` has (length, start) in ms."""

    busy_ms: float
    whole_ms: float
    idle: tuple[tuple[float, float], ...]


def gaps(trace: Mapping, lanes: str = "XLA") -> Gaps:
    """Find when no thread whose name begins with ``lanes`` works, in a trace in Chrome's format.

    ``trace`` is what ``json.load`` returns for such a file, with "ts" and "dur" in microseconds. Only recorded events
    count: a thread may be doing work that the trace leaves out. Time after the last event is not a gap. Raises
    ValueError if no such thread has an event.
    """
    named = {e["tid"] for e in trace["traceEvents"] if _names_a_thread(e) and e["args"]["name"].startswith(lanes)}
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    spans = sorted((e["ts"] / 1e3, (e["ts"] + e["dur"]) / 1e3) for e in events if e["tid"] in named)
    if not spans:
        raise ValueError(f"gaps: no thread whose name begins with lanes={lanes!r} has an event in this trace.")
    busy, until, idle = 0.0, 0.0, []
    for start, stop in spans:
        if start > until:
            idle.append((start - until, until))
        busy += max(0.0, stop - max(start, until))
        until = max(until, stop)
    whole = max((e["ts"] + e["dur"]) / 1e3 for e in events)
    return Gaps(busy_ms=busy, whole_ms=whole, idle=tuple(idle))


def took(trace: Mapping, name: str) -> float:
    """Return the total milliseconds of all events with that name; 0.0 if there are none."""
    return sum(e["dur"] / 1e3 for e in trace["traceEvents"] if e["ph"] == "X" and e["name"] == name)


def _names_a_thread(event: Mapping) -> bool:
    return event["ph"] == "M" and event["name"] == "thread_name"
