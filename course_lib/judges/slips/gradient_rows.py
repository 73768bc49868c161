"""Slips in how much of a cotangent counts: a factor, or blocks of rows left out or counted twice.

A gradient is linear in the cotangent g, so any such mistake with whole rows of g is a weight for each row.
"""

from __future__ import annotations

from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np

from course_lib.judges.slips.gradient_problem import Problem
from course_lib.judges.slips.slip import Suspect
from course_lib.judges.wrong_outputs.finding import Finding


def factors(found: Finding, problem: Problem) -> Iterator[Suspect]:
    want = found.want.value
    lengths = sorted({n for leaf in found.leaves for n in leaf.shape if n > 2}, reverse=True)
    known = [
        (-1.0, "its sign is wrong", "check for a difference whose operands are swapped."),
        (2.0, "it is twice what it should be", "check for a term that is added twice, or a step that runs twice."),
        (0.5, "it is half of what it should be", "check for a mean of two, or for a missing term."),
    ]
    known += [
        (
            1 / n,
            f"it is a mean over {n}, but should be a sum",
            "the gradient is a sum over the rows: if the loss is a mean, g already contains its factor.",
        )
        for n in lengths
    ]
    known += [
        (
            float(n),
            f"it is {n} times what it should be, as if it were added {n} times",
            "check which loop the addition is in.",
        )
        for n in lengths
    ]
    for factor, means, next in known:
        yield Suspect(means, next, lambda value, factor=factor: value * jnp.asarray(factor, value.dtype), (want,))


def rows(found: Finding, problem: Problem) -> Iterator[Suspect]:
    """Yield blocks of rows of g left out, or counted twice."""
    *args, g = found.args
    if g.ndim < 2:
        return
    length = g.shape[0]
    for size in sorted(_block_rows(found, length)):
        blocks = -(-length // size)
        last = (blocks - 1) * size
        row, first = np.arange(length), f"rows 0 to {size - 1} of g, the first block of {size},"
        whose = f"rows {last} to {length - 1} of g, the {'ragged ' if length % size else ''}last block,"
        weights = [
            (
                row < last,
                f"{whose} are left out",
                "pl.cdiv(rows, block) counts the last block, too. Check that no mask hides it.",
            ),
            (row >= last, f"only {whose} count", "set the sum to zero at the first block, and add each one: +=."),
            (row < size, f"only {first} count", "check that the grid covers all blocks, and that each is added: +=."),
            (
                row >= size,
                f"{first} are left out",
                "check that the sum is set to zero before the first block is added.",
            ),
            (1 + (row < size), f"{first} count twice", "check whether the first step runs twice."),
            (1 + (row >= last), f"{whose} count twice", "check whether the last step runs twice."),
        ]
        if length % size:
            again = 1 + ((row >= length - size) & (row < last))
            what = (
                f"rows {length - size} to {last - 1} of g count twice, because the last block starts early in order "
                "to fit"
            )
            weights.insert(0, (again, what, "mask the rows that the previous block has already counted."))
        for weight, means, next in weights:
            shape = (length,) + (1,) * (g.ndim - 1)
            weighted = g * jnp.asarray(np.reshape(weight, shape), g.dtype)
            yield Suspect(means, next, problem.backwards, (*args, weighted))


def _block_rows(found: Finding, rows: int) -> set[int]:
    """Return the block lengths that the kernels use along axes of this many rows."""
    operands = [operand for call in found.walk.calls for operand in call.operands]
    sizes = {o.block_shape[axis] for o in operands if o.block_shape for axis, n in enumerate(o.shape) if n == rows}
    return {int(size) for size in sizes if size and 1 < size < rows}
