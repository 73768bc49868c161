"""The kind "project": golf with a contract, an ideal and a rival, and with stages of its own (``checks.stages``).

The judges and the score are those of golf. Beside them the learner writes a prediction before any result is shown, a
test that finds planted bugs, and a table of blocks; the report shows all of it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import numpy as np

from course_lib import chips, compiler, environment, text, vocabulary
from course_lib.checks.kinds import golf
from course_lib.checks.result import NOT_ATTEMPTED, Result, does_nothing, not_attempted, not_yet
from course_lib.checks.stages import log, names

if TYPE_CHECKING:
    from course_lib.checks.exercise import Exercise

BY_BYTES = "by its bytes"  # a lower bound: the compiler's simulator has no answer for XLA's program
FIRST = "write your prediction first."
LEFT = "the judges agree, at par or below, but something is left."
MOST_PLANTED = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ideal:
    """What the work of a project amounts to, for the scored arguments: the longest of its three times is the ideal."""

    flops: int = 0  # of matmuls, at the MXUs' peak
    vector_ops: int = 0  # on single elements, if the VPU fills all its slots in every cycle
    hbm_bytes: int = 0  # of every array, once
    int8: bool = False  # whether the operands of the matmuls are int8, which have another peak

    def __post_init__(self) -> None:
        for name in ("flops", "vector_ops", "hbm_bytes"):
            if type(getattr(self, name)) is not int or getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)!r}; it is a whole number, 0 or more.")
        if not (self.flops or self.vector_ops or self.hbm_bytes):
            raise ValueError("flops, vector_ops and hbm_bytes are all 0; a project has some work, or moves some bytes.")

    def seconds(self, chip: str = "v5e") -> float:
        """Return the seconds below which no kernel can do the work on a chip whose clock is known."""
        return max(self._parts(chip).values())

    def cycles(self, chip: str = "v5e") -> int:
        """Return ``seconds`` in cycles of the core."""
        return math.ceil(self.seconds(chip) * chips.chip(chip).clock_hz)

    def bound(self, chip: str = "v5e") -> str:
        """Return what takes the longest, "core" or "HBM"."""
        parts = self._parts(chip)
        return max(parts, key=parts.get)

    def _parts(self, chip: str) -> dict[str, float]:
        on = chips.chip(chip)
        vectors = on.slots["VPU"] * on.sublanes * on.lanes * (on.clock_hz or math.inf)
        arithmetic = max(self.flops / (on.int8_ops if self.int8 else on.bf16_flops), self.vector_ops / vectors)
        return {vocabulary.CORE: arithmetic, vocabulary.HBM: self.hbm_bytes / on.program_bandwidth}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Project:
    """What a project knows of the arguments that are scored: the ideal, the rival; and what its stages need.

    ``ideal``: None if it is not known. ``xla_s``: seconds of the reference as XLA compiles it, ``xla_by`` whose figure
    that is, and ``xla_bytes`` what the program moves; None if it is not known. ``shapes``: functions that return the
    arguments of the tuned table's entries; () for the scored arguments alone. ``planted``: how many bugs are planted, 0
    to 3; 0 where the kernel is not one that bugs can be planted in.
    """

    ideal: Ideal | None
    xla_s: float | None = None
    xla_by: str = vocabulary.COMPILER
    xla_bytes: int | None = None
    shapes: tuple[Callable[[], tuple], ...] = ()
    planted: int = MOST_PLANTED
    seed: int = 0  # of the order in which a test sees kernels; the grader draws another

    def __post_init__(self) -> None:
        if not 0 <= self.planted <= MOST_PLANTED:
            raise ValueError(f"planted is {self.planted!r}; it may be 0 to {MOST_PLANTED}.")
        if self.xla_by not in (vocabulary.COMPILER, vocabulary.MODEL, BY_BYTES):
            raise ValueError(
                f'xla_by is {self.xla_by!r}; it may be "{vocabulary.COMPILER}", "{vocabulary.MODEL}" or "{BY_BYTES}".'
            )
        if self.xla_s is not None and not self.xla_s > 0:
            raise ValueError(f"xla_s is {self.xla_s!r}; it is a time in seconds above 0, or None.")
        if not isinstance(self.shapes, tuple):
            raise ValueError(f"shapes is {self.shapes!r:.60}; it is a tuple of functions.")


def moved_once(*arrays) -> int:
    """Return the bytes of arrays, or of ``jax.ShapeDtypeStruct``s, without padding. An int4 takes half a byte."""
    leaves = jax.tree.leaves(arrays)
    return sum(math.prod(a.shape) * jax.dtypes.itemsize_bits(np.dtype(a.dtype)) // 8 for a in leaves)


def result(task: Exercise, defined: object) -> Result:
    """Pass if the kernel does, and the test and the table are there."""
    said = of_kernel(task, defined)
    if not said.passed:
        return said
    if not (left := missing(task)):
        one_line = environment.under_a_grader() or environment.under_nbval() or environment.building()
        return said if one_line else dataclasses.replace(said, message=_compared(task, said))
    what = f"{_first_up(said.headline)} {_compared(task, said)}".strip()
    return not_yet(task.id, LEFT, what, left, score=said.score, report=said.report)


def of_kernel(task: Exercise, defined: object) -> Result:
    """Pass if there is a prediction, and golf passes. Every attempt is logged."""
    if defined is None or does_nothing(defined):
        return not_attempted(task.id, f"write {task.defines}")
    if log.first_prediction(task.id) is None:
        what = "Nothing is judged before you have said what you expect: a time, and what will bind."
        next = (
            f'checks.predict("{task.id}", {names.prediction(task)}), with {names.prediction(task)} = ("12 us", "HBM").'
        )
        return not_yet(task.id, FIRST, what, next)
    said, report = golf.scored(task, defined)
    if said.outcome != NOT_ATTEMPTED:
        log.add(task.id, log.CHECKED, _attempt(task, said, report))
    if said.score is None or said.passed:
        return said
    return dataclasses.replace(said, message=f"{said.message} {_compared(task, said)}".strip())


def missing(task: Exercise) -> str:
    """Return what is still to be done besides the kernel; "" if nothing is."""
    left = []
    if task.project.planted and not _passed(task, log.TESTED):
        left.append(f'checks.planted("{task.id}", {task.defines}, {names.test(task)})')
    if task.mesh is None and not _passed(task, log.TUNED):
        left.append(f'checks.tuned("{task.id}", {task.defines}, {names.table(task)})')
    return f"{' and '.join(left)}; then this check again." if left else ""


def seconds(task: Exercise, score: int) -> float | None:
    """Return a score as a time; None for bytes, and where the chip's clock is not known."""
    if task.golf.unit == golf.NANOSECONDS:
        return score * 1e-9
    clock = chips.chip(task.chips[0]).clock_hz
    return score / clock if clock and task.golf.unit == golf.CYCLES else None


