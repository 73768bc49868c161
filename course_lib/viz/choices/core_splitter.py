"""A widget in which the reader marks the axes of a kernel's grid, and sees which of two cores runs which steps."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from course_lib import grid, text
from course_lib.viz.choices.choices import Choices, Group, State
from course_lib.viz.common import draw

MOST_AXES, MOST_STEPS = 3, 64
_MARKS = ("arbitrary", "parallel")
_SIDE, _LEFT, _GAP = 46, 64, 5  # pixels: of a step, of the words to its left, between two steps
_FILL = {"own": "#cfe3f1", "again": "#fdf3d8", "shared": "#f6d5c3"}


class Shared(NamedTuple):
    """What two cores do: the steps of each, in order, and which of them write a block that the other writes, too."""

    cores: grid.Cores
    both: np.ndarray  # bool[S]: the step's output block is written by both cores, although neither repeats a step
    block: str  # such a block, with the name of its output; "" if there is none


def core_splitter(fn: Callable, *args) -> Choices:
    """Show which of a v5p's two cores runs which steps of the kernel in ``fn(*args)``, as its axes are marked.

    The reader marks each axis "parallel" or "arbitrary"; at first the marks are the kernel's own. Steps are divided as
    libtpu does (``grid.cores``). An output block that both cores write is pointed out. Nothing is run. ``args`` are
    arrays or ``jax.ShapeDtypeStruct``s. Raises grid.UnreadableCall (a ValueError) if there is no readable pallas_call,
    and ValueError for a grid of more than 3 axes or 64 steps.
    """
    walk = grid.walk(fn, *args, chip="v5p")
    if not walk.calls:
        raise grid.UnreadableCall(
            "core_splitter: this function has no pallas_call to show. Pass one that calls a kernel."
        )
    call = walk.calls[0]
    if not 1 <= len(call.grid) <= MOST_AXES or not 1 <= call.steps <= MOST_STEPS:
        raise ValueError(
            f"core_splitter: the grid of {call.name} is {call.grid!r}. It may have 1 to {MOST_AXES} axes and at most "
            f"{MOST_STEPS} steps. Try smaller arguments."
        )
    groups = [Group(f"axis {axis} ({text.counted(size, 'step')})", _MARKS) for axis, size in enumerate(call.grid)]

    def state(*numbers: int) -> State:
        shared = divided(call, [number == 1 for number in numbers])
        return State(_drawn(call, shared), said(call, shared))

    return Choices(f"The grid of {call.name} on two cores", groups, state, [int(marked) for marked in call.parallel])


def divided(call: grid.Call, parallel: Sequence[bool]) -> Shared:
    """Divide the steps of a kernel between two cores, and find the output blocks that both write."""
    cores = grid.cores(call.grid, parallel)
    both, block = np.zeros(call.steps, bool), ""
    second = np.setdiff1d(cores.second, cores.first)  # without those that it repeats
    for output in call.outputs:
        if not output.pipelined:
            continue
        blocks, number = np.unique(output.indices, axis=0, return_inverse=True)
        number = number.reshape(-1)
        common = np.intersect1d(number[cores.first], number[second])
        both |= np.isin(number, common)
        if len(common) and not block:
            block = f"block {tuple(blocks[common[0]].tolist())} of {output.name}"
    return Shared(cores, both, block)


def said(call: grid.Call, shared: Shared) -> str:
    """Describe what each core runs, and what is wrong with it, in sentences."""
    (first, second), steps = shared.cores, text.counted(call.steps, "step")
    if not len(second):
        return f"Core 0 runs all {steps}, and core 1 has nothing to do."
    again = np.intersect1d(first, second)
    if not len(again):
        runs = f"Each core runs {len(first)} of {steps}."
    else:
        runs = f"Each core runs {len(first)} steps, although the grid has only {call.steps}."
        which = f"step {call.step(int(again[0]))}" if len(again) == 1 else text.counted(len(again), "step")
        runs += (
            f" Core 1 repeats {which} of core 0, because no axis that the cores may share has an even number of steps."
        )
    if shared.block:
        runs += f" Both write {shared.block}: the last one to write wins, and what the other has written is lost."
    return runs


def _drawn(call: grid.Call, shared: Shared) -> draw.Panel:
    """Draw the steps of each core in rows, in the order in which it runs them."""
    per_row = int((draw.INNER - _LEFT) // (_SIDE + _GAP))
    first, second = shared.cores
    body, top = "", 0.0
    for number, steps in enumerate((first, second)):
        body += draw.label(0, top + 20, f"core {number}", _LEFT, size=14, bold=True)
        if not len(steps):
            body += draw.label(_LEFT, top + 20, "idle", 200, size=14, fill=draw.MUTED)
        again = np.isin(steps, first) if number else np.zeros(len(steps), bool)
        for place, step in enumerate(steps.tolist()):
            kind = "again" if again[place] else "shared" if shared.both[step] else "own"
            row, column = divmod(place, per_row)
            body += _step(_LEFT + column * (_SIDE + _GAP), top + row * 36, call.step(step), kind)
        top += 36 * max(1, -(-len(steps) // per_row)) + 14
    return draw.Panel(body + draw.moved(_legend(), 0, top), top + 22)


def _step(x: float, y: float, step: tuple[int, ...], kind: str) -> str:
    body = draw.box(x, y, _SIDE, 30, _FILL[kind], stroke=draw.MUTED)
    if kind == "shared":
        body += draw.hatch(x, y, _SIDE, 30, draw.RED, gap=10)
    words = ",".join(map(str, step))
    return body + draw.label(x + _SIDE / 2, y + 20, words, _SIDE, size=13, anchor="middle", halo=kind == "shared")


def _legend() -> draw.Panel:
    entries = [("own", "a step of the grid"), ("again", "repeated"), ("shared", "both cores write its output block")]
    body, left = "", 0.0
    for kind, words in entries:
        body += draw.box(left, 2, 22, 16, _FILL[kind], stroke=draw.MUTED)
        body += draw.hatch(left, 2, 22, 16, draw.RED) if kind == "shared" else ""
        body += draw.label(left + 30, 15, words, 260, size=14, fill=draw.MUTED)
        left += 56 + draw.width_of(words, 14)
    return draw.Panel(body, 22)
