"""Exercises whose kernels copy to other chips: an answer is what one device does, and ``judge_chips`` decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from course_lib import compat, compiler, grid, judges
from course_lib.checks.result import NOT_YET, Result, not_yet
from course_lib.compiler import progress
from course_lib.grid import jaxprs

if TYPE_CHECKING:
    from course_lib.checks.exercise import Exercise

_OUTSIDE = "part of it is not in the kernel."
_NEEDED = ("protocol", "numbers")  # judges without which no answer passes


def heard(task: Exercise, one_device: Callable) -> tuple[Result | None, list[judges.Verdict], compiler.Report | None]:
    """Return (the first refusal of what one device does or None, the verdicts before it, the compiler's report)."""
    mesh, said = task.mesh, []
    fn = mesh.sharded(one_device)
    how = {"mesh": mesh.shape, "axes": mesh.axes, "in_specs": mesh.in_specs, "topology": mesh.topology}
    for case in task.arguments():
        if complaint := _outside(task, one_device, case):
            return not_yet(task.id, _OUTSIDE, *complaint), said, None
        with progress.shown(f"judging {task.id}"):
            verdicts = judges.judge_chips(fn, task.reference, *case, ring=mesh.ring, **how)
        for verdict in verdicts:
            if verdict.passed is False or (verdict.passed is None and verdict.judge in _NEEDED):
                return _refused(task, verdict), said, verdict.report
        said = said or [verdict for verdict in verdicts if verdict.judge != "schedule"]  # which refuses nothing
    return None, said, next((verdict.report for verdict in said if verdict.report), None)


def walk(task: Exercise, one_device: Callable, case: tuple) -> grid.Walk:
    """Return the walk of what one device does with its parts of the arguments. Raises what ``grid.walk`` raises."""
    with compat.mesh_axes(task.mesh.sizes):
        return grid.walk(one_device, *task.mesh.parts(case))


def _outside(task: Exercise, one_device: Callable, case: tuple) -> tuple[str, str] | None:
    """Return a complaint about arithmetic, or a collective of XLA's, outside the kernel, or about no kernel at all.

    The traced function is enough for that: a kernel that ``grid.walk`` cannot read hides nothing beside it. None if it
    cannot be traced: the judges say why.
    """
    try:
        with compat.mesh_axes(task.mesh.sizes):
            found = grid.trace(one_device, *task.mesh.parts(case))
    except Exception:
        return None
    if not any(True for _ in jaxprs.pallas_calls(found)):
        return (
            "It runs no Pallas kernel.",
            "copy to the other devices with pltpu.make_async_remote_copy in a kernel that pl.pallas_call runs.",
        )
    around = [] if task.arithmetic_around else judges.arithmetic_in(found)
    if not around:
        return None
    return (
        f"Part of the work is outside the kernel: {', '.join(around)}.",
        "do it inside the kernel; around the pallas_call only shapes may change.",
    )


def _refused(task: Exercise, verdict: judges.Verdict) -> Result:
    verb = "could not run" if verdict.passed is None or not verdict.ran else "refused"
    return Result(
        id=task.id, outcome=NOT_YET, judge=verdict.judge, headline=f"the {verdict.judge} judge {verb} it.",
        message=verdict.message, next=verdict.next, report=verdict.report,
    )  # fmt: skip


def scheduled(task: Exercise, one_device: Callable) -> judges.Schedule:
    """Return the predicted (model) schedule of an answer to golf, at the scored arguments."""
    golf, mesh = task.golf, task.mesh
    return judges.schedule_chips(
        mesh.sharded(one_device), *(golf.at() if golf.at else task.arguments()[0]), mesh=mesh.shape, axes=mesh.axes,
        chip=mesh.topology.partition(":")[0], ring=mesh.ring, scale=golf.scale, work=golf.work,
    )  # fmt: skip
