"""What a kernel keeps the core busy with, beside waiting for copies."""

import functools
from collections.abc import Callable

from course_lib import compiler


def cycles(fn: Callable, *args) -> int | None:
    """Cycles, predicted (compiler), in which the core does not wait for copies; None where there are none."""
    report = compiler.compile_tpu(fn, *args)
    return None if report.cycles is None else report.cycles - report.time_split.get("DMA wait", 0)


def at_most(
    most: Callable[[], int], said: str, next: str, *args, build: Callable = lambda defined: defined
) -> Callable:
    """A demand on what the learner defined: at most so many cycles of the core with ``args``.

    ``said`` is what is asked for, with ``{mine}`` and ``{most}``; ``build`` is the exercise's. Nothing is demanded
    where there is no compiler.
    """

    def keeps_to_it(defined):
        try:
            mine, allowed = cycles(build(defined), *args), most()
        except compiler.Unavailable:
            return None
        if mine is None or mine <= allowed:
            return None
        return said.format(mine=f"{mine:,}", most=f"{allowed:,}"), next

    return keeps_to_it


@functools.cache
def cycles_once(fn: Callable, *args) -> int:
    """The same of a kernel of ours, asked once."""
    return cycles(fn, *args)
