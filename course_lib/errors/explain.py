"""Find the row of the table that fits a failure, and fill in its sentences."""

import re
import textwrap

from course_lib.errors.explanation import Explanation
from course_lib.errors.raw import raw_text, tidy
from course_lib.errors.row import Row
from course_lib.errors.rows import ROWS


def explain(error: BaseException | str) -> Explanation:
    """The first row of the table that fits ``error`` (an exception, or the text of one), filled in."""
    text = tidy(error if isinstance(error, str) else raw_text(error))
    for row in ROWS:
        if (found := _fields(row, text)) is not None:
            what, cure = row.what.format(**found), row.cure.format(**found)
            return Explanation(name=row.name, what=what, cure=cure, lesson=row.lesson)
    return Explanation(name="", what=_last_words(text))


def _fields(row: Row, text: str) -> dict[str, str] | None:
    """What fills the sentences of ``row``; None if it does not fit ``text``."""
    match = re.search(row.pattern, text, re.DOTALL)
    if match is None:
        return None
    groups = {name: value.strip() for name, value in match.groupdict(default="?").items()}
    more = row.more(**groups) if row.more else {}
    if more is None:
        return None
    return {name: _readable(value) for name, value in groups.items()} | {"where": _where(text)} | more


def _where(text: str) -> str:
    """ " (`add` in kernel, line 3)" where the compiler names the operation; "" where it does not."""
    if not (operation := re.search(r'"([\w-]+):"\(([^\n]*)', text)):
        return ""
    line = re.search(r'"([^"()]+)"\("[^"\n]*":(\d+)', operation[2])
    return f" (`{operation[1]}`" + (f" in {line[1]}, line {line[2]})" if line else ")")


def _readable(value: str) -> str:
    """4,096 for 4096, and 16.00 MiB for the compiler's 16.00M."""
    if size := re.fullmatch(r"([\d.]+)([KMG])", value):
        return f"{size[1]} {size[2]}iB"
    return f"{int(value):,}" if value.isdigit() else value


def _last_words(text: str) -> str:
    """The last line that names an error, else the first line; at most 300 characters, cut between words."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"^[A-Za-z_.]*(?:Error|Exception|NotImplemented)\w*: ", line)]
    return textwrap.shorten((named or lines or ["no message"])[-1 if named else 0], 300, placeholder=" ...")
