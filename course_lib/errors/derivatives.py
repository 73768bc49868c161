"""Which derivative of a kernel JAX was asked for, read off the learner's own calls in a traceback."""

import gc
import linecache
import re
import traceback
from types import CodeType, TracebackType

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
    rules = _rules()
    for (frame, _), at in zip(traceback.walk_tb(trace), traceback.extract_tb(trace), strict=True):
        inside = rules.get(frame.f_code, inside)
        if (found := _ASKING.search(called(at))) and not _INSTALLED.search(at.filename):
            function = "" if at.name == "<module>" else f" of {at.name}"
            line = "" if ours.search(at.filename) else f" (line {at.lineno}{function})"
            asking, inside = f", by {found[1]}{line}" + (f" in the {inside}" if inside else ""), ""
    return f", a second time, in the {inside}" if asking and inside else asking


def called(at: traceback.FrameSummary) -> str:
    """Return the source of the call that a frame is in the middle of."""
    if None in (at.lineno, at.end_lineno, at.colno, at.end_colno):
        return ""
    lines = [line.encode() for line in linecache.getlines(at.filename)[at.lineno - 1 : at.end_lineno]]
    if lines:
        lines[-1] = lines[-1][: at.end_colno]
        lines[0] = lines[0][at.colno :]
    return b"".join(lines).decode(errors="replace")


def _rules() -> dict[CodeType, str]:
    """Return the rules of every custom_vjp there is: their code -> "backward rule of f".

    A traceback shows the rule and not the function that it belongs to, and nothing else leads from one to the other.
    """
    found = {}
    for one in gc.get_objects():
        if type(one).__name__ == "custom_vjp":
            for rule, kind in ((getattr(one, "fwd", None), "forward"), (getattr(one, "bwd", None), "backward")):
                rule = getattr(rule, "func", rule)  # of a functools.partial
                if code := getattr(rule, "__code__", None):
                    found[code] = f"{kind} rule of {getattr(one, '__name__', 'a function')}"
    return found
