"""The blocks of its inputs that an output block needs, found by poisoning them, and those that its steps read."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import grid
from course_lib.judges.reading.memory import crosses_blocks
from course_lib.judges.tolerance.rounding import QUICKLY
from course_lib.judges.verdict import Complaint

_MOST_BLOCKS = 128  # of an input, because each takes a run of the reference
_LARGE = 1e3  # a number that any input may have, and that shows in a sum as in a maximum
_NOTHING = 1e-6  # of the largest value: so small a change may be rounding


def wrong_block(
    call: grid.Call, output: grid.Operand, at: tuple[int, ...], reference: Callable, args: tuple, number: int
) -> Complaint | None:
    """Report an input block that the output block around element ``at`` depends on, and that its steps never read.

    ``number`` is the output's position in the reference's result. None if they read all they need, or if that is
    unknown.
    """
    steps = steps_of(output, at)
    if len(steps) and crosses_blocks(call):  # so it may contain what earlier steps read
        steps = np.arange(steps[-1] + 1)
    inputs = _arguments(call, args)
    if not len(steps) or inputs is None:
        return None
    region = tuple(
        slice(max(0, s), s + b) for s, b in zip(output.starts[steps[0]].tolist(), output.block_shape, strict=True)
    )
    complaints = []
    poisoned = _poisoned(inputs, region, reference, args, number)
    if not inputs or poisoned():  # nothing is poisoned, and it is NaN all the same
        return None
    for which, (operand, _) in enumerate(inputs):
        missing, read, partly = _missing(operand, steps, functools.partial(poisoned, which))
        if missing and partly and len(steps) == 1:
            return _too_small(call, operand, int(steps[0]), [*read, *missing])
        if missing and partly and len(steps) == len(read):
            return _too_few_steps(call, operand, steps, missing, read)
        if missing:
            complaints.append(_said(call, operand, steps, missing, read))
    if not complaints:
        return None
    maps = inputs[0][0].name if len(inputs) == 1 else "every input"
    if len(complaints) == len(inputs):
        return Complaint(complaints[0], f"either the index map of {maps} is wrong, or that of {output.name}.")
    return Complaint(
        complaints[0], "an index map takes the grid indices and must return the block that this step needs."
    )


def steps_of(output: grid.Operand, at: tuple[int, ...]) -> np.ndarray:
    """Return int64[n]: the steps whose block of ``output`` holds the element ``at``."""
    starts, block = output.starts, np.array(output.block_shape, np.int64)
    inside = (starts <= np.array(at)) & (np.array(at) < starts + block)
    return np.flatnonzero(inside.all(axis=1))


def _arguments(call: grid.Call, args: tuple) -> list[tuple[grid.Operand, int]] | None:
    """Return (input of the kernel, its leaf of ``args``) for the inputs in blocks; None if that is unclear.

    An argument may have got axes of length 1 on its way. An input that is none of the arguments is left out.
    """
    leaves, found = jax.tree.leaves(args), []
    kinds = [_kind(a) for a in leaves]
    for operand in call.inputs:
        alike = [n for n, kind in enumerate(kinds) if kind == _kind(operand)]
        rivals = [o for o in call.inputs if _kind(o) == _kind(operand)]
        if alike and len(alike) != len(rivals):
            return None
        in_blocks = operand.pipelined and not any(operand.element) and np.prod(operand.blocks) > 1
        if alike and in_blocks and np.prod(operand.blocks) <= _MOST_BLOCKS:
            found.append((operand, alike[rivals.index(operand)]))
    return found


def _kind(array) -> tuple:
    return tuple(n for n in array.shape if n != 1), np.dtype(array.dtype)


def _poisoned(inputs: list, region: tuple, reference: Callable, args: tuple, number: int) -> Callable:
    """Return whether the region of the reference's result changes if one block of one of the inputs is poisoned.

    Floats become NaN, and then large numbers of both signs, because a reference may multiply by 0 what does not count;
    integers become others. The function takes the number of the input and the start of its block, and compiles once for
    all of them. With no input it returns whether the region has a NaN all the same.
    """
    leaves, tree = jax.tree.flatten(args)

    def region_behind(leaves, starts, poison):  # the leaves are arguments because XLA takes seconds to fold constants
        changed = [*leaves]
        for (operand, place), start in zip(inputs, starts, strict=True):
            inside = jnp.ones(operand.shape, bool)
            for axis, size in enumerate(operand.block_shape):
                along = jax.lax.broadcasted_iota(jnp.int32, operand.shape, axis)
                inside &= (along >= start[axis]) & (along < start[axis] + size)
            was = leaves[place]
            new = poison if jnp.issubdtype(was.dtype, jnp.floating) else ~was
            changed[place] = jnp.where(inside.reshape(was.shape), new, was).astype(was.dtype)
        return jax.tree.leaves(reference(*jax.tree.unflatten(tree, changed)))[number][region]

    compiled = jax.jit(region_behind, compiler_options=QUICKLY)
    nowhere = [np.array(operand.shape) for operand, _ in inputs]
    before = np.asarray(compiled(leaves, nowhere, np.nan), np.float64)
    least = _NOTHING * np.abs(before).max(initial=0.0, where=np.isfinite(before))

    def poisoned(which: int | None = None, start=()) -> bool:
        if which is None:
            return bool(np.isnan(before).any())
        starts = [np.array(start) if n == which else none for n, none in enumerate(nowhere)]

        def changes(poison: float) -> bool:
            after = np.asarray(compiled(leaves, starts, poison), np.float64)
            return bool((~(np.abs(after - before) <= least)).any())

        return changes(np.nan) and (changes(_LARGE) or changes(-_LARGE))

    return poisoned


def _missing(operand, steps, poisoned: Callable) -> tuple[list, list, bool]:
    """Return (blocks that the region needs and no step reads, blocks that are read, whether all of those are needed).

    The blocks are those of ``operand``; ``poisoned`` takes the start of one.
    """
    read = list(dict.fromkeys(map(tuple, operand.indices[steps].tolist())))
    needed = [b for b in np.ndindex(*operand.blocks) if poisoned(np.array(b) * np.array(operand.block_shape))]
    return [b for b in needed if b not in read], read, set(read) <= set(needed)


def _too_small(call: grid.Call, operand: grid.Operand, step: int, needed: list) -> Complaint:
    where = f"At step {call.step(step)}, which computes it," if call.steps > 1 else "There"
    return Complaint(
        f"{where} {operand.name} holds block {needed[0]}, but the result depends on {len(needed)} blocks: "
        f"{_listed(sorted(needed))}.",
        "make the block hold everything that one result needs, such as a whole row; or visit the blocks in further "
        "steps and carry a sum or a maximum in scratch.",
    )


def _too_few_steps(call: grid.Call, operand: grid.Operand, steps, missing: list, read: list) -> Complaint:
    return Complaint(
        f"It needs {_listed(missing, 'block ')} of {operand.name} too; the {len(steps)} steps that compute it, "
        f"{call.step(int(steps[0]))} to {call.step(int(steps[-1]))}, read {_listed(read)}.",
        f"{len(read) + len(missing)} blocks are needed, but there are {len(steps)} steps: check whether the reduction "
        "axis of the grid is too short.",
    )


def _said(call: grid.Call, operand: grid.Operand, steps, missing: list, read: list) -> str:
    needs, that = _listed(missing, "block "), "that" if len(missing) == 1 else "those"
    if len(steps) == 1:
        where = f"At step {call.step(int(steps[0]))}, which computes it," if call.steps > 1 else "There"
        return f"{where} {operand.name} holds block {read[0]}, but the result needs {needs}."
    return (
        f"It needs {needs} of {operand.name}, but the {len(steps)} steps that compute it, {call.step(int(steps[0]))} "
        f"to {call.step(int(steps[-1]))}, do not read {that}: they read {_listed(read)}."
    )


def _listed(blocks: list, one: str = "") -> str:
    """Return "block (0, 1)" or "blocks (0, 0) and (0, 1)", at most three of them; without the word if ``one`` is ""."""
    word = (one if len(blocks) == 1 else one.replace("block", "blocks")) if one else ""
    if len(blocks) > 3:
        return f"{word}{', '.join(map(str, blocks[:3]))} ..."
    *first, last = map(str, blocks)
    return f"{word}{', '.join(first)} and {last}" if first else f"{word}{last}"
