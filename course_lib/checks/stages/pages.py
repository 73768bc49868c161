"""The report on a project: two pages made from the learner's record, shown in a notebook and saved as a file.

The first page has the contract, and the result beside the prediction, the ideal, par, our own answer and XLA. The
second has the attempts, the memory, the planted bugs and the tuned table.
"""

from __future__ import annotations

import dataclasses
import inspect
import pathlib
from typing import TYPE_CHECKING

import jax

from course_lib import text, vocabulary
from course_lib.checks import record
from course_lib.checks.kinds import golf, project
from course_lib.checks.result import PASSED
from course_lib.checks.stages import log

if TYPE_CHECKING:
    from course_lib.checks.exercise import Exercise

Rows = list[tuple[str, ...]]
MOST_ATTEMPTS = 12  # that are shown, the first and the best among them


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pages:
    """The two pages. ``print`` gives text; a notebook cell shows them as they are saved."""

    id: str
    title: str
    contract: tuple[str, ...]
    times: Rows  # who, seconds, times the ideal, whose figure it is
    seconds: tuple[tuple[str, float], ...]  # the same as numbers, for the bars
    binds: tuple[str, ...]
    attempts: Rows
    attempts_left_out: int
    planted: Rows
    table: Rows
    kept: tuple[str, ...]  # about the log: its hashes, and whether they fit
    file: pathlib.Path | None = None

    def __str__(self) -> str:
        parts = [f"{self.id} {self.title}", *self.contract, "", *text.table(self.times), *self.binds]
        for title, rows in self.tables:
            parts += ["", title, *(text.table(rows, indent="  ") if rows else ["  none yet"])]
        return "\n".join(text.folded(part) if part else "" for part in [*parts, "", *self.kept, *self._saved()])

    __repr__ = __str__

    @property
    def tables(self) -> list[tuple[str, Rows]]:
        """The tables of the second page: (title, rows)."""
        left_out = f" ({self.attempts_left_out} more are left out)" if self.attempts_left_out else ""
        return [
            (f"What was tried{left_out}", self.attempts),
            ("Bugs planted in the kernel", self.planted),
            ("Tuned table", self.table),
        ]

    def _saved(self) -> list[str]:
        return [f"Saved as {self.file.name}."] if self.file else []

    def _repr_html_(self) -> str:
        from course_lib.viz.pictures import project_pages

        return project_pages.html(self)

    def page(self) -> str:
        """Return both pages as one HTML document without scripts, fit for print."""
        from course_lib.viz.pictures import project_pages

        return project_pages.document(self)


def saved(task: Exercise) -> Pages:
    """Return the pages of a project, saved beside the record of progress where that is written to a file."""
    pages = of(task)
    if not record.on_file():
        return pages
    pages = dataclasses.replace(pages, file=record.path().with_name(f"project_{task.id}.html"))
    pages.file.write_text(pages.page(), encoding="utf-8")
    return pages


def of(task: Exercise) -> Pages:
    """Return the pages of a project as its record has it."""
    notes = log.notes(task.id)
    best = _best(notes)
    tried = [note for note in notes if note.what == log.CHECKED]
    shown = _chosen(tried, best)
    seconds = _seconds(task, best)
    ideal = task.project.ideal and task.project.ideal.seconds(task.chips[0])
    return Pages(
        id=task.id,
        title=task.title,
        contract=_contract(task),
        times=[
            (who, text.duration(value), f"{text.significant(value / ideal, 3)} x ideal" if ideal else "", how)
            for who, value, how in seconds
        ],
        seconds=tuple((who, value) for who, value, _ in seconds),
        binds=_binds(task, best),
        attempts=[_attempt(tried.index(note) + 1, note) for note in shown],
        attempts_left_out=len(tried) - len(shown),
        planted=_planted(task.id),
        table=_table(task.id),
        kept=_kept(task.id, notes),
    )


def _contract(task: Exercise) -> tuple[str, ...]:
    """Return what the function must do, and the arguments that are scored."""
    said = inspect.getdoc(task.reference) or ""
    scored = ", ".join(f"{a.dtype}[{', '.join(map(str, a.shape))}]" for a in jax.tree.leaves(golf.scored_at(task)))
    lines = [f"{task.defines}({', '.join(task.inputs)})" if task.inputs else task.defines]
    return tuple(filter(None, (*lines, said, f"Scored on a {task.chips[0]} with {scored}.")))


