"""The plan of a lesson: the rows of docs/instructor/NN.md, and where in the lesson each of them begins."""

import dataclasses
import math
import re
from collections import Counter

from building import ROOT

from pack import EXERCISE, PackError

_ROW = re.compile(r"^\| (\d+) \| (\d+) \| (.+?) \| (.*?) ?\|$", re.M)
_HINT = re.compile(r"^- ((\d\d\.\d+).*(?:\n  .*)*)", re.M)
_OF_A_HEADING = 6  # what a word counts that a row begins with and the heading has, beside one that the text has


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the plan: its first minute, how many it takes, what happens, and what to watch for."""

    start: int
    minutes: int
    what: str
    watch: str

    @property
    def exercises(self) -> list[str]:
        """The exercises that the row gives its time to; [] for a row that belongs to the lesson's text."""
        return EXERCISE.findall(self.what) if re.match(rf"(Exercises\b|{EXERCISE.pattern})", self.what) else []


@dataclasses.dataclass(frozen=True)
class Plan:
    """A lesson's page for the instructor: its rows, the question that helps by exercise, and all other text."""

    rows: list[Row]
    hints: dict[str, str]
    text: str


def of(lesson: str) -> Plan:
    """Return the plan of a lesson, "07". Raise PackError if it has no page, or the page no rows."""
    source = f"docs/instructor/{lesson}.md"
    if not (ROOT / source).exists():
        raise PackError(f"lesson {lesson} has no {source}: write its plan first (make lesson lays one out).")
    page = (ROOT / source).read_text()
    rows = [Row(int(start), int(minutes), what, watch) for start, minutes, what, watch in _ROW.findall(page)]
    if not rows:
        raise PackError(f"{source} has no plan: no line has the form `| 0 | 5 | what | watch for |`.")
    hints = {id: re.sub(r"\s+", " ", hint) for hint, id in _HINT.findall(page)}
    kept = [line for line in page.split("\n") if not line.startswith(("# ", "|", "For the room as such"))]
    text = re.sub(_HINT, "", "\n".join(kept)).strip()
    return Plan(rows, hints, re.sub(r"\n*[^\n]*[Ss]ticking points[^\n]*:$", "", text))


def along(rows: list[Row], parts: list[tuple[str, str]]) -> list[int]:
    """Return for each row the index of the part of the lesson that it begins with; the order is kept.

    ``parts`` are (heading, text) in the lesson's order. A row begins with words of the heading, or uses words of the
    text, and a word counts the more, the fewer parts have it.
    """
    bags = [(_words(heading), _words(text)) for heading, text in parts]
    having = Counter(word for heading, text in bags for word in heading | text)
    weight = {word: math.log(1 + len(parts) / count) for word, count in having.items()}

    def fit(row: Row, part: int) -> float:
        heading, text = bags[part]
        shared = sum(weight[word] for word in _words(row.what) & (text | heading))
        named = sum(weight[word] for word in _words(re.split("[.:;]", row.what)[0]) & heading)
        return (shared + _OF_A_HEADING * named) / (8 + len(text | heading)) ** 0.5  # long parts share words with all

    best, origins = [0.0] * len(parts), []  # of each part: the best sum if the last row begins there, and from where
    for row in rows:
        before = [max(range(part + 1), key=best.__getitem__) for part in range(len(parts))]
        best = [best[before[part]] + fit(row, part) for part in range(len(parts))]
        origins.append(before)
    places, here = [], max(range(len(parts)), key=best.__getitem__)
    for before in reversed(origins):
        places.append(here)
        here = before[here]
    return places[::-1]


def _words(text: str) -> set[str]:
    return {word.removesuffix("s") for word in re.findall(r"[a-z0-9]{3,}", text.lower())} - _SAY_NOTHING


_SAY_NOTHING = set("the and for that with what which then before who one thi from are how".split())
