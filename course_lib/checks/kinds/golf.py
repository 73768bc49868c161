"""The kind "golf": a kernel that every judge accepts is scored in HBM bytes or predicted cycles; fewer is better.

The score is that of the first arguments, on which all judges have accepted the kernel; or, in cycles, that of larger
ones, which only the numbers judge or only the compiler sees. Cycles are never fewer than the bytes need, because the
compiler's simulator gives each of several concurrent copies the full memory bandwidth, and no chip does.
"""

from __future__ import annotations

import dataclasses
import importlib.resources
import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax

from course_lib import chips, compiler, cost, environment, grid, judges, text, vocabulary
from course_lib.checks import asking
from course_lib.checks.around import around
from course_lib.checks.kinds import kernel, many_chips, other_engines
from course_lib.checks.result import Result, not_yet

if TYPE_CHECKING:
    from course_lib.checks.exercise import Exercise

BYTES, CYCLES, NANOSECONDS = "bytes", "cycles", "ns"
ABOVE_PAR = "the judges agree, but the score is above par."
NO_SCORE = "the judges agree, but there is no score."
SKIPPED = "skipped: its score."
_PATIENCE_S = 60.0
_FEWER = "count how often each byte of each array is read, by all subcores together, and let them read it once."
_NEARLY = 0.95  # of the bytes
_FEW = 2  # grid steps: with more, the latency of their copies adds up


@dataclasses.dataclass(frozen=True, kw_only=True)
class Golf:
    """The limit on a score: ``par`` is the largest that passes, in ``unit``.

    The unit is "bytes" to and from HBM, "cycles", or for kernels on several chips "ns" of the predicted (model) time.

    The score of our own answer is not stored here: the build computes it (``ours``).
    """

    unit: str
    par: int
    # Cycles and ns only: the scored arguments, if they are too large for all judges. The numbers judge runs arrays;
    # jax.ShapeDtypeStructs are only compiled, so give a floor that exposes a kernel that skips work.
    at: Callable[[], tuple] | None = None
    scale: float = 1.0  # ns only: what the bytes of all copies are multiplied by
    work: Callable | None = None  # ns only: event -> the seconds that the core needs for what it writes there
    floor: int = 0  # cycles only: what the work takes at the chip's peak; a lower score means skipped work
    next: str = ""  # cycles, and bytes of SparseCores: what to try above par, where the general advice would mislead

    def __post_init__(self) -> None:
        if self.unit not in (BYTES, CYCLES, NANOSECONDS):
            raise ValueError(f'unit is {self.unit!r}; it may be "{BYTES}", "{CYCLES}" or "{NANOSECONDS}".')
        if type(self.par) is not int or self.par < 1:
            raise ValueError(f"par is {self.par!r}; it is a whole number of {self.unit}, 1 or more.")
        if self.floor and (self.unit != CYCLES or self.floor >= self.par):
            raise ValueError(f"floor is {self.floor!r}; it is for cycles, and below par.")
        if self.at is not None and self.unit == BYTES:
            raise ValueError(
                "at= is for cycles and ns: bytes are counted for the first arguments, which every judge has seen."
            )


class NotCounted(Exception):
    """There is no score; the text says why, and ``next`` says what to do."""

    def __init__(self, why: str, next: str) -> None:
        super().__init__(why)
        self.next = next


def result(task: Exercise, defined: object) -> Result:
    """Pass if the judges agree and the score is at par or below."""
    return scored(task, defined)[0]


