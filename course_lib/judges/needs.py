"""Which blocks of its inputs an output block needs, found by poisoning them, and which its grid steps have read."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import grid
from course_lib.judges.memory import crosses_blocks
from course_lib.judges.verdict import Complaint

_MOST_BLOCKS = 128  # of an input: one run of the reference for each


def wrong_block(
    call: grid.Call, output: grid.Operand, at: tuple[int, ...], reference: Callable, args: tuple, number: int
) -> Complaint | None:
    """An input block that the output block around element ``at`` depends on, and that its steps never read.

    ``number`` is the output's place in what the reference returns. None if they read all they need, or nobody can tell.
    """
    steps = steps_of(output, at)
    if len(steps) and crosses_blocks(call):  # then what earlier steps have read may be in it too
        steps = np.arange(steps[-1] + 1)
    inputs = _arguments(call, args)
    if not len(steps) or inputs is None:
        return None
    region = tuple(
        slice(max(0, s), s + b) for s, b in zip(output.starts[steps[0]].tolist(), output.block_shape, strict=True)
    )
    complaints = []
    for operand, place in inputs:
        missing, read = _missing(operand, place, steps, region, reference, args, number)
        if missing:
            complaints.append(_said(call, operand, steps, missing, read))
    if not complaints:
        return None
    maps = inputs[0][0].name if len(inputs) == 1 else "every input"
    if len(complaints) == len(inputs):
        return Complaint(complaints[0], f"either the index map of {maps} is wrong, or that of {output.name}.")
    return Complaint(complaints[0], "an index map gets the grid indices, and returns which block that step needs.")


def steps_of(output: grid.Operand, at: tuple[int, ...]) -> np.ndarray:
    """int64[n]: the steps whose block of ``output`` holds the element ``at``."""
    starts, block = output.starts, np.array(output.block_shape, np.int64)
    inside = (starts <= np.array(at)) & (np.array(at) < starts + block)
    return np.flatnonzero(inside.all(axis=1))


def _arguments(call: grid.Call, args: tuple) -> list[tuple[grid.Operand, int]] | None:
    """(input of the kernel, which leaf of ``args`` it is) for the float inputs in blocks; None if that is unclear."""
    leaves, found = jax.tree.leaves(args), []
    for operand in call.inputs:
        alike = [n for n, a in enumerate(leaves) if (a.shape, a.dtype) == (operand.shape, operand.dtype)]
        rivals = [o for o in call.inputs if (o.shape, o.dtype) == (operand.shape, operand.dtype)]
        if len(alike) != len(rivals):
            return None
        in_blocks = operand.pipelined and not any(operand.element) and np.prod(operand.blocks) > 1
        if in_blocks and jnp.issubdtype(operand.dtype, jnp.floating) and np.prod(operand.blocks) <= _MOST_BLOCKS:
            found.append((operand, alike[rivals.index(operand)]))
    return found


def _missing(operand, place: int, steps, region: tuple, reference, args: tuple, number: int) -> tuple[list, list]:
    """(blocks of ``operand`` that the region of the output depends on and no step reads, blocks that are read)."""
    read = list(dict.fromkeys(map(tuple, operand.indices[steps].tolist())))
    leaves, tree = jax.tree.flatten(args)

    @jax.jit
    def poisoned(start):
        inside = jnp.ones(operand.shape, bool)
        for axis, size in enumerate(operand.block_shape):
            along = jax.lax.broadcasted_iota(jnp.int32, operand.shape, axis)
            inside &= (along >= start[axis]) & (along < start[axis] + size)
        changed = [*leaves]
        changed[place] = jnp.where(inside, jnp.nan, leaves[place])
        out = jax.tree.leaves(reference(*jax.tree.unflatten(tree, changed)))[number][region]
        return jnp.isnan(out).any() if jnp.issubdtype(out.dtype, jnp.floating) else False

    if poisoned(jnp.array(operand.shape)):  # outside the array: it is NaN anyway
        return [], read
    blocks = np.ndindex(*operand.blocks)
    missing = [b for b in blocks if b not in read and poisoned(jnp.array(b) * jnp.array(operand.block_shape))]
    return missing, read


def _said(call: grid.Call, operand: grid.Operand, steps, missing: list, read: list) -> str:
    needs = _listed(missing)
    if len(steps) == 1:
        where = f"At step {call.step(int(steps[0]))}, which makes it," if call.steps > 1 else "There"
        return f"{where} {operand.name} holds block {read[0]}; the result there needs block {needs}."
    return (
        f"It needs block {needs} of {operand.name}, and none of the {len(steps)} steps that make it, "
        f"{call.step(int(steps[0]))} to {call.step(int(steps[-1]))}, reads that: they read {_listed(read)}."
    )


def _listed(blocks: list) -> str:
    shown = " and ".join(map(str, blocks[:2]))
    return shown if len(blocks) <= 2 else f"{', '.join(map(str, blocks[:3]))}" + (" ..." if len(blocks) > 3 else "")
