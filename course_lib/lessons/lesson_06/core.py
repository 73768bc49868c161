"""The cycles of a kernel's core, without its waits for copies."""

import functools
from collections.abc import Callable

from course_lib import compiler


def cycles(fn: Callable, *args) -> int | None:
    """Return the cycles, predicted (compiler), in which the core does not wait for copies; None if there are none."""
    report = compiler.compile_tpu(fn, *args)
    return None if report.cycles is None else report.cycles - report.time_split.get("DMA wait", 0)


def at_most(
    most: Callable[[], int], said: str, next: str, *args, build: Callable = lambda defined: defined
) -> Callable:
    """Return a demand on what the learner defined: at most ``most()`` cycles of the core with ``args``.

    ``said`` is the text of the demand, with ``{mine}`` and ``{most}``; ``build`` is the exercise's. Without a compiler
    nothing is demanded.
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
    """Return the same for a kernel of ours, compiled only once."""
    return cycles(fn, *args)