def scored(task: Exercise, defined: object) -> tuple[Result, compiler.Report | None]:
    """Return the result, and the compiler's report on the arguments that are scored, if it counted the score."""
    said = kernel.result(task, defined)
    if not said.passed:
        return said, None
    of_cycles = task.golf.at and task.golf.unit == CYCLES
    if of_cycles and (refusal := asking.refused_at(task, task.build(defined), task.golf.at(), "that is scored")):
        return dataclasses.replace(refusal, report=said.report), None
    try:
        report = _compiled(task, defined) if of_cycles else said.report
        value = score(task, defined, report)
    except compiler.Unavailable as error:  # the score is unknown here: not passed, but nothing is wrong with the answer
        why = f"The judges agree. The TPU's compiler predicts the cycles, and this machine does not have it. {error}"
        next = "check it on a machine that has the compiler: Linux on Intel or AMD."
        return not_yet(task.id, SKIPPED, why, next), None
    except NotCounted as error:
        return not_yet(task.id, NO_SCORE, str(error), error.next, report=said.report), None
    if value > task.golf.par:
        what, next = _above_par(task, defined, value, report)
        return not_yet(task.id, ABOVE_PAR, what, next, score=value, report=said.report), report
    skipped = said.headline.rstrip(".").partition("; skipped: ")[2]
    return dataclasses.replace(said, headline=headline(task, value, skipped), score=value), report


def _compiled(task: Exercise, defined: object) -> compiler.Report:
    """Return the compiler's report on the scored arguments; large ones get a longer time limit."""
    patience = _PATIENCE_S if task.golf.at else None
    return compiler.compile_tpu(task.build(defined), *scored_at(task), chip=task.chips[0], time_limit_s=patience)


def scored_at(task: Exercise) -> tuple:
    """Return the arguments that are scored."""
    return task.golf.at() if task.golf.at else task.arguments()[0]


def score(task: Exercise, defined: object, report: compiler.Report | None = None) -> int:
    """Return the score of what the learner defined, with the first arguments or those of ``golf.at``.

    ``report`` is the compiler's report on them, if known. Raises NotCounted, and compiler.Unavailable if cycles are
    asked for and no compiler is there.
    """
    fn, case = task.build(defined), task.arguments()[0]
    if task.golf.unit == NANOSECONDS:
        return round(many_chips.scheduled(task, fn).seconds * 1e9)
    if task.engine:  # its evaluator sees every copy, so there is no least that a score could fall below
        return other_engines.moved(task, fn, case, task.chips[0])[0]
    if task.golf.unit == CYCLES:
        report = report or _compiled(task, defined)
        if report.cycles is None and (stopped := _stopped(report)):
            why = f"It took too long to compile, because one step is too long a program. {stopped}"
            raise NotCounted(why, "make the blocks smaller. If the machine is busy with other things, check once more.")
        if not report.ok:
            raise NotCounted(f"The compiler refuses it for the arrays that are scored. {report.error}", "fix that.")
        if report.cycles is None:
            several = len(grid.walk(fn, *case).calls) > 1
            raise NotCounted(
                " ".join(["The compiler's simulator gives no cycles.", *report.notes]),
                "let one pallas_call do all of it." if several else "write it in another way.",
            )
        if report.cycles < task.golf.floor:
            raise NotCounted(
                f"It takes {said(report.cycles, CYCLES)}; at the chip's peak the work alone takes {task.golf.floor:,}.",
                "do all of the work at every size: the score is for large arrays, which not every judge runs.",
            )
        if task.project is not None and (skipped := _skipped(task, report)):
            raise NotCounted(skipped, "do all of the work at every size: write each block of the result.")
        return max(report.cycles, cycles_of_bytes(task, report.hbm_bytes or 0))
    try:
        walk = grid.walk(fn, *case)
        moved = cost.hbm_bytes(walk) + sum(around(walk).values())
    except grid.UnreadableCall as error:
        raise NotCounted(f"Its bytes cannot be counted: {error}", "let BlockSpecs do the copying.") from error
    if moved < least(task):
        raise NotCounted(
            f"The count is {moved:,} bytes, but moving every array once takes {least(task):,}: some copies are unseen.",
            "let BlockSpecs do the copying, from HBM and back.",
        )
    return moved


