"""Why numbers may be wrong: rules, asked in order. Each looks at a Finding and says (why, what to try) or nothing."""

from collections.abc import Callable

import numpy as np

from course_lib import grid
from course_lib.judges import copies, needs, patterns, precision
from course_lib.judges.finding import Finding
from course_lib.judges.memory import Read, stale_read, unwritten_read
from course_lib.judges.verdict import Complaint


def because(found: Finding) -> Complaint:
    """The first rule that fits; where none does, how to find out."""
    for rule in _RULES:
        if said := rule(found):
            return said
    return Complaint(
        "", "compute the first wrong element by hand, and compare with what the kernel reads at that step."
    )


def _outside(found: Finding) -> Complaint | None:
    """An index map that asks for a block the array does not have."""
    for call in found.walk.calls:
        for operand in call.operands:
            if len(steps := operand.outside()):
                block = tuple(operand.indices[steps[0]].tolist())
                return Complaint(
                    f"At step {call.step(int(steps[0]))} the index map of {operand.name} asks for block {block}; the "
                    f"array has {' x '.join(map(str, operand.blocks))} blocks of shape {operand.block_shape}.",
                    "an index map returns block numbers, counted from 0: not element numbers, and none past the last "
                    "block.",
                )
    return None


def _never_copied(found: Finding) -> Complaint | None:
    """Memory that is read while the copy into it is on its way."""
    return copies.early_use(found.walk)


def _read_first(found: Finding) -> Complaint | None:
    """Memory that is read before anything has been written there."""
    if not found.unwritten[found.first]:
        return None
    for call in found.walk.calls:
        if (read := unwritten_read(call)) is not None:
            return _unwritten(call, read)
    return None


def _unwritten(call: grid.Call, read: Read) -> Complaint:
    when = f" at step {call.step(read.step)}" if call.steps > 1 else ""
    what = f"{read.ref} is read{when} before anything has been written to it; `+=` reads too."
    if read.written_at is not None and read.written_at > read.step:
        what = f"{read.ref} is read{when}, and only at step {call.step(read.written_at)} is it written: too late."
    output = next((o for o in call.outputs if o.name == read.ref), None)
    if call.steps == 1 or (output is not None and output.changes.all()):
        cure = f"write {read.ref} with =, not with +=."
    elif output is not None:
        cure = f"set {read.ref} at the first step of each of its blocks, under pl.when, before anything is added."
    else:
        cure = f"set {read.ref} to zero when the reduction begins: @pl.when(pl.program_id(axis) == 0)."
    return Complaint(what, cure)


def _left_over(found: Finding) -> Complaint | None:
    """Sums of another output block that are still in the scratch."""
    for call in found.walk.calls:
        if (read := stale_read(call)) is not None and len(call.outputs):
            return Complaint(
                f"At step {call.step(read.step)}, where a new output block begins, {read.ref} holds what step "
                f"{call.step(read.left_by)} has left there.",
                f"set {read.ref} to zero at the first step of every output block: when the reduction index is 0, not "
                "at the first step of the whole grid.",
            )
    return None


def _index_map(found: Finding) -> Complaint | None:
    """An input block that the output block depends on, and that its steps never read."""
    if found.made_by is None or not len(found.steps):
        return None
    call, output = found.made_by
    if len(found.walk.calls) > 1:  # what the kernel takes is then not what the reference takes
        return None
    return needs.wrong_block(call, output, found.first, found.reference, found.args, found.number)


def _past_the_edge(found: Finding) -> Complaint | None:
    """NaN that comes from beyond the end of an array whose last block is not full."""
    if not found.unwritten[found.first] or found.made_by is None:
        return None
    for call in found.walk.calls:
        for operand in call.inputs:
            ragged = [a for a, (n, b) in enumerate(zip(operand.shape, operand.block_shape, strict=True)) if n % b]
            if operand.pipelined and ragged and not any(operand.element):
                axis = ragged[0]
                return Complaint(
                    f"The last block of {operand.name} reaches past the array: axis {axis} has {operand.shape[axis]} "
                    f"elements, in blocks of {operand.block_shape[axis]}, and what lies beyond is garbage, NaN here.",
                    "replace it before you sum or compare: jnp.where(inside, x, 0), `inside` from broadcasted_iota. "
                    "Multiplying by 0 does not help, for NaN * 0 is NaN."
                    + (" That is what this kernel does." if _multiplies_by_a_mask(call) else ""),
                )
    return None


def _multiplies_by_a_mask(call: grid.Call) -> bool:
    """Whether the kernel turns a bool into a number and multiplies with it."""
    masks = set()
    for eqn in grid.equations(call.kernel):
        if eqn.primitive.name == "mul" and any(id(v) in masks for v in eqn.invars):
            return True
        from_mask = any(id(v) in masks for v in eqn.invars)
        converts = eqn.primitive.name == "convert_element_type" and eqn.invars[0].aval.dtype == np.bool_
        if converts or (from_mask and eqn.primitive.name in ("broadcast_in_dim", "reshape", "convert_element_type")):
            masks |= set(map(id, eqn.outvars))
    return False


def _never_written(found: Finding) -> Complaint | None:
    if not found.unwritten[found.first]:
        return None
    return Complaint(
        "",
        "that is memory nothing has written: a buffer starts as NaN (an integer one as its largest value). "
        "Check that every element of every output block is written.",
    )


# The order is that of certainty: what is read off the grid and the code goes before what the numbers look like.
_RULES: tuple[Callable[[Finding], Complaint | None], ...] = (
    _outside,
    _never_copied,
    _read_first,
    _index_map,
    _left_over,
    _past_the_edge,
    _never_written,
    precision.through_float32,
    precision.too_few_bits,
    patterns.an_argument,
    patterns.transposed,
    patterns.shifted,
    patterns.scaled,
    patterns.swallowed_nan,
)
