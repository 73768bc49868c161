"""The exception for an answer of the wrong type, and words that describe such an answer."""

import re

_LONGEST = 60  # characters of a value that are shown; a longer one ends in dots


class Unfit(ValueError):
    """An answer that cannot be judged, or that falls short: its text says what it is, ``next`` what to do instead.

    ``headline`` replaces the check's own headline where that would mislead: "it is not exact enough."
    """

    def __init__(self, what: str, next: str, headline: str = ""):
        super().__init__(what)
        self.next, self.headline = next, headline


def described(value: object) -> str:
    """Describe ``value`` in words that fit after "is": "a tuple of 3", "a dict with 5 keys", "the number 7"."""
    if isinstance(value, dict):
        return f"a dict with {len(value)} {'key' if len(value) == 1 else 'keys'}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, str):
        return f"text: {_short(value)}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"the number {_short(value)}"
    if hasattr(value, "dtype") and getattr(value, "shape", ()):
        return f"an array {value.dtype}[{', '.join(map(str, value.shape))}]"
    if callable(value):
        name = getattr(value, "__name__", "")
        return f"the function {name}" if name.isidentifier() else "a function"
    return _short(value)


def _short(value: object) -> str:
    """Return the repr without memory addresses, cut at the end of a word."""
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    if len(text) <= _LONGEST:
        return text
    return text[:_LONGEST].rsplit(" ", 1)[0].rstrip(",") + " ..."
