"""What the order of a grid does to its output blocks: revisits, and blocks shared by two cores."""

import contextlib
import math
from collections.abc import Iterator

import numpy as np

from course_lib import grid
from course_lib.grid import jaxprs
from course_lib.judges.reading import memory
from course_lib.judges.verdict import Complaint


def revisit(walk: grid.Walk) -> Complaint | None:
    """Report the first output block that the grid leaves and revisits; None if there is none."""
    in_hbm = _nothing_follows(walk.jaxpr.jaxpr)
    return next((said for call in walk.calls if (said := revisit_of(call, in_hbm and call.times == 1))), None)


def revisit_in_a_pipeline(walk: grid.Walk) -> Complaint | None:
    """Report the same of pipelines in the kernels' bodies, whose two buffers keep both blocks if there are only two."""
    return next((said for pipeline in pipelines(walk) if (said := revisit_of(pipeline))), None)


def pipelines(walk: grid.Walk) -> list[grid.Pipeline]:
    """Return the pipelines inside the kernels of a function, as far as they can be read."""
    found = []
    for call in walk.calls:
        with contextlib.suppress(grid.UnreadableCall):
            found += grid.inner_pipelines(call) if grid.has_copies_by_hand(call) else []
    return found


def revisit_of(call: grid.Pipeline, in_hbm: bool = True) -> Complaint | None:
    """Report the same of one kernel, or of a pipeline inside one; what is lost goes before what is kept by luck.

    ``in_hbm``: its outputs surely lie in HBM. A pipeline has buffers of its own wherever its outputs lie.
    """
    for output in call.outputs:
        found = grid.returns(output) if output.pipelined else []
        if found:
            again = next((one for one in found if not one.kept), found[0])
            left, back = call.step(again.before.last), call.step(again.visit.first)
            block = f"block {again.visit.block} of {output.name}"
            what = f"Output {block} left VMEM after step {left}, and the grid came back to it at step {back}"
            if not in_hbm:
                what = f"The grid leaves output {block} after step {left} and comes back to it at step {back}"
            there = _what_is_found(call, output, again) if in_hbm else _what_may_be_found(call, output, again)
            return Complaint(f"{what}{there}", _cure(call, output))
    return None


def _nothing_follows(jaxpr) -> bool:
    """Whether no operation uses what a kernel makes, so that its outputs are results, which XLA puts into HBM.

    Between two operations XLA keeps small arrays in VMEM, where all blocks of an output lie side by side.
    """
    kernels = [e for e in jaxpr.eqns if e.primitive.name in grid.KERNELS or jaxprs.holds_a_kernel(e)]
    made = {v for eqn in kernels for v in eqn.outvars}
    if any(jaxprs.is_variable(v) and v in made for eqn in jaxpr.eqns for v in eqn.invars):
        return False
    calls = [eqn for eqn in kernels if eqn.primitive.name not in grid.KERNELS]
    return all(_nothing_follows(inner) for eqn in calls for inner in jaxprs.inside(eqn))


def _what_is_found(call: grid.Pipeline, output: grid.Operand, again: grid.Return) -> str:
    """Say what lies in the buffer of an output block that is revisited. ``grid.visits`` says which buffer that is."""
    collects = _collects(call, output)
    if not again.kept:
        left = f"what step {call.step(again.found.last)} left of block {again.found.block}."
        if collects:
            return f": the running sum is gone. The buffer now holds {left}"
        return f". It is not fetched again: whatever the kernel does not write at this visit is {left}"
    if not collects:
        return (
            ". It is not fetched again: whatever the kernel does not write at this visit is there only by luck, "
            "because the block happens to get the buffer that it left."
        )
    why = "the block gets the buffer that it left."
    if len(np.unique(output.indices, axis=0)) == 2:
        why = f"there are two blocks and two buffers, so {why} With three blocks it would be lost."
    return f". Its sum is still there by luck: {why} Nothing guarantees it."


