"""Which planted bugs a test finds."""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.several import Several

WIDTH = 16
BLOCK = 64, 128
FINDS, MISSES = "finds", "misses"


def moving_average(x, *, clears=True, keeps=True, first=0, count=WIDTH, column=lambda j: j):
    """Return the mean of each row and the 15 above it; or, with another argument, what a planted bug makes of it."""
    rows_of_block = BLOCK[0]

    def kernel(x_ref, o_ref, above_ref):
        @pl.when((pl.program_id(1) == 0) & clears)
        def begin():
            above_ref[...] = jnp.zeros_like(above_ref)

        rows = jnp.concatenate([above_ref[...], x_ref[...]])
        total = sum(rows[WIDTH - k : WIDTH - k + rows_of_block] for k in range(first, first + count))
        o_ref[...] = total / WIDTH
        if keeps:
            above_ref[...] = x_ref[-WIDTH:]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.shape[1] // BLOCK[1], x.shape[0] // BLOCK[0]),
        in_specs=[pl.BlockSpec(BLOCK, lambda j, i: (i, column(j)))],
        out_specs=pl.BlockSpec(BLOCK, lambda j, i: (i, j)),
        scratch_shapes=[pltpu.VMEM((WIDTH, BLOCK[1]), x.dtype)],
    )(x)


def passes(fn) -> bool:
    """Return whether the test of the exercise passes for a function."""
    x = jnp.ones((256, 256), jnp.float32)
    return bool(jnp.allclose(fn(x)[WIDTH:], 1))


def asked(**bug) -> str:
    """Return what the test does about a bug, in the simulator, whose memory begins as NaN."""
    with pltpu.force_tpu_interpret_mode(pltpu.InterpretParams()):
        return MISSES if passes(functools.partial(moving_average, **bug)) else FINDS


def _question(right: str, wrong: str, why: str, **bug) -> Choose:
    return Choose(
        options=(FINDS, MISSES),
        right=right,
        wrong={FINDS if right == MISSES else MISSES: wrong},
        why=why,
        proof=functools.partial(asked, **bug),
    )


EXERCISE = Exercise(
    id="18.2",
    title="What a test misses",
    kind="several",
    defines="found",
    asks=Several(
        parts={
            "clears": _question(
                MISSES,
                "In which rows does the garbage show? Does the test look at them?",
                "the garbage shows in the first 15 rows.",
                clears=False,
            ),
            "keeps": _question(
                FINDS,
                "What stands above row 64 then, and what is its mean?",
                "row 64 becomes 1/16.",
                keeps=False,
            ),
            "count": _question(
                FINDS,
                "How many ones does row 40 add up, and what does it divide by?",
                "17/16 is not 1.",
                count=WIDTH + 1,
            ),
            "column": _question(
                MISSES,
                "By what could the test tell column 133 of x from column 5?",
                "all columns of x are alike.",
                column=lambda j: 0,
            ),
            "first": _question(
                MISSES,
                "Row 40 is then the mean of rows 24 to 39. Which value is that?",
                "all rows of x are alike.",
                first=1,
            ),
        },
        why="ones are alike everywhere, and the first rows are left out.",
    ),
    hints=(
        "For each bug, work out row 5 and row 64 of the result if all of x is 1.",
        "The test looks at all rows but the first 16. Where all values of x are equal, a bug that only takes them from "
        "elsewhere does not show.",
        "Two of the five change a sum of 16 ones below row 16. The test finds these and misses the others.",
    ),
    points=2,
)
