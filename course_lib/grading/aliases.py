"""The name under which a notebook is on the leaderboard: what its author wrote there, or none."""

from __future__ import annotations

import ast
import re

from course_lib.grading.rows import clean

VARIABLE = "leaderboard_name"
LONGEST = 30  # characters
RESERVED = ("ours", "par", "xla", "the bound")  # the other lines of the page
_ASSIGNED = re.compile(rf"^{VARIABLE}[ \t]*=[ \t]*(.+)$", re.M)


class NoAlias(ValueError):
    """The notebook asks for a name that cannot be shown; the text says why."""


def alias(submitted: dict[str, list[str]]) -> str:
    """Return the text that some code cell assigns to ``leaderboard_name``, the last one; "" for none: not entered.

    Nothing is run: the line must be a plain text in quotes. Raises NoAlias for anything else, and for a name that is
    empty, too long, or that of another line of the page.
    """
    found = [match[1] for texts in submitted.values() for text in texts for match in _ASSIGNED.finditer(text)]
    if not found:
        return ""
    try:
        written = ast.literal_eval(found[-1].strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        written = None
    if written is None:
        return ""
    if not isinstance(written, str):
        raise NoAlias(f"{VARIABLE} is not text in quotes.")
    name = " ".join(clean(written, 200).split())
    if not name or len(name) > LONGEST:
        raise NoAlias(f"{VARIABLE} has {len(name)} characters; it may have 1 to {LONGEST}.")
    if name.casefold() in RESERVED:
        raise NoAlias(f"{VARIABLE} is {name!r}, which is another line of the page.")
    return name