def _passed(task: Exercise, what: str) -> bool:
    note = log.last(task.id, what)
    return note is not None and note.said.get("passed") is True


def _attempt(task: Exercise, said: Result, report: compiler.Report | None) -> dict:
    """Return what the log keeps of an attempt; ``report`` is that on the scored arguments, if there is one."""
    kept = {"outcome": said.outcome, "headline": said.headline, "judge": said.judge}
    if said.score is not None:
        kept |= {"score": said.score, "seconds": seconds(task, said.score)}
    if report is not None and report.ok:
        most = sorted(report.time_split.items(), key=lambda item: -item[1])[:3]
        kept |= {
            "bound": report.bound, "hbm_bytes": report.hbm_bytes, "vmem_bytes": report.vmem_bytes,
            "vmem_limit": report.vmem_limit, "spills": report.spills, "split": dict(most),
        }  # fmt: skip
    return kept


def _compared(task: Exercise, said: Result) -> str:
    """Return a sentence on the result beside the prediction, the ideal and XLA; "" if the result is no time."""
    took = seconds(task, said.score) if said.score else None
    if took is None:
        return ""
    predicted = log.first_prediction(task.id)
    compared = [f"you predicted {text.duration(predicted.said['seconds'])}"] if predicted else []
    if task.project.ideal is not None:
        compared.append(f"the ideal is {text.duration(task.project.ideal.seconds(task.chips[0]))}")
    if task.project.xla_s is not None:
        compared.append(f"XLA takes {text.duration(task.project.xla_s)}, {task.project.xla_by}")
    beside = f"; {'; '.join(compared)}" if compared else ""
    return f"That is {text.duration(took)}{beside}."


def _first_up(words: str) -> str:
    return words[:1].upper() + words[1:]