def _seconds(task: Exercise, best: log.Note | None) -> list[tuple[str, float, str]]:
    """Return (who, seconds, whose figure it is) of everything that the result is compared with."""
    of, chip = task.project, task.chips[0]
    unit = vocabulary.MODEL if task.golf.unit == golf.NANOSECONDS else vocabulary.COMPILER
    predicted, ours = log.first_prediction(task.id), golf.ours(task.id)
    found = []
    if of.ideal is not None:
        found.append(("the ideal", of.ideal.seconds(chip), "its arithmetic at the peak, its bytes at full speed"))
    if predicted is not None:
        found.append(("your prediction", predicted.said.get("seconds"), f"written {predicted.on.replace('T', ' ')}"))
    if best is not None:
        found.append(("your kernel", best.said.get("seconds"), unit))
    if ours is not None:
        found.append(("our kernel", project.seconds(task, ours), unit))
    found.append(("par", project.seconds(task, task.golf.par), "the most that passes"))
    if of.xla_s is not None:
        found.append(("XLA", of.xla_s, of.xla_by))
    return [(who, value, how) for who, value, how in found if isinstance(value, float | int) and value > 0]


def _binds(task: Exercise, best: log.Note | None) -> tuple[str, ...]:
    """Return sentences on what was predicted to bind, and what does."""
    if best is None:
        return ("There is no result yet.",)
    said, lines = best.said, []
    predicted = log.first_prediction(task.id)
    if predicted is not None and isinstance(said.get("seconds"), float) and predicted.said.get("seconds"):
        off = text.compared(predicted.said["seconds"], said["seconds"], "longer", "shorter")
        lines.append(
            f"The predicted time is {off} than the result." if off != "the same" else "The prediction is right."
        )
    if bound := said.get("bound"):
        guess = predicted.said.get("bound") if predicted else None
        also = "" if guess is None else ", as you predicted" if guess == bound else f"; you predicted {guess}"
        lines.append(f"It is {vocabulary.bound_by(bound)}{also}.")
    if split := said.get("split"):
        whole = sum(split.values())
        lines.append(
            f"Most cycles go to {', '.join(f'{name} ({text.percent(n / whole)})' for name, n in split.items())}."
        )
    if said.get("vmem_bytes"):
        limit = f" of {text.size(said['vmem_limit'])}" if said.get("vmem_limit") else ""
        moved = f", and moves {text.size(said['hbm_bytes'])} between HBM and the chip" if said.get("hbm_bytes") else ""
        lines.append(f"It takes {text.size(said['vmem_bytes'])}{limit} of VMEM{moved}.")
    return tuple(lines)


def _best(notes: list[log.Note]) -> log.Note | None:
    """Return the attempt with the lowest score; None if none has one."""
    scored = [note for note in notes if note.what == log.CHECKED and isinstance(note.said.get("score"), int)]
    return min(scored, key=lambda note: note.said["score"], default=None)


def _chosen(tried: list[log.Note], best: log.Note | None) -> list[log.Note]:
    """Return the attempts that are shown: the first, the best, and the last ones."""
    if len(tried) <= MOST_ATTEMPTS:
        return tried
    ends = {id(note) for note in (tried[0], best, *tried[len(tried) - MOST_ATTEMPTS + 2 :])}
    return [note for note in tried if id(note) in ends]


def _attempt(number: int, note: log.Note) -> tuple[str, ...]:
    took = text.duration(note.said["seconds"]) if isinstance(note.said.get("seconds"), float) else ""
    outcome = "at par" if note.said.get("outcome") == PASSED else str(note.said.get("outcome", ""))
    return str(number), note.on.replace("T", " "), took, outcome, str(note.said.get("headline", ""))


def _planted(id: str) -> Rows:
    note = log.last(id, log.TESTED)
    planted = note.said.get("planted") if note else None
    if not isinstance(planted, dict):
        return []
    return [("found" if found else "not found", means) for means, found in planted.items()]


def _table(id: str) -> Rows:
    note = log.last(id, log.TUNED)
    rows = note.said.get("rows") if note else None
    if not isinstance(rows, list):
        return []
    return [
        (
            str(row.get("chip")), " x ".join(map(str, row.get("shape", ()))), str(row.get("blocks")),
            text.duration(row.get("seconds")), text.size(row.get("vmem_bytes")),
        )
        for row in rows if isinstance(row, dict)
    ]  # fmt: skip


def _kept(id: str, notes: list[log.Note]) -> tuple[str, ...]:
    """Return sentences on the log itself."""
    if not notes:
        return ("Nothing is recorded yet.",)
    counted = log.first_prediction(id)
    lines = (
        [] if counted is None else [f"The prediction has the hash {counted.hash}; the log ends with {notes[-1].hash}."]
    )
    if changed := [note for note in notes if not note.genuine]:
        lines.append(
            f"The entry of {changed[0].on.replace('T', ' ')} was changed after it was written, or one before it."
        )
    return tuple(lines)
