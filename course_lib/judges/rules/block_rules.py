"""Rules about blocks: which of them an index map asks for, and what lies at the edge of an array."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import grid
from course_lib.judges.reading import index_maps, masking, memory, order, poisoning
from course_lib.judges.rules import mask_rules
from course_lib.judges.verdict import Complaint
from course_lib.judges.wrong_outputs.finding import Finding

_WORDS = {"reduce_max": "maximum", "reduce_min": "minimum", "reduce_sum": "sum", "dot_general": "matmul"}


def outside(found: Finding) -> Complaint | None:
    """Report an index map that asks for a block outside the array."""
    everywhere = (*found.walk.calls, *order.pipelines(found.walk))
    return next((said for p in everywhere if (said := index_maps.outside(p))), None)


def rows_outside(found: Finding) -> Complaint | None:
    """Report rows that a ref does not have."""
    for call in found.walk.calls:
        if use := memory.outside(call):
            ref, step, (start, end), length = use
            rows = f"[{start}]" if end == start + 1 else f"[{start}:{end}]"
            return Complaint(
                f"At step {call.step(step)} the kernel accesses {ref}{rows}, but axis 0 of {ref} has only {length} "
                "elements.",
                "indices start at 0, so the last one is the length minus 1; check the last iteration and the last "
                "grid step, and whether another index is meant.",
            )
    return None


def unvisited(found: Finding) -> Complaint | None:
    """Report output blocks that no step has."""
    if found.laid_out_by is None or not found.laid_out_by[1].unvisited():
        return None
    call, output = found.laid_out_by
    if output.aliases is not None and len(found.steps):  # the other blocks keep what the input's memory holds
        return None
    visited = np.unique(output.indices, axis=0)
    if len(visited) == 1 and call.steps > 1:
        return Complaint(
            f"The index map of {output.name} returns block {tuple(visited[0].tolist())} at every step.",
            "the index map of an output takes the grid indices and must return the block that this step writes.",
        )
    for axis, (length, block) in enumerate(zip(output.shape, output.block_shape, strict=True)):
        if output.indices[:, axis].max() + 1 < -(-length // block):
            keeps = call.steps == 1 and any((o.shape, o.dtype) == (output.shape, output.dtype) for o in call.inputs)
            return Complaint(
                "",
                _too_few_blocks(call, output, axis)
                if not keeps
                else "to keep the existing values, let the output share an input's memory: input_output_aliases.",
            )
    if len(found.steps):  # this block has its steps, so the others are no reason
        return None
    return Complaint("", f"the grid and the index map of {output.name} must reach every block.")


def _too_few_blocks(call: grid.Pipeline, output: grid.Operand, axis: int) -> str:
    """Ask about an index map that does not reach the last blocks along an axis of the output."""
    blocks = -(-output.shape[axis] // output.block_shape[axis])
    makes = (
        f"axis {axis} of {output.name} has {output.shape[axis]} elements, in blocks of {output.block_shape[axis]}: it "
        f"needs pl.cdiv({output.shape[axis]}, {output.block_shape[axis]}) = {blocks} steps."
    )
    still = [n for n, steps in enumerate(call.grid) if steps == blocks and not order.depends_on(call, output, n)]
    if not still:
        return f"{makes} Check whether the grid or the block is too short."
    return (
        f"{makes} Axis {still[0]} of the grid has that many, but the index map of {output.name} ignores it. Either "
        f"entry {axis} of the tuple it returns must use it, or the grid is too short."
    )


def in_a_pipeline(found: Finding) -> Complaint | None:
    """Report an output block of a pipeline in the kernel's body that is left and revisited."""
    return order.revisit_in_a_pipeline(found.walk)


def index_map(found: Finding) -> Complaint | None:
    """Report an input block that the output block depends on, and that its steps never read."""
    if found.made_by is None or not len(found.steps):
        return None
    call, output = found.made_by
    if len(found.walk.calls) > 1:  # its inputs may then not be the reference's
        return None
    try:
        return poisoning.wrong_block(call, output, found.first, found.reference, found.args, found.number)
    except Exception:  # a reference in NumPy, for example, which cannot be traced
        return None


def rows_left_out(found: Finding) -> Complaint | None:
    """Report rows of an input block that the kernel never reads."""
    for call in found.walk.calls:
        for operand in call.inputs:
            if operand.pipelined and (rows := memory.rows_untouched(call, operand, ("read",))):
                if not _are_needed(found, operand, rows):
                    continue
                return Complaint(
                    f"{operand.name}[{rows[0]}:{rows[1]}] is never read.",
                    "count the iterations of the loop: it must cover the whole block.",
                )
    return None