def _what_may_be_found(call: grid.Pipeline, output: grid.Operand, again: grid.Return) -> str:
    """Say the same if the output may lie in HBM and have two buffers, or lie whole in VMEM."""
    left = f"what step {call.step(again.found.last)} left of block {again.found.block}"
    if again.kept:
        in_hbm = "the block happens to get the buffer that it left, which still holds its values"
    elif _collects(call, output):
        in_hbm = f"the running sum is gone: the buffer now holds {left}"
    else:
        in_hbm = f"it finds {left}"
    return (
        f": what it finds there is undefined. If {output.name} lies in HBM, {in_hbm}. If XLA keeps all of it in VMEM "
        "for the next operation, each block happens to have its own memory and keeps its values."
    )


def shared_block(walk: grid.Walk) -> Complaint | None:
    """Report two steps that write one output block and that two cores may run at once; None if there are none.

    An output that nobody reads is left out: there it does not matter which core is last.
    """
    return next((_shared(*found) for found in _shared_blocks(walk) if found[2] not in grid.unread(walk)), None)


def shared_and_unread(walk: grid.Walk) -> str:
    """Return a remark on the first output block that two cores write and nobody reads; "" if there is none."""
    found = next((found for found in _shared_blocks(walk) if found[2] in grid.unread(walk)), None)
    return (
        f"{_shared(*found).what} Nothing reads {found[2].name} after the kernel, so this is not an error."
        if found
        else ""
    )


def _shared_blocks(walk: grid.Walk) -> Iterator[tuple[grid.Call, int, grid.Operand, tuple[int, int]]]:
    """Yield (kernel, parallel axis, output, two steps along that axis that write one block of the output)."""
    for call, axis in _parallel_axes(walk):
        for output in call.outputs:
            if output.pipelined and (pair := _same_block(call, output, axis)):
                yield call, axis, output, pair


def _shared(call: grid.Call, axis: int, output: grid.Operand, pair: tuple[int, int]) -> Complaint:
    return Complaint(
        f'Axis {axis} of the grid is marked "parallel", so two cores may share it, but steps {call.step(pair[0])} and '
        f"{call.step(pair[1])} both write block {tuple(output.indices[pair[0]].tolist())} of {output.name}.",
        f'mark axis {axis} "arbitrary": an axis may be "parallel" only if each step along it has its own output block.',
    )


def repeated_in_place(walk: grid.Walk) -> Complaint | None:
    """Report a step that a chip with two cores runs twice, if it reads a block that it has overwritten the first time.

    ``grid.cores`` says which steps these are. In the compiler's program for a v5p the second run is complete: it copies
    the block in, and writes it back.
    """
    for call in walk.calls:
        first, second = grid.cores(call.grid, call.parallel)
        for step in np.intersect1d(first, second)[:1].tolist():
            for output in call.outputs:
                given = next((each for each in call.inputs if each.name == output.aliases), None)
                if given is not None and _reads_what_it_writes(call, given, output, step):
                    return _repeated(call, given, output, step)
    return None


def _reads_what_it_writes(call: grid.Call, given: grid.Operand, output: grid.Operand, step: int) -> bool:
    """Whether a step reads its block of an input whose memory its block of an output overlaps."""
    if not (given.pipelined and output.pipelined):
        return False
    uses = memory.known_uses(call)
    begins = given.starts[step], output.starts[step]
    ends = [start + each.block_shape for start, each in zip(begins, (given, output), strict=True)]
    overlaps = (np.maximum(*begins) < np.minimum(*ends)).all()
    return bool(overlaps) and (uses is None or any(use.kind == "read" and use.ref == given.name for use in uses))


