"""Rules about output blocks that are looked up in a prefetched list: no entry leads there, or several do."""

import numpy as np

from course_lib import grid
from course_lib.judges.reading import memory
from course_lib.judges.verdict import Complaint
from course_lib.judges.wrong_outputs.finding import Finding


def no_entry(found: Finding) -> Complaint | None:
    """Report an output block that no entry of a list leads to: a row without blocks, an empty group."""
    if (made := _looked_up(found)) is None or len(found.steps):
        return None
    call, output = made
    at = [f // b for f, b in zip(found.first, output.block_shape, strict=True)]
    if any(len(set(column)) == 1 and column[0] != b for column, b in zip(output.indices.T.tolist(), at, strict=True)):
        return None  # along an axis that no list has to do with
    lists = " or ".join(o.name for o in call.operands if o.role == "prefetch")
    visited = len(np.unique(output.indices, axis=0))
    return Complaint(
        f"The index map looks blocks up in {lists}, and no entry points to this one: the {call.steps} steps visit "
        f"{visited} blocks.",
        "an empty block needs an entry too, so that one step writes its values; or fill the output beforehand, "
        "through an input whose memory it shares: input_output_aliases.",
    )


def come_back_to(found: Finding) -> Complaint | None:
    """Report a block whose entries are not consecutive, because the list is not sorted."""
    if (made := _looked_up(found)) is None or not (np.diff(found.steps) > 1).any():
        return None
    call, output = made
    gap = int(np.argmax(np.diff(found.steps) > 1))
    left, back = (call.step(int(found.steps[n])) for n in (gap, gap + 1))
    other = tuple(output.indices[found.steps[gap] + 1].tolist())
    return Complaint(
        f"The entries that point to this block are not consecutive: after step {left} {output.name} moves on to block "
        f"{other}, and at step {back} it comes back. The steps in between belong to other blocks.",
        "sort the list by output block; or keep the whole output in VMEM, and initialize each of its blocks once.",
    )


def shared_by_rows(found: Finding) -> Complaint | None:
    """Report a block that several steps write whole, each for some of its rows, so that the others are lost."""
    if (made := _looked_up(found)) is None or len(found.steps) < 2:
        return None
    call, output = made
    if memory.known_uses(call) is None or memory.carries(call, found.steps) or found.is_nan_by_garbage:
        return None
    start = output.starts[found.steps[-1]]
    block = tuple(slice(s, s + b) for s, b in zip(start.tolist(), output.block_shape, strict=True))
    wrong = found.wrong[block]
    rows = wrong.reshape(*wrong.shape[:-1], -1).any(-1).reshape(-1, wrong.shape[-2]).any(0) if wrong.ndim > 1 else wrong
    if rows.all():
        return None
    first, last = (call.step(int(found.steps[n])) for n in (0, -1))
    gone = np.flatnonzero(rows)
    return Complaint(
        f"Steps {first} to {last} share this block, and each writes all of it, so only what step {last} computes "
        f"remains: rows {gone[0]} to {gone[-1]} of the block are wrong, and others are right.",
        f"a step must write only its own rows and keep the rest: {output.name}[...] = jnp.where(mine, new, "
        f"{output.name}[...]). The first of these steps has nothing to keep.",
    )


def written_late(found: Finding) -> Complaint | None:
    """Report an output that is written at the step after the last one that has the block."""
    if (made := _looked_up(found)) is None or not len(found.steps):
        return None
    call, output = made
    if memory.writes(call, output.name, found.steps)[0] or (uses := memory.known_uses(call)) is None:
        return None
    last = int(found.steps[-1])
    writes = {s for use in uses if use.ref == output.name and use.kind == "write" for s in use.steps.tolist()}
    if last + 1 not in writes:
        return None
    start = output.starts[last + 1].tolist()
    if not found.wrong[tuple(slice(s, s + b) for s, b in zip(start, output.block_shape, strict=True))].any():
        return None  # what that step writes belongs to its own block
    other = tuple(output.indices[last + 1].tolist())
    return Complaint(
        f"Step {call.step(last)} is the last that holds this block, but {output.name} is written one step later, at "
        f"{call.step(last + 1)}, where it is already block {other}.",
        f"look one entry ahead: store when the next entry points to another block, at step {call.step(last)}.",
    )


def _looked_up(found: Finding) -> tuple[grid.Call, grid.Operand] | None:
    """Return the kernel that makes the output, if it has prefetched lists."""
    return found.made_by if found.made_by is not None and found.made_by[0].scalars else None
