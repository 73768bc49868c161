"""One row of the table of failures."""

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Row:
    """A known failure: how to recognize it, and what to say.

    ``what`` and ``next`` are formatted with the named groups of the pattern, with {where} (the operation and the line
    of the kernel, if the compiler names them), and with the fields that ``more`` computes from the groups.
    """

    name: str
    pattern: str  # a regular expression, searched in the raw text; a dot also matches a newline
    what: str
    next: str
    lesson: str = ""
    more: Callable[..., dict[str, str] | None] | None = None  # groups -> further fields; None: the row does not fit