def _repeated(call: grid.Call, given: grid.Operand, output: grid.Operand, step: int) -> Complaint:
    shared = [str(axis) for axis, parallel in enumerate(call.parallel) if parallel and call.grid[axis] > 1]
    axes = f"axis {shared[0]}" if len(shared) == 1 else f"axes {', '.join(shared[:-1])} and {shared[-1]}"
    at = call.step(step)
    return Complaint(
        f"{output.name} overwrites {given.name} in place, and on a chip with two cores, such as the v5p, step {at} may "
        f"be applied twice. The cores share {axes} of the grid, whose number of steps is odd, so the compiler lets the "
        f"second one repeat step {at}, and {given.name} may then hold what the first one has already written.",
        f'make the number of steps along {axes} even, or mark {"it" if len(shared) == 1 else "them"} "arbitrary".',
    )


def carried_on(walk: grid.Walk) -> Complaint | None:
    """Report scratch carried along a parallel axis. It may go unused, so this explains a failure and proves none."""
    for call, axis in _parallel_axes(walk):
        if kept := _kept(call, axis):
            return Complaint(
                f'Axis {axis} of the grid is marked "parallel", so two cores may share it, but {kept} carries values '
                "from one step to the next, and each core has its own copy. A v4 or v5p has two cores. On a chip with "
                "one, such as the v5e, the steps run in order and the error does not show, but the mark is still "
                "wrong.",
                f'mark axis {axis} "arbitrary" if its steps must run in order.',
            )
    return None


def _parallel_axes(walk: grid.Walk) -> list[tuple[grid.Call, int]]:
    return [(call, axis) for call in walk.calls for axis, parallel in enumerate(call.parallel) if parallel]


def _collects(call: grid.Pipeline, output: grid.Operand) -> bool:
    """Whether the kernel reads what it has written to ``output``, as a sum does."""
    uses = memory.known_uses(call) if isinstance(call, grid.Call) else ()
    return any(use.kind == "read" and use.ref == output.name for use in uses or ())


def _cure(call: grid.Pipeline, output: grid.Operand) -> str:
    """Say which axes of the grid to put last. A kernel without a reduction may revisit a block, too."""
    axes = [axis for axis in range(len(call.grid)) if call.grid[axis] > 1]
    moving = [axis for axis in axes if depends_on(call, output, axis)]
    still = [str(axis) for axis in axes if axis not in moving and axis < max(moving)]
    if not still:
        last = ", so the reduction axis goes last." if _collects(call, output) else "."
        return f"reorder the grid: all steps of one output block must be consecutive{last}"
    which = f"axis {still[0]}" if len(still) == 1 else f"axes {', '.join(still[:-1])} and {still[-1]}"
    stays = f"the block of {output.name} stays the same along {which} of the grid, but"
    if last := [axis for axis in axes if axis > max(moving)]:  # already in their place
        behind = f"put {which} after that one, and leave axis {last[-1]} last."
        return f"{stays} axis {max(moving)} changes it in between: {behind}"
    return f"{stays} another axis changes it in between: put {which} last."


def depends_on(call: grid.Pipeline, operand: grid.Operand, axis: int) -> bool:
    """Whether a step along an axis of the grid ever changes the block."""
    table = operand.indices.reshape(*call.grid, -1)
    return bool((np.diff(table, axis=axis) != 0).any())


def _same_block(call: grid.Call, output: grid.Operand, axis: int) -> tuple[int, int] | None:
    """Return two steps at different places along an axis that share a block of ``output``; None if there are none."""
    if call.grid[axis] < 2:
        return None
    place = np.arange(call.steps) // math.prod(call.grid[axis + 1 :]) % call.grid[axis]
    _, first, block = np.unique(output.indices, axis=0, return_index=True, return_inverse=True)
    first = first[block.reshape(-1)]  # the first step that has this step's block
    other = np.flatnonzero(place != place[first])
    return (int(first[other[0]]), int(other[0])) if len(other) else None


def _kept(call: grid.Call, axis: int) -> str:
    """Return the name of a scratch ref in which a step finds what a step elsewhere along the axis left; "" if none."""
    place = np.arange(call.steps) // math.prod(call.grid[axis + 1 :]) % call.grid[axis]
    return next((read.ref for read in memory.leftovers(call, place)), "")
