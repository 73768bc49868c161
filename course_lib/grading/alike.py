"""Identical answers in several notebooks, for a person to look at. They change no mark."""

from __future__ import annotations

import csv
import dataclasses
import io
import keyword
import pathlib
import tokenize
from collections import defaultdict

from course_lib.grading import submission
from course_lib.grading.graft import course_notebook
from course_lib.grading.rows import clean

SHORTEST = 60  # tokens: shorter answers are alike by chance
MOST_SHARE = 4  # in a class of eight or more, what over a quarter of it shares is the obvious answer
SAME, RENAMED = "the same", "the same, with other names"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Alike:
    """One exercise that several notebooks answer alike; ``how`` is SAME or RENAMED."""

    id: str
    how: str
    notebooks: tuple[str, ...]


def found(notebooks: dict[str, pathlib.Path]) -> list[Alike]:
    """Return the identical answers by exercise, ignoring layout, comments and cells left as handed out."""
    groups: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, path in notebooks.items():
        for id, source in _answers(path):
            same, renamed = _tokens(source, renamed=False), _tokens(source, renamed=True)
            if len(renamed) >= SHORTEST:
                groups[id, SAME]["\0".join(same)].append(name)
                groups[id, RENAMED]["\0".join(renamed)].append(name)
    lists = []
    for (id, how), texts in groups.items():
        for names in texts.values():
            common = len(notebooks) >= 8 and len(names) * MOST_SHARE > len(notebooks)
            if len(names) > 1 and not common:
                lists.append(Alike(id=id, how=how, notebooks=tuple(sorted(names))))
    same = {(one.id, one.notebooks) for one in lists if one.how == SAME}
    kept = [one for one in lists if one.how == SAME or (one.id, one.notebooks) not in same]
    return sorted(kept, key=lambda one: (*map(int, one.id.split(".")), one.notebooks))


def text(lists: list[Alike]) -> str:
    """Return the lines for the terminal."""
    lines = [f"{one.id}  {one.how}: {', '.join(one.notebooks)}" for one in lists[:20]]
    more = [f"... and {len(lists) - 20} more, in alike.csv"] if len(lists) > 20 else []
    return "\n".join(["For you to look at; no mark depends on it. Answers that are alike:", *lines, *more])


def as_csv(lists: list[Alike]) -> str:
    """Return CSV with one line per group: exercise, how, notebooks."""
    out = io.StringIO()
    rows = [("exercise", "how", "notebooks"), *((one.id, one.how, "; ".join(one.notebooks)) for one in lists)]
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def _answers(path: pathlib.Path):
    try:
        submitted = submission.read(path)
    except submission.Unreadable:
        return
    course = course_notebook(submitted)
    for task in course.tasks if course else ():
        source = "\n".join(submitted.get(task.answer, ()))
        if source.strip() and source.strip() != course.source(task.answer).strip():
            yield task.id, source


def _tokens(source: str, *, renamed: bool) -> list[str]:
    """Return the tokens without layout and comments; with ``renamed``, names become the number of their first use."""
    kinds = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
    numbers: dict[str, str] = {}
    tokens = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.NAME and renamed and not keyword.iskeyword(token.string):
                tokens.append(numbers.setdefault(token.string, f"v{len(numbers)}"))
            elif token.type not in kinds:
                tokens.append(token.string)
    except (tokenize.TokenError, SyntaxError, ValueError):
        return clean(source, 5000).split()
    return tokens
