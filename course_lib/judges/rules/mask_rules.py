"""What is wrong with a mask that lets elements past the end of an array through: how far it reaches, and why."""

from __future__ import annotations

import dataclasses

import numpy as np

from course_lib import grid
from course_lib.judges.reading import flow, masking, order
from course_lib.judges.reading.flow import Op
from course_lib.judges.reading.mask_reach import Masks
from course_lib.judges.verdict import Complaint
from course_lib.judges.wrong_outputs.finding import Finding

_NEUTRAL = {"reduce_max": (-np.inf, "maximum"), "reduce_min": (np.inf, "minimum"), "reduce_sum": (0.0, "sum")}
_MOVES = {"broadcast_in_dim", "reshape", "squeeze", "convert_element_type", "copy"}
_ALONG = {(2, 0): "row", (2, 1): "column"}


def too_far(call: grid.Call, operand: grid.Operand, axis: int, steps: np.ndarray) -> tuple[int, Complaint] | None:
    """Return the first step at which a mask lets through what lies past the end along ``axis``, and what to say.

    None if the block does not extend past the end at ``steps``, or if nothing is known of its masks.
    """
    for step in steps.tolist():
        inside = _inside(operand, axis, step)
        if inside.all():
            continue
        for kept, asked in Masks(call, operand, step).let_through(axis):
            if (kept & ~inside).any():
                return step, _complaint(call, operand, axis, kept, inside, asked)
    return None


def filled(found: Finding) -> Complaint | None:
    """Report an infinity that a mask puts in, and that the sum or the maximum behind it cannot get rid of."""
    if not np.isinf(found.got.astype(np.float64)[found.first]):
        return None
    for call in found.walk.calls:
        ops, _, _ = flow.operations(call.kernel)
        made = {output: op for op in ops for output in op.outputs}
        for op in (op for op in ops if op.name in _NEUTRAL):
            neutral, word = _NEUTRAL[op.name]
            fill = _fill(made, op.inputs[0])
            if fill is not None and np.isinf(fill) and fill != neutral:
                return Complaint(
                    f"The kernel puts {fill:g} where its mask hides an element, and then takes the {word}.",
                    f"a hidden element must not change the {word}: put {neutral:g} there.",
                )
    return None


def _fill(made: dict[int, Op], value: int | None) -> float | None:
    """Return the constant that a jnp.where puts in the place of elements; None if ``value`` comes from no such one."""
    op = made.get(value)
    while op is not None and op.name in _MOVES:
        op = made.get(op.inputs[0])
    if op is None or op.name != "select_n":
        return None
    for case, atom in zip(op.inputs[1:], op.eqn.invars[1:], strict=True):
        constant = atom if case is None else _literal(made, case)
        if hasattr(constant, "val"):
            return float(constant.val)
    return None


def _literal(made: dict[int, Op], value: int | None):
    """Return the literal that a value is made of by spreading it out, or None."""
    op = made.get(value)
    while op is not None and op.name in _MOVES:
        if op.inputs[0] is None:
            return op.eqn.invars[0]
        op = made.get(op.inputs[0])
    return op.eqn if op is not None and op.name == flow.LITERAL else None


def _inside(operand: grid.Operand, axis: int, step: int) -> np.ndarray:
    """Return bool[block]: which places of the block along ``axis`` lie inside the array."""
    place = np.arange(int(operand.block_shape[axis])) + operand.starts[step, axis]
    return (place >= 0) & (place < operand.shape[axis])


def _complaint(call: grid.Call, operand: grid.Operand, axis: int, kept, inside, asked: set[int]) -> Complaint:
    number, right = int(kept.sum()), int(inside.sum())
    what = _ALONG.get((len(operand.shape), axis), "element") + "s"
    through = f"all {number} {what}" if kept.all() else f"{number} {what}"
    return Complaint(
        f"The mask of {operand.name} lets {through} of that block through, but only {right} of them "
        f"{'lies' if right == 1 else 'lie'} inside the array.",
        _cure(call, operand, axis, number - right, asked),
    )


def _cure(call: grid.Call, operand: grid.Operand, axis: int, excess: int, asked: set[int]) -> str:
    block, length = int(operand.block_shape[axis]), operand.shape[axis]
    follows = [n for n, steps in enumerate(call.grid) if steps > 1 and order.depends_on(call, _along(operand, axis), n)]
    before = f"pl.program_id({follows[0]}) * {block} + " if len(follows) == 1 else "the start of the block + "
    compare = f"compare {before}the index in the block along axis {axis} with {length}."
    runs = masking.mask_axes(call, operand)
    if runs and axis not in runs:
        return f"the mask runs along axis {min(runs)} of the block, but the array ends along axis {axis}: {compare}"
    if excess == 1:
        return f"the elements inside the array have indices below {length}: check for a <= that should be <."
    if follows and not asked:
        return f"the mask does not use pl.program_id, so it is the same at every step: {compare}"
    if len(follows) == 1 and follows[0] not in asked:
        return f"the block moves with axis {follows[0]} of the grid, but the mask uses axis {min(asked)}: {compare}"
    return compare


def _along(operand: grid.Operand, axis: int) -> grid.Operand:
    """Return the operand with the block index along one axis alone."""
    return dataclasses.replace(operand, indices=operand.indices[:, axis : axis + 1])
