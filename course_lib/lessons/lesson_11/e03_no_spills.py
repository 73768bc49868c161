"""A row normalization whose values do not fit into the registers."""

import jax
import jax.numpy as jnp

from course_lib import compiler, grid, judges, text, vocabulary
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments, at_random, with_still_rows

LARGE = jax.ShapeDtypeStruct((2048, 2048), jnp.float32)
MOST = 1.1  # times as long as the bytes take
EPSILON = 1e-6


def reference(x, added=EPSILON):
    away = x - jnp.mean(x, axis=1, keepdims=True)
    return away * jax.lax.rsqrt(jnp.mean(away * away, axis=1, keepdims=True) + added)


def _cases() -> list[tuple]:
    """Return whole blocks of 256 rows, as in the exercise."""
    cases = arguments(("x: f32[M,N]",), ({"M": 256, "N": 128}, {"M": 512, "N": 128}, {"M": 256, "N": 256}))
    return [*cases, (with_still_rows(cases[1][0]),)]


def _without_spills(mended):
    try:
        report = compiler.compile_tpu(mended, LARGE)
    except compiler.Unavailable:
        return None
    if not report.ok:
        return f"For x[2048, 2048] the compiler refuses the kernel. {report.error.what}", "repair that first."
    if report.spills:
        return (
            f"For x[2048, 2048] the kernel spills {report.spills} registers and loads them again.",
            "a register holds 8 rows of 128 columns, and there are 64 of them. How many do the rows of one iteration "
            "fill, and which other values need registers?",
        )
    if report.seconds > MOST * report.hbm_seconds:
        return (
            f"Nothing spills, but the kernel takes {text.duration(report.seconds)}, {vocabulary.COMPILER}, and its "
            f"bytes {text.duration(report.hbm_seconds)}. The core waits in each iteration, and there are many.",
            "take more rows per iteration, as many as find registers.",
        )
    return None


def _in_blocks_of_256(mended):
    for operand in grid.walk(mended, LARGE).calls[0].operands:
        if operand.pipelined and tuple(operand.block_shape) != (256, 2048):
            return (
                f"Its block of {operand.name} is {tuple(operand.block_shape)}; it should stay (256, 2048).",
                "leave the call as it is, and change the kernel.",
            )
    return None


EXERCISE = Exercise(
    id="11.3",
    title="Find the spills, and remove them",
    kind="write",
    defines="mended",
    cases=_cases,
    reference=reference,
    slips=(
        judges.Slip(
            means="1e-6 is missing under the root, so a row of zeros becomes 0 / 0",
            value=lambda x: reference(x, 0.0),
            next="add it to the mean of the squares, before the root.",
        ),
    ),
    also=(_in_blocks_of_256, _without_spills),
    also_at=lambda: [(at_random(LARGE, 0),)],
    hints=(
        "How many registers do 256 rows of 2048 columns fill? viz.bundle_diff shows the stores and loads of spills.",
        "Loop over parts of the block with pl.loop and pl.ds(pl.multiple_of(rows * n, rows), rows), as in the lesson. "
        "A Python for will not do: it is unrolled, so the values of all its iterations are alive at once.",
        "An iteration fills rows x columns / 1024 registers. With 8 rows per iteration the core waits too often, and "
        "32 rows of 2048 columns leave no register for the sums.",
    ),
    points=2,
)