def _are_needed(found: Finding, operand: grid.Operand, rows: tuple[int, int]) -> bool:
    """Whether the wrong elements may depend on rows of an input that is one block; True if that is unknown."""
    leaves, tree = jax.tree.flatten(found.args)
    alike = [n for n, leaf in enumerate(leaves) if (leaf.shape, str(leaf.dtype)) == (operand.shape, str(operand.dtype))]
    if len(alike) != 1 or tuple(operand.block_shape) != tuple(operand.shape):
        return True
    changed = [*leaves]
    changed[alike[0]] = jnp.asarray(leaves[alike[0]]).at[slice(*rows)].add(1)
    try:
        before, after = (
            np.asarray(jax.tree.leaves(found.reference(*jax.tree.unflatten(tree, each)))[found.number])
            for each in (leaves, changed)
        )
    except Exception:  # a reference in NumPy, for example, which does not take these arrays
        return True
    return bool((before != after)[found.wrong].any())


def past_the_edge(found: Finding) -> Complaint | None:
    """Report NaN from beyond the end of an array whose last block is not full.

    If several inputs extend past the end, the first that is not masked is blamed.
    """
    maker = found.laid_out_by
    if not found.unwritten[found.first] or maker is None or maker[0] not in found.walk.calls:
        return None
    # The kernel that makes the output goes first, because rows past the end may do no harm in another.
    for call in sorted(found.walk.calls, key=lambda call: call is not maker[0]):
        blocks = [operand for operand in call.inputs if operand.pipelined and not any(operand.element)]
        hanging = [(operand, axes) for operand in blocks if (axes := _hanging_axes(operand, found.steps))]
        if complaint := _half_masked(call, hanging) or _masked_along_another_axis(call, hanging):
            return complaint
        if complaint := _masked_too_far(call, hanging, found.steps):
            return complaint
        if hanging:
            if _chooses_by_an_index(call) and found.is_nan_without_garbage:
                return None  # it makes NaN from its own numbers
            operand, axes = hanging[0]
            return _hangs_over(call, operand, axes[0])
    return None


def counted_past_the_edge(found: Finding) -> Complaint | None:
    """Report a result that looks like any other number, and changes with what lies past the end of an array."""
    if found.made_by is None or found.tame is None or found.made_by[0] not in found.walk.calls:
        return None
    call = found.made_by[0]
    hanging = [(o, axes) for o in call.inputs if o.pipelined and (axes := _hanging_axes(o, found.steps))]
    if not hanging or not _depends_on_garbage(found):
        return None
    operand, axes = hanging[0]
    said = _masked_too_far(call, hanging, found.steps) or _hangs_over(call, operand, axes[0])
    return said._replace(what=f"{said.what} With other values there, the result changes.")


def _depends_on_garbage(found: Finding) -> bool:
    """Whether the first wrong element changes with the values in memory that nobody has written."""
    try:
        values = [outputs[found.number][found.first] for outputs in found.tame()]
    except Exception:  # the simulator refuses the kernel, so this is unknown
        return False
    if found.got.dtype.kind in "iub":  # another interpreter rounds floats differently
        values.append(found.got[found.first])
    return len({str(value) for value in values}) > 1  # as text NaN equals NaN


def _hanging_axes(operand: grid.Operand, steps: np.ndarray) -> list[int]:
    """Return the axes along which blocks extend past the end, those that do at these steps, and vary, first.

    ``steps`` make the wrong output block. What extends past the end only at other steps has not reached it.
    """
    hangs = operand.starts + np.array(operand.block_shape) > np.array(operand.shape)
    here = steps[steps < len(hangs)]

    def reaches(axis: int) -> tuple[bool, bool]:
        return hangs[here, axis].any(), len(set(operand.indices[here, axis].tolist())) > 1

    return sorted(np.flatnonzero(hangs.any(axis=0)).tolist(), key=reaches, reverse=True)


def _overhang(call: grid.Call, operand: grid.Operand, axis: int, step: int | None = None) -> str:
    """Describe the block at ``step``, or at the first step where it extends past the end."""
    length, block = operand.shape[axis], operand.block_shape[axis]
    ends = operand.starts[:, axis] + block
    step, beyond = int(np.argmax(ends > length)) if step is None else step, int(ends.max() - length)
    return (
        f"At step {call.step(step)} the block of {operand.name} reaches past the end of the array: axis {axis} has "
        f"{length} elements, in blocks of {block}, so the last {beyond} of this block are "
        f"{'garbage, NaN here' if jnp.issubdtype(operand.dtype, jnp.floating) else 'garbage'}."
    )


