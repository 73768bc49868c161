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
    away = _away(x)
    return away * jax.lax.rsqrt(jnp.mean(away * away, axis=1, keepdims=True) + added)


def _away(x):
    return x - jnp.mean(x, axis=1, keepdims=True)


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
    if report.spills and _is_unrolled(mended):
        return (
            f"For x[2048, 2048] the kernel spills {report.spills} registers. A Python for, or unroll=True, writes all "
            "parts of the block out as one program, whose values are alive at once.",
            "loop over the parts with pl.loop, without unroll, so that each part frees its registers for the next.",
        )
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


def _is_unrolled(mended) -> bool:
    """Return whether the kernel stores the block in several parts without a loop, or unrolls its whole loop."""
    eqns = grid.walk(mended, LARGE).calls[0].kernel.eqns
    loops = [eqn.params for eqn in eqns if eqn.primitive.name == "scan"]
    return sum(eqn.primitive.name == "swap" for eqn in eqns) > 1 or any(1 < p["length"] == p["unroll"] for p in loops)


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
        *(
            judges.Slip(
                means=f"it multiplies by the {name}, but should divide by the deviation",
                value=lambda x, power=power: (
                    _away(x) * (jnp.mean(_away(x) ** 2, axis=1, keepdims=True) + EPSILON) ** power
                ),
                next="multiply by jax.lax.rsqrt(variance + 1e-6), which is one over the root.",
            )
            for name, power in (("variance", 1), ("deviation", 0.5))
        ),
        judges.Slip(
            means="x is rounded to bfloat16 before its mean is taken",
            value=lambda x: reference(x.astype(jnp.bfloat16).astype(jnp.float32)),
            next="leave x in float32 throughout.",
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
