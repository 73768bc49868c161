"""What the scores of a class are compared with: par, our own answer, XLA's program, and the bound."""

from __future__ import annotations

import dataclasses

from course_lib import chips, compiler
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds import golf, project


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rivals:
    """Scores in the unit of an exercise. None: not known."""

    par: int
    ours: int | None
    xla: int | None
    xla_note: str = ""  # whose figure XLA's is
    bound: int | None  # no kernel can do with less


def rivals(task: Exercise) -> Rivals:
    """Return what an exercise with scores is compared with. The reference is compiled where nothing is stored."""
    xla, note = _xla(task)
    return Rivals(par=task.golf.par, ours=golf.ours(task.id), xla=xla, xla_note=note, bound=_bound(task))


def _bound(task: Exercise) -> int | None:
    """Return the bytes of every array once, or the cycles that those, and the arithmetic, need at full speed."""
    if task.golf.unit == golf.NANOSECONDS:
        return None
    if task.golf.unit == golf.BYTES:
        return golf.least(task)
    least = max(golf.cycles_of_bytes(task), task.golf.floor)
    if task.project is not None and task.project.ideal is not None and chips.chip(task.chips[0]).clock_hz:
        least = max(least, task.project.ideal.cycles(task.chips[0]))
    return least or None


def _xla(task: Exercise) -> tuple[int | None, str]:
    """Return the score of the reference as XLA compiles it, and whose figure that is; None if there is none."""
    if task.project is not None:
        return _stored(task)
    if task.golf.unit == golf.NANOSECONDS:
        return None, ""
    case = task.golf.at() if task.golf.at else task.arguments()[0]
    try:
        report = compiler.compile_tpu(task.reference, *case, chip=task.chips[0])
    except Exception:  # there is no compiler here, or the reference is not one that XLA can compile
        return None, ""
    if not report.ok:
        return None, ""
    return (report.hbm_bytes, "counted") if task.golf.unit == golf.BYTES else (report.cycles, "")


def _stored(task: Exercise) -> tuple[int | None, str]:
    of, clock = task.project, chips.chip(task.chips[0]).clock_hz
    per_second = 1e9 if task.golf.unit == golf.NANOSECONDS else clock
    if of.xla_s is None or per_second is None:
        return None, ""
    return round(of.xla_s * per_second), of.xla_by if of.xla_by == project.BY_BYTES else ""