def _skipped(task: Exercise, report: compiler.Report) -> str:
    """Return a sentence if a kernel moves less than all arrays that are scored; "" if it does not.

    Nor where XLA keeps some of them on the chip, because the report does not count those.
    """
    moved, needed = report.hbm_bytes, task.project.ideal.hbm_bytes if task.project.ideal else 0
    if moved is None or moved >= _NEARLY * needed or any("in VMEM" in note for note in report.notes):
        return ""
    return (
        f"For the arrays that are scored it moves {moved:,} bytes, but moving each of them once takes {needed:,}: "
        "part of them is never read or written."
    )


def _stopped(report: compiler.Report) -> str:
    """Return the report's line about a compiler or simulator that timed out; "" if there is none."""
    said = ([report.error.what] if report.error else []) + list(report.notes)
    return next((each for each in said if "gave no answer within" in each), "")


def least(task: Exercise) -> int:
    """Return the bytes moved if each array of the scored arguments, and the result, moves once; lists unpadded."""
    case = scored_at(task)
    arrays = jax.tree.leaves((case, jax.eval_shape(task.reference, *case)))
    return sum(4 * array.size if _may_be_prefetched(array) else cost.stored_bytes(array) for array in arrays)


def _may_be_prefetched(array) -> bool:
    """Whether an array may be one to be prefetched: lists and tables of int32 are counted without padding."""
    return array.ndim <= 2 and array.dtype == "int32"


def cycles_of_bytes(task: Exercise, counted: int = 0) -> int:
    """Return the cycles HBM needs at full speed for the scored arguments and the result, each moved once.

    If ``counted`` bytes are more, they count instead. Returns 0 if the chip's clock rate is unknown.
    """
    chip = chips.chip(task.chips[0])
    return math.ceil(max(least(task), counted) * (chip.clock_hz or 0) / chip.program_bandwidth)


def ours(id: str) -> int | None:
    """Return the score of our own answer to exercise ``id`` from `make build`; None before that, and without one."""
    if not id[:2].isdigit():
        return None  # a project of the reader's own
    file = importlib.resources.files(f"course_lib.lessons.lesson_{id[:2]}").joinpath("golf.json")
    return json.loads(file.read_text()).get(id) if file.is_file() else None


def said(value: int, unit: str) -> str:
    """Return a score in words: "4,312 bytes"; predictions say whose they are."""
    return f"{value:,} {unit}" + {CYCLES: f", {vocabulary.COMPILER}", NANOSECONDS: f", {vocabulary.MODEL}"}.get(
        unit, ""
    )


def announce(id: str, answer: object) -> None:
    """Print the score of an answer for the grader, as ``announced`` reads it."""
    from course_lib.checks.exercise import exercise

    try:
        print(f"{id} score: {score(exercise(id), answer)}")
    except Exception as error:  # whatever is wrong with the kernel, its check reports it
        print(f"{id} score: none. {error}")


def announced(id: str, printed: str) -> int | None:
    """Return the score from the last line that ``announce`` printed; None if there is none."""
    before, _, value = printed.rstrip().rpartition("\n")[2].partition(" score: ")
    return int(value) if before == id and value.isascii() and value.isdigit() else None


def headline(task: Exercise, value: int, skipped: str) -> str:
    """Return what a pass prints. Cycles depend on libtpu's version, so a compared or stored line has no figures."""
    golf, best = task.golf, value if environment.building() else ours(task.id)
    compared = environment.under_nbval() and not environment.under_a_grader()  # our grader runs nbval too
    if golf.unit == CYCLES and (compared or environment.building()):
        return f"at par or below, in {CYCLES}, {vocabulary.COMPILER}."
    words = [said(value, golf.unit), f"par {golf.par:,}"]
    if best is not None:
        words[1:] = [words[1], f"beats ours, {best:,}"] if value < best else [f"{words[1]}, ours {best:,}"]
    if golf.unit == CYCLES and value == cycles_of_bytes(task):
        words.append("nothing is left to gain: HBM binds")
    if skipped:
        words.append(f"skipped: {skipped}")
    return "; ".join(words) + "."


