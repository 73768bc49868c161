"""The maximum of the blocks of each group, where some groups have none."""

import jax
import jax.numpy as jnp

from course_lib import cost, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.lessons.lesson_12.lists import int32

GROUPS = 6


def _cases() -> list[tuple]:
    """Return arrays of values far below 0, with empty groups at the start, in between and at the end.

    Random arrays come first, because in those that grow from row to row a group that is not reset would be right.
    """
    lists = (0, 0, 1, 3, 3, 3, 5), (1, 1, 2, 4), (2,), (0, 1, 2, 3, 4, 5), (0, 0, 0, 5, 5, 5, 5, 5)
    return [
        (x, int32(*group))
        for n, group in zip((256, 128, 384, 128, 200), lists, strict=True)
        for (x,) in arguments(("x: f32[M,N]",), ({"M": 8 * len(group), "N": n},), within=(-3e6, -1e6))[::-1]
    ]


def _folded(segment_op, x, group):
    return segment_op(x.reshape(-1, 8, x.shape[1]), group, GROUPS).reshape(-1, x.shape[1])


def _largest(x, group):
    return _folded(jax.ops.segment_max, x, group)


def _where_there_are_blocks(values, group):
    there = jnp.repeat(jnp.isin(jnp.arange(GROUPS), group), 8)
    return jnp.where(there[:, None], values, -jnp.inf)


def _last_block(x, group):
    last = jnp.append(group[1:] != group[:-1], True)
    return _folded(jax.ops.segment_sum, jnp.where(jnp.repeat(last, 8)[:, None], x, 0), group)


def _with(empty):
    def value(x, group):
        found = _largest(x, group)
        return jnp.where(jnp.isneginf(found), empty, found)

    return value


def _once(x, group) -> int:
    """Return the bytes of reading x once, and of the result, which is filled beforehand and then written."""
    blocks = jax.ShapeDtypeStruct((8 * GROUPS, x.shape[1]), x.dtype)
    return cost.stored_bytes(x, group, blocks, blocks)


EXERCISE = Exercise(
    id="12.4",
    title="The largest of each group",
    kind="write",
    defines="largest",
    cases=_cases,
    reference=_largest,
    budget=judges.Budget(hbm_bytes=_once),
    slips=(
        judges.Slip(
            means="an empty group gets 0, which is larger than some elements",
            value=_with(0.0),
            next="begin with -inf, which is neutral for a maximum.",
        ),
        judges.Slip(
            means="the maximum of each group starts at 0",
            value=lambda x, group: _where_there_are_blocks(jnp.maximum(_largest(x, group), 0), group),
            next="store the first block of a group as it is.",
        ),
        judges.Slip(
            means="the smaller of two blocks is kept, element by element",
            value=lambda x, group: _where_there_are_blocks(-_largest(-x, group), group),
            next="use jnp.maximum, which keeps the larger element.",
        ),
        judges.Slip(
            means="the blocks of a group are added and not compared",
            value=lambda x, group: _where_there_are_blocks(_folded(jax.ops.segment_sum, x, group), group),
            next="use jnp.maximum in place of the addition.",
        ),
        judges.Slip(
            means="only the last block of each group counts",
            value=lambda x, group: _where_there_are_blocks(_last_block(x, group), group),
            next=(
                "compare with what is there, except in the first step of a group, where the entry *before* is a "
                "different one."
            ),
        ),
    ),
    hints=(
        "You need three parts: a list that says where a block belongs, a body that stores its block or compares it, "
        "and an output that begins as -inf.",
        "A group begins at step t if t is 0 or group_ref[t] differs from group_ref[t - 1]. Keep the index t - 1 "
        "inside the list.",
        "Add jnp.full((8 * GROUPS, n), -jnp.inf, x.dtype) as one more input, with pl.BlockSpec(memory_space=pl.ANY). "
        "One list and x come before it, so the alias is input_output_aliases={2: 0}.",
    ),
    points=3,
)
