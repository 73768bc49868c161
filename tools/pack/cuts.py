"""The cuts of docs/instructor/cuts.md, and their times by the clock."""

import dataclasses
import re

from building import ROOT

from pack import PackError

SOURCE = "docs/instructor/cuts.md"
DAY = 480  # minutes after which the table of several days begins the next one
_ROW = re.compile(r"^\| (\d+) \| (\d+) \| (.+) \|$", re.M)


@dataclasses.dataclass(frozen=True)
class Cut:
    """A length of the course: its name and minutes, (first minute, minutes, what) of each row, and the text below."""

    name: str
    minutes: int
    rows: list[tuple[int, int, str]]
    text: str


def cuts() -> list[Cut]:
    """Return all cuts in their order. Raise PackError if the page has none."""
    page = (ROOT / SOURCE).read_text()
    found = re.findall(r"^## ([^\n]+): (\d+) minutes\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    if not found:
        raise PackError(f"{SOURCE} has no cut: no heading has the form `## Half a day: 240 minutes`.")
    made = [Cut(name, int(minutes), _rows(body), _text(body)) for name, minutes, body in found]
    return [dataclasses.replace(cut, rows=_written_out(cut, made)) for cut in made]


def start_of(text: str) -> int:
    """Return the minute of a day that a time such as "9:30" names. Raise PackError for another text."""
    found = re.fullmatch(r"(\d{1,2}):(\d\d)", text)
    if found is None or int(found[1]) > 23 or int(found[2]) > 59:
        raise PackError(f"START={text} is no time: write hours and minutes, from 0:00 to 23:59, as in START=13:00.")
    return 60 * int(found[1]) + int(found[2])


def by_the_clock(minute: int, start: int) -> str:
    """Return the time of a cut's minute, on whichever day, if each day begins at ``start``: "09:05"."""
    hours, minutes = divmod((start + minute % DAY) % 1440, 60)
    return f"{hours:02}:{minutes:02}"


def _written_out(cut: Cut, others: list[Cut]) -> list[tuple[int, int, str]]:
    """Replace a row such as "Two days, as above" by the rows of that cut."""
    rows = []
    for row in cut.rows:
        above = next((other for other in others if row[2] == f"{other.name}, as above"), None)
        rows += above.rows if above else [row]
    return rows


def _rows(body: str) -> list[tuple[int, int, str]]:
    return [(int(start), int(minutes), what) for start, minutes, what in _ROW.findall(body)]


def _text(body: str) -> str:
    kept = [line for line in body.split("\n") if not line.startswith("|") and not line.endswith(("day:", "second:"))]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