def _above_par(task: Exercise, defined: object, value: int, report: compiler.Report | None) -> tuple[str, str]:
    """Return (the score, par, and where most of it goes; what to look at)."""
    golf, best = task.golf, ours(task.id)
    par = f"par is {golf.par:,}" + (f", ours {best:,}" if best is not None else "")
    if golf.unit == NANOSECONDS:
        lane, share = many_chips.scheduled(task, task.build(defined)).busiest()
        return (
            f"It takes {said(value, NANOSECONDS)}; {par}. The busiest is {lane}, {text.percent(share)} of the time.",
            "keep that one busy all the time: start a copy as soon as what it sends is there, and compute while it is "
            "under way.",
        )
    if golf.unit == CYCLES:
        whole = f'checks.report("{task.id}") shows the whole report.'
        return (
            f"It takes {said(value, CYCLES)}; {par}. {_where_cycles_go(report)}".strip(),
            f"{golf.next or _less(report, _steps(task, defined))} {whole}",
        )
    if task.engine:
        of_what = other_engines.moved(task, task.build(defined), task.arguments()[0], task.chips[0])[1]
        return f"It moves {value:,} bytes of HBM; {par}. {of_what}", golf.next or _FEWER
    walk = grid.walk(task.build(defined), *task.arguments()[0])
    outside = around(walk)
    if outside and sum(outside.values()) > max(row.bytes for row in cost.traffic(walk)):
        most = max(outside, key=outside.get)
        why = f"Outside the kernels, {most} moves {outside[most]:,} of them."
        next = "let an index map say where each block lies, so that nothing has to be rearranged first."
    elif len(walk.calls) > 1:
        why = f"There are {len(walk.calls)} kernels: what one passes to the next is written to HBM and read again."
        next = "let one kernel do both while a block is in VMEM."
    else:
        most = judges.most_traffic(walk)
        why, next = most.what, most.next
    once = f"Moving every array once would take {least(task):,}."
    return f"It moves {value:,} bytes between HBM and the chip; {par}. {once} {why}", next


def _steps(task: Exercise, defined: object) -> int | None:
    """Return the grid steps of an answer that is one kernel with all arrays in blocks; None for any other."""
    try:
        (call,) = grid.walk(task.build(defined), *scored_at(task)).calls
    except (ValueError, grid.UnreadableCall):  # no kernel, or several
        return None
    return call.steps if all(each.pipelined for each in (*call.inputs, *call.outputs)) else None


def _less(report: compiler.Report | None, steps: int | None) -> str:
    """Suggest what to try against the part that takes the most cycles."""
    most = max(report.time_split, key=report.time_split.get) if report is not None and report.time_split else ""
    if most == "DMA wait" and steps == 1:
        return "with one step, the copy in, the work and the copy out run one after another: try two steps."
    if most == "DMA wait" and (steps or 0) > _FEW:
        return f"each of {steps:,} steps waits for its copies' latency, however small its block: try fewer steps."
    if most in ("XLU", "EUP", "MXU"):
        return f"the core waits for the {most}'s results: try more rows, or more independent work, at a time."
    return "reduce the largest of these."


def _where_cycles_go(report: compiler.Report | None) -> str:
    """Return a sentence on where a report's cycles go: waiting, units, and what HBM alone would take."""
    if report is None or not report.time_split:
        return ""
    total, split = sum(report.time_split.values()), sorted(report.time_split.items(), key=lambda item: -item[1])
    goes = ", ".join(f"{name} {text.percent(cycles / total)}" for name, cycles in split[:3])
    full = report.hbm_seconds
    floor = f" Its HBM traffic alone takes {text.duration(full)} at full speed." if full else ""
    return f"They go to: {goes}.{floor}"
