"""The cycles that a kernel's core takes, not counting waits for copies."""

import functools
from collections.abc import Callable

from course_lib import compiler, environment


def cycles(fn: Callable, *args) -> int | None:
    """Return the cycles, predicted (compiler), in which the core does not wait for copies, or None."""
    return _of_core(compiler.compile_tpu(fn, *args))


def _of_core(report: compiler.Report) -> int | None:
    return None if report.cycles is None else report.cycles - report.time_split.get("DMA wait", 0)


def at_most(
    most: Callable[[], int], said: str, next: str, *args, build: Callable = lambda defined: defined
) -> Callable:
    """Return a demand on what the learner defined: at most ``most()`` cycles of the core with ``args``.

    ``said`` is the verdict, with the placeholders ``{mine}`` and ``{most}``; ``next`` says what to try; ``build`` is
    the exercise's. Without a compiler nothing is demanded.
    """

    def keeps_to_it(defined):
        try:
            report, allowed = compiler.compile_tpu(build(defined), *args), most()
        except compiler.Unavailable:
            return None
        mine = _of_core(report)
        if mine is None or mine <= allowed:
            return None
        steps = report.steps or 1
        first = f"your grid has {steps} steps, and each adds scalar code of its own, so try one block. If that is not "
        first += "enough, "
        return said.format(mine=f"{mine:,}", most=f"{allowed:,}"), (first if steps > 1 else "") + next

    return keeps_to_it


def won(beside: str, others: Callable[[], int], *args, build: Callable = lambda defined: defined) -> Callable:
    """Return a function of what the learner defined that compares its cycles with ``args`` to those of ``others``.

    ``beside`` names the kernel that takes those. Without a compiler the text is empty.
    """

    def words(defined):
        if environment.building() or (environment.under_nbval() and not environment.under_a_grader()):
            return ""  # cycles depend on libtpu's version, so a stored or compared line has none
        try:
            mine, theirs = cycles(build(defined), *args), others()
        except compiler.Unavailable:
            return ""
        return "" if mine is None else f"the core takes {mine:,} cycles, predicted (compiler); {beside} {theirs:,}"

    return words


@functools.cache
def cycles_once(fn: Callable, *args) -> int:
    """Return the same as ``cycles``, and compile each kernel only once."""
    return cycles(fn, *args)
