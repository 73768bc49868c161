"""Which axes of five kernels two cores may share."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.several import Several

OPTIONS = {"neither": (), "only i": (0,), "only j": (1,), "i and j": (0, 1)}
ROWS, COLUMNS, STEPS = 8, 128, 3


def scaled(x_ref, o_ref):
    o_ref[...] = 3 * x_ref[...]


def row_sums(x_ref, o_ref):
    @pl.when(pl.program_id(1) == 0)
    def clear():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...]


def total(x_ref, o_ref):
    @pl.when((pl.program_id(0) == 0) & (pl.program_id(1) == 0))
    def clear():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...]


def minus_first(x_ref, o_ref, first_ref):
    @pl.when(pl.program_id(1) == 0)
    def keep():
        first_ref[...] = x_ref[...]

    o_ref[...] = x_ref[...] - first_ref[...]


def largest_above(x_ref, o_ref, above_ref):
    j = pl.program_id(1)

    @pl.when(pl.program_id(0) == 0)
    def begin():
        above_ref[j] = x_ref[...]

    above_ref[j] = jnp.maximum(above_ref[j], x_ref[...])
    o_ref[...] = above_ref[j]


def _blocks(x):
    return x.reshape(STEPS, ROWS, STEPS, COLUMNS).swapaxes(1, 2)


def _whole(blocks):
    return blocks.swapaxes(1, 2).reshape(STEPS * ROWS, -1)


_ONE = (ROWS, COLUMNS)
KERNELS = {  # kernel, index map of o, its blocks (i, j), shape of scratch, reference
    "scaled": (scaled, lambda i, j: (i, j), (STEPS, STEPS), None, lambda x: 3 * x),
    "row_sums": (row_sums, lambda i, j: (i, 0), (STEPS, 1), None, lambda x: _whole(_blocks(x).sum(1, keepdims=True))),
    "total": (total, lambda i, j: (0, 0), (1, 1), None, lambda x: _blocks(x).sum((0, 1))),
    "minus_first": (
        minus_first, lambda i, j: (i, j), (STEPS, STEPS), _ONE, lambda x: _whole(_blocks(x) - _blocks(x)[:, :1]),
    ),
    "largest_above": (
        largest_above, lambda i, j: (i, j), (STEPS, STEPS), (STEPS, *_ONE),
        lambda x: _whole(jax.lax.cummax(_blocks(x), axis=0)),
    ),
}  # fmt: skip


def marked(name: str, parallel: tuple[int, ...], x):
    """Return the result of a kernel of which these axes are marked parallel."""
    kernel, of_block, blocks, scratch, _ = KERNELS[name]
    semantics = tuple("parallel" if axis in parallel else "arbitrary" for axis in (0, 1))
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((blocks[0] * ROWS, blocks[1] * COLUMNS), x.dtype),
        grid=(STEPS, STEPS),
        in_specs=[pl.BlockSpec(_ONE, lambda i, j: (i, j))],
        out_specs=pl.BlockSpec(_ONE, of_block),
        scratch_shapes=[] if scratch is None else [pltpu.VMEM(scratch, x.dtype)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=semantics),
    )(x)


@functools.cache
def allowed(name: str) -> str:
    """Return the option with the most axes on which the races judge agrees."""
    shape = STEPS * ROWS, STEPS * COLUMNS
    x = jnp.asarray(np.random.default_rng(0).integers(0, 100, shape), jnp.float32)

    def right(option):
        fn = functools.partial(marked, name, OPTIONS[option])
        return judges.races_judge(fn, KERNELS[name][-1], x).passed

    return max(filter(right, OPTIONS), key=lambda option: len(OPTIONS[option]))


ASKS = {
    "scaled": {
        "neither": "Does any step read or write what another step has written?",
        "only i": "That is allowed, but it is not all. Does a step need anything of the step before it along j?",
        "only j": "That is allowed, but it is not all. Does a step need anything of the step before it along i?",
    },
    "row_sums": {
        "neither": "Steps along j share an output block. Do steps along i share one, too?",
        "only j": "Along j all steps add to the same output block. Which core would have it?",
        "i and j": "One of the two is fine. Along the other one all steps add to the same output block.",
    },
    "total": {
        "only i": "Every step adds to the same block. With half of the rows on each core, how would the sums meet?",
        "only j": "Every step adds to the same block. With half of the columns on each core, how would the sums meet?",
        "i and j": "Every step adds to the same block. Which core would have the sum?",
    },
    "minus_first": {
        "neither": "Which steps need what is in first_ref? Do those along i need each other's?",
        "only j": "Each step has its own output block, but which step fills first_ref? Each core has its own scratch.",
        "i and j": "One of the two is fine. Along the other one, first_ref is filled by one step and read by the next.",
    },
    "largest_above": {
        "neither": "Step (i, j) reads what step (i - 1, j) has kept. Does it read anything of another j?",
        "only i": "Step (i, j) reads what step (i - 1, j) has kept in scratch, and each core has its own scratch.",
        "i and j": "One of the two is fine. Along the other one, each step reads what the step before it has kept.",
    },
}
RIGHT = {
    "scaled": "i and j",
    "row_sums": "only i",
    "total": "neither",
    "minus_first": "only i",
    "largest_above": "only j",
}


def _asked(name: str) -> Choose:
    return Choose(
        options=tuple(OPTIONS),
        right=RIGHT[name],
        wrong=ASKS[name],
        why="the races judge agrees.",
        proof=lambda: allowed(name),
        next="write down, for step (1, 1), which earlier step wrote what it reads, in its output block or in scratch.",
    )


EXERCISE = Exercise(
    id="16.1",
    title="Which axes may two cores share?",
    kind="several",
    defines="shared",
    asks=Several(
        parts={name: _asked(name) for name in KERNELS}, why="steps that share a block or scratch stay on one core."
    ),
    hints=(
        "Give the steps of one axis to two people who cannot see each other's notes. Which result goes wrong?",
        "Two things tie steps together: an output block that they share, and scratch that one fills and another reads.",
        "Steps along j share the output block in row_sums, and first_ref in minus_first. In largest_above, what is "
        "kept for one j is read only by steps with the same j.",
    ),
    points=1,
)
