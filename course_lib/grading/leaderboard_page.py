"""The leaderboard as an HTML page: for each exercise the class, par, our own answer, XLA and the bound."""

from __future__ import annotations

from course_lib.checks.exercise import exercise
from course_lib.checks.kinds import golf
from course_lib.grading.leaderboard import Board
from course_lib.grading.page import page, table, text
from course_lib.grading.rivals import Rivals, rivals

_RIVALS = {"par": "par", "ours": "ours", "xla": "XLA", "bound": "the bound"}


def page_of(boards: list[Board], players: int, notebooks: int) -> str:
    """Return a self-contained page."""
    body = ["<h1>Leaderboard</h1>", f"<p>{players} of {notebooks} notebooks take part. {_HOW}</p>"]
    body += [_section(board, rivals(exercise(board.id))) for board in boards]
    if not boards:
        body.append("<p>Nobody has a score yet.</p>")
    return page("Leaderboard", "\n".join(body))


_HOW = (
    "Every kernel has been judged again, on inputs that nobody has seen, and its score counted anew. The fewer, the "
    "better; equal scores share a place. The bound is what no kernel can do with less."
)


def _section(board: Board, against: Rivals) -> str:
    task = exercise(board.id)
    head = ("", "", text(_heading(board.unit)), "times par", "times the bound")
    lines = [(entry.score, 1, str(entry.place), entry.name) for entry in board.entries]
    lines += [(score, 0, "", name) for field, name in _RIVALS.items() if (score := getattr(against, field)) is not None]
    rows = []
    for score, is_entry, place, name in sorted(lines, key=lambda line: (line[0], line[1], line[3].casefold())):
        note = f" ({against.xla_note})" if name == _RIVALS["xla"] and against.xla_note else ""
        shown = text(name + note)
        cells = (f"{score:,}", _ratio(score, against.par), _ratio(score, against.bound))
        rows.append((place, f"<strong>{shown}</strong>" if is_entry else f'<span class="muted">{shown}</span>', *cells))
    more = f'<p class="muted">{board.unscored} more take part without a score here.</p>' if board.unscored else ""
    columns = {0: "number", 1: "name"} | dict.fromkeys((2, 3, 4), "number")
    return f"<h2>{text(board.id)} {text(task.title)}</h2>\n{table(head, rows, columns)}\n{more}"


def _heading(unit: str) -> str:
    """Return the unit with the source of its figures: cycles, predicted (compiler)."""
    return golf.said(0, unit).removeprefix("0 ")


def _ratio(score: int, other: int | None) -> str:
    return "" if not other else f"{score / other:.2f}"
