"""Which derivative of a kernel JAX was asked for, read off the learner's own calls in a traceback."""

import linecache
import re
import traceback
from types import CodeType, FrameType, TracebackType

_ASKING = re.compile(r"\b(jvp|jacfwd|linearize|grad|value_and_grad|vjp|jacrev|hessian)\(")
_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]")


def asked_for(trace: TracebackType | None, ours: re.Pattern) -> str:
    """Return ", by jvp (line 3 of push)" for the derivative that an error came from; "" if the source does not say.

    The innermost one counts. Where a rule of a custom_vjp asked for it, "in the backward rule of layer" follows; where
    such a rule was itself to be differentiated, the answer is ", a second time, in the backward rule of layer". JAX
    removes its own functions from most tracebacks, so this reads the callers. ``ours``: the files whose lines are not
    the learner's.
    """
    asking, inside = "", ""
    frames = [frame for frame, _ in traceback.walk_tb(trace)]
    rules = _rules(frames)
    for frame, at in zip(frames, traceback.extract_tb(trace), strict=True):
        inside = rules.get(frame.f_code, inside)
        if (found := _ASKING.search(_called(at))) and not _INSTALLED.search(at.filename):
            function = "" if at.name == "<module>" else f" of {at.name}"
            line = "" if ours.search(at.filename) else f" (line {at.lineno}{function})"
            asking, inside = f", by {found[1]}{line}" + (f" in the {inside}" if inside else ""), ""
    return f", a second time, in the {inside}" if asking and inside else asking


def _called(at: traceback.FrameSummary) -> str:
    """Return the source of the call that a frame is in the middle of."""
    if None in (at.lineno, at.end_lineno, at.colno, at.end_colno):
        return ""
    lines = [line.encode() for line in linecache.getlines(at.filename)[at.lineno - 1 : at.end_lineno]]
    if lines:
        lines[-1] = lines[-1][: at.end_colno]
        lines[0] = lines[0][at.colno :]
    return b"".join(lines).decode(errors="replace")


def _rules(frames: list[FrameType]) -> dict[CodeType, str]:
    """Return the rules of every custom_vjp that the functions in a traceback can name: code -> "backward rule of f"."""
    found = {}
    for frame in frames:
        for value in (*list(frame.f_globals.values()), *list(frame.f_locals.values())):
            if type(value).__name__ != "custom_vjp":
                continue
            for rule, kind in ((getattr(value, "fwd", None), "forward"), (getattr(value, "bwd", None), "backward")):
                rule = getattr(rule, "func", rule)  # of a functools.partial
                if code := getattr(rule, "__code__", None):
                    found[code] = f"{kind} rule of {getattr(value, '__name__', 'a function')}"
    return found