def _half_masked(call: grid.Call, hanging: list[tuple[grid.Operand, list[int]]]) -> Complaint | None:
    """Report an input that is not masked where another is, if both extend past the end of axes of one length."""
    if len(hanging) < 2 or not _chooses_by_an_index(call):  # jnp.where(y > 0, ...) is no mask
        return None
    masked = {operand.name: masking.is_masked(call, operand) for operand, _ in hanging}
    for (one, its), (other, axes) in itertools.permutations(hanging, 2):
        shared = [axis for axis in axes if other.shape[axis] in {one.shape[a] for a in its}]
        if shared and masked[one.name] and not masked[other.name]:
            return Complaint(
                f"{_overhang(call, other, shared[0])} The kernel masks {one.name} but not {other.name}.",
                f"mask {other.name} as well: multiplying by 0 does not remove NaN, because NaN * 0 is NaN.",
            )
    return None


def _masked_along_another_axis(call: grid.Call, hanging: list[tuple[grid.Operand, list[int]]]) -> Complaint | None:
    """Report a mask along another axis of the block than the ragged one, which two inputs share."""
    for (one, its), (other, axes) in itertools.permutations(hanging, 2):
        shared = [axis for axis in axes if other.shape[axis] in {one.shape[a] for a in its}]
        runs = masking.mask_axes(call, other) if shared else set()
        if runs and runs.isdisjoint(shared):
            axis, length = shared[0], other.shape[shared[0]]
            return Complaint(
                f"{_overhang(call, other, axis)} The mask of {other.name} runs along axis {min(runs)} of the block.",
                f"mask {other.name} along axis {axis} of its block, which is the axis that ends after {length} "
                "elements.",
            )
    return None


def _masked_too_far(
    call: grid.Call, hanging: list[tuple[grid.Operand, list[int]]], steps: np.ndarray
) -> Complaint | None:
    """Report the first input whose mask surely lets through what lies past the end of its array."""
    for operand, axes in hanging:
        if beyond := mask_rules.too_far(call, operand, axes[0], steps):
            step, said = beyond
            return said._replace(what=f"{_overhang(call, operand, axes[0], step)} {said.what}")
    return None


def _hangs_over(call: grid.Call, operand: grid.Operand, axis: int) -> Complaint:
    length, block = operand.shape[axis], operand.block_shape[axis]
    by_mask = " That is what this kernel does." if _multiplies_by_a_mask(call) else ""
    what = _overhang(call, operand, axis)
    if not by_mask and (partly := _masked_in_part(call, operand)):
        masked, open_to_garbage = partly
        return Complaint(
            f"{what} The kernel masks {operand.name} before its {masked}, but not before its {open_to_garbage}.",
            f"use the masked values, those that jnp.where returned, for the {open_to_garbage} too.",
        )
    if not by_mask and _chooses_by_an_index(call):
        return Complaint(
            f"{what} The kernel masks by an index, but some of these elements get through.",
            f"mask before the first sum or maximum, by comparing an index with {length}. Check that the index runs "
            f"along axis {axis} of the block, counts from the beginning of the array (pl.program_id of the right axis "
            f"times {block}, plus the index in the block) and excludes {length} itself. Or compare the index in the "
            f"block with {length} - {block} * pl.program_id.",
        )
    return Complaint(
        what,
        f"replace them before you sum or compare: jnp.where(index < {length}, x, 0), or -inf instead of 0 before a "
        f"maximum, where index counts from the beginning of the array: pl.program_id(...) * {block} + "
        f"broadcasted_iota. Multiplying by 0 does not help, because NaN * 0 is NaN.{by_mask}",
    )


def _masked_in_part(call: grid.Call, operand: grid.Operand) -> tuple[str, str] | None:
    """Return (what combines masked elements of an operand, what combines the others); None unless there are both."""
    masked, open_to_garbage = masking.combined(call, operand)
    if not _chooses_by_an_index(call) or not masked or not open_to_garbage:
        return None
    return tuple(" and ".join(sorted(_WORDS.get(name, name) for name in names)) for names in (masked, open_to_garbage))


def _chooses_by_an_index(call: grid.Call) -> bool:
    """Whether the kernel counts elements and chooses between values."""
    return {"iota", "select_n"} <= {eqn.primitive.name for eqn in grid.equations(call.kernel)}


def _multiplies_by_a_mask(call: grid.Call) -> bool:
    """Whether the kernel converts a bool to a number and multiplies with it."""
    masks = set()
    for eqn in grid.equations(call.kernel):
        if eqn.primitive.name == "mul" and any(id(v) in masks for v in eqn.invars):
            return True
        from_mask = any(id(v) in masks for v in eqn.invars)
        converts = eqn.primitive.name == "convert_element_type" and eqn.invars[0].aval.dtype == np.bool_
        if converts or (from_mask and eqn.primitive.name in ("broadcast_in_dim", "reshape", "convert_element_type")):
            masks |= set(map(id, eqn.outvars))
    return False
