"""The search for the row of the table that fits a failure, and the wording of its sentences."""

import re
import textwrap
import traceback
from collections.abc import Iterator

from course_lib.errors.explanation import WRITTEN, Explanation
from course_lib.errors.raw import raw_text, tidy
from course_lib.errors.row import Row
from course_lib.errors.rows import ROWS


def explain(error: BaseException | str, line: str = "") -> Explanation:
    """Return the first row of the table that fits ``error`` (an exception or its text), filled in.

    ``line``: "line 3 of kernel", where the caller knows it, for failures that do not tell it themselves.
    """
    text = tidy(error if isinstance(error, str) else raw_text(error))
    look = "" if isinstance(error, str) else line_of(error)
    line = known[1] if (known := re.match(r"look at (line [^:]+):", look)) else line
    for row, found in _fitting(text, line):
        what, next = row.what.format(**found), row.next.format(**found)
        return Explanation(name=row.name, what=what, next=next + _taught(row.lesson), lesson=row.lesson)
    return Explanation(name="", what=_last_words(text), next=look)


def _fitting(text: str, line: str) -> Iterator[tuple[Row, dict[str, str]]]:
    """Yield each row that fits, with the fields of its sentences; the first is the most special."""
    for row in ROWS:
        if (found := _fields(row, text, line)) is not None:
            yield row, found


def _taught(lesson: str) -> str:
    """Return a pointer to the lesson that teaches this, if that lesson exists."""
    return f" (lesson {lesson})" if lesson in WRITTEN else ""


def line_of(error: BaseException) -> str:
    """Return "look at line 3 of add_kernel: ..." for the last line of the learner's code that raised the error.

    An error from another process carries that text as an attribute.
    """
    found = []
    while error is not None:
        if isinstance(line := vars(error).get(CARRIED), str):
            return line
        found += [f for f in traceback.extract_tb(error.__traceback__) if not _LIBRARY.search(f.filename)]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if not found or not found[-1].line:
        return ""
    function = "" if found[-1].name == "<module>" else f" of {found[-1].name}"
    code = textwrap.shorten(found[-1].line.partition("\n")[0], 60, placeholder=" ...")
    return f"look at line {found[-1].lineno}{function}: {code}"


CARRIED = "_line_to_look_at"  # set on an error that another process has described
# Code that is not the learner's: installed packages, Python itself, this library.
_LIBRARY = re.compile(r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib[/\\]python3|[/\\]course_lib[/\\]|^<frozen|^<string>$")


def _fields(row: Row, text: str, line: str) -> dict[str, str] | None:
    """Return the fields for the sentences of ``row``; None if it does not fit ``text``. ``line`` is that of explain."""
    match = re.search(row.pattern, text, re.DOTALL)
    if match is None:
        return None
    groups = {name: value.strip() for name, value in match.groupdict(default="?").items()}
    more = row.more(**groups) if row.more else {}
    if more is None:
        return None
    shown = {name: value if name == "slice" else _readable(value) for name, value in groups.items()}
    return shown | {"where": _where(text, line)} | more


def _where(text: str, line: str) -> str:
    """Return " (`add` in kernel, line 3)" if the compiler names the operation, else " (line 3 of kernel)", else ""."""
    if not (operation := re.search(r'"([\w-]+):"\(([^\n]*)', text)):
        return f" ({line})" if line else ""
    if named := re.search(r'"([^"()]+)"\("[^"\n]*":(\d+)', operation[2]):
        return f" (`{operation[1]}` in {named[1]}, line {named[2]})"
    return f" (`{operation[1]}`" + (f", {line})" if line else ")")


def _readable(value: str) -> str:
    """Return 4,096 for 4096, and 16.00 MiB for the compiler's 16.00M."""
    if size := re.fullmatch(r"([\d.]+)([KMG])", value):
        return f"{size[1]} {size[2]}iB"
    return f"{int(value):,}" if value.isdigit() else value


def _last_words(text: str) -> str:
    """Return the last line that names an error, else the first line; at most 300 characters, cut between words."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"^[A-Za-z_.]*(?:Error|Exception|NotImplemented)\w*: ", line)]
    line = (named or lines or ["no message"])[-1 if named else 0]
    short = textwrap.shorten(line, 300, placeholder=" ...")
    return short if len(short) > 40 or len(line) <= 300 else f"{line[:296]} ..."  # it may have no spaces
