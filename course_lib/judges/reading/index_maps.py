"""Index maps that ask for a block outside the array."""

import numpy as np

from course_lib import grid, text
from course_lib.judges.reading import looked_up
from course_lib.judges.verdict import Complaint

_PLACES = ("first", "second", "third", "fourth", "fifth")


def outside(call: grid.Pipeline) -> Complaint | None:
    """Report the first block that an index map asks for outside the array."""
    for operand in call.operands:
        if not len(steps := operand.outside()):
            continue
        block = tuple(operand.indices[steps[0]].tolist())
        what = (
            f"At step {call.step(int(steps[0]))} the index map of {operand.name} asks for block {block}, but the "
            f"array has {' x '.join(map(str, operand.blocks))} blocks of shape {operand.block_shape}."
        )
        axis = next((n for n, (b, most) in enumerate(zip(block, operand.blocks, strict=True)) if not 0 <= b < most), 0)
        is_no_element = not 0 <= block[axis] < operand.shape[axis]  # else it may be an element's number, not a block's
        if is_no_element and (where := looked_up.entry(call, block[axis], operand.indices[:, axis], steps[0])):
            last = block[axis] == operand.blocks[axis]
            return Complaint(f"{what} The {block[axis]} comes from {where}.", looked_up.advice(where, last))
        stops = isinstance(call, grid.Call) and _is_past_the_memory(operand, block)
        return Complaint(f"{what} A v5e halts there." if stops else what, _cure(call, operand))
    return None


def _is_past_the_memory(operand: grid.Operand, block: tuple[int, ...]) -> bool:
    """Whether a block begins behind the last byte of its array, where libtpu's program halts the core.

    The program compares addresses (shalt.err before each copy, libtpu 0.0.48.1), not block numbers. A block past the
    end of a row lies at the beginning of the next rows, so a v5e copies it.
    """
    if operand.memory_space != "vmem" or any(operand.element):
        return False
    past = next((axis for axis, (b, n) in enumerate(zip(block, operand.blocks, strict=True)) if b >= n), None)
    return past is not None and all(n == 1 for n in operand.blocks[:past])


def _cure(call: grid.Pipeline, operand: grid.Operand) -> str:
    if operand.indices.min() < 0:
        return (
            "a negative block index does not count from the end, as it would in NumPy: the last of n blocks is n - 1."
        )
    if wrong := _wrong_grid_axis(call, operand):
        return _in_the_words_of_the_map(call, operand, *wrong)
    if all(b <= n for b, n in zip(operand.indices.max(axis=0), operand.blocks, strict=True)):
        return "blocks are counted from 0: check whether the grid is one step too long, or an index has an extra + 1."
    return "an index map returns block indices, counted from 0, not element indices, and none past the last block."


def _wrong_grid_axis(call: grid.Pipeline, operand: grid.Operand) -> tuple[int, int, int | None] | None:
    """Return (array axis, grid axis its block number follows, grid axis it fits); None if none follows a wrong axis.

    The last is None if there is only one block, and no axis of one step.
    """
    if not call.grid:
        return None
    places = np.stack(np.unravel_index(np.arange(call.steps), call.grid), axis=-1)
    follows = [
        [a for a in range(len(call.grid)) if call.grid[a] > 1 and (numbers == places[:, a]).all()]
        for numbers in operand.indices.T
    ]
    for axis, (blocks, followed) in enumerate(zip(operand.blocks, follows, strict=True)):
        if operand.indices[:, axis].max() < blocks:
            continue
        fitting = [a for a, steps in enumerate(call.grid) if steps == blocks and a not in followed]
        if followed and (fitting or blocks == 1):
            taken = {a for other in follows[:axis] + follows[axis + 1 :] for a in other}
            return axis, followed[0], min(fitting, key=lambda a: (a in taken, a != axis, a), default=None)
    return None


def _in_the_words_of_the_map(call, operand: grid.Operand, axis: int, used: int, fitting: int | None) -> str:
    """Say "x_ref's map returns i first. i goes 0 to 3; the array has 3 blocks there. ..." in the map's letters."""
    i, blocks = _letter(operand, used), text.counted(operand.blocks[axis], "block")
    place = _PLACES[axis] if axis < len(_PLACES) else f"as value {axis + 1}"
    said = (
        f"{operand.name}'s map returns {i} {place}. {i} runs from 0 to {call.grid[used] - 1}, but the array has "
        f"{blocks} there."
    )
    if fitting is None:
        return f"{said} The only valid index is 0."
    j = _letter(operand, fitting)
    return f"{said} {j} runs from 0 to {call.grid[fitting] - 1}: did you mean {j}?"


def _letter(operand: grid.Operand, axis: int) -> str:
    """Return the index map's name for the index along an axis of the grid."""
    return operand.letters[axis] if axis < len(operand.letters) else f"index {axis} of the grid"
