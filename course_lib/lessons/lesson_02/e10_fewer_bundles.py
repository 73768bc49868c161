"""A whole kernel from an empty cell: the same rows in a twentieth of the core's cycles."""

import functools

import jax
import jax.numpy as jnp

from course_lib import compiler
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import at_random
from course_lib.lessons.lesson_02.gate import SLIPS, accepted, slow

BLOCK = (1024, 256)
TIMES_FEWER = 20


def _of_the_core(fn) -> int | None:
    """Return the cycles in which the core does not wait for copies; None if the compiler gives none."""
    report = compiler.compile_tpu(fn, jax.ShapeDtypeStruct(BLOCK, jnp.float32))
    return None if report.cycles is None else report.cycles - report.time_split.get("DMA wait", 0)


@functools.cache
def _of_the_slow_one() -> int:
    return _of_the_core(slow)


def _keeps_the_core_for_a_twentieth_of_the_time(gated):
    try:
        mine, its = _of_the_core(gated), _of_the_slow_one()
    except compiler.Unavailable:
        return None
    if mine is None or TIMES_FEWER * mine <= its:
        return None
    return (
        f"For x[{BLOCK[0]:,}, {BLOCK[1]}] your kernel takes {mine:,} cycles besides waiting for copies, predicted "
        f"(compiler). slow_gated takes {its:,}, which is {its / mine:.1f} times as many, but your kernel may take at "
        f"most {its // TIMES_FEWER:,}, {TIMES_FEWER} times fewer.",
        "first remove the waiting (more rows at a time), then the expensive work: count the VPU operations per "
        "element. Which of them could be done once a row, and which by the EUP?",
    )


EXERCISE = Exercise(
    id="02.10",
    title="From an empty cell: fewer bundles, the same rows",
    kind="write",
    defines="gated",
    inputs=("x: f32[M,N]",),
    sizes=({"M": 64, "N": 256}, {"M": 20, "N": 300}, {"M": 5, "N": 130}),
    within=(-4, 4),
    reference=accepted,
    slips=SLIPS,
    also=(_keeps_the_core_for_a_twentieth_of_the_time,),
    also_at=lambda: [(at_random(jax.ShapeDtypeStruct(BLOCK, jnp.float32), 0, (-4, 4)),)],
    hints=(
        "Begin with the cure from the lesson: the whole block at once, or many rows per iteration. checks.report then "
        "says what the core does.",
        "A division is a reciprocal of the EUP and a dozen operations of the VPU, and each element has two divisions. "
        "One of them has the same divisor in the whole row: use jax.lax.rsqrt once a row, and multiply.",
        "1 / (1 + exp(-x)) is 0.5 * tanh(0.5 * x) + 0.5, and tanh is a single operation of the EUP.",
    ),
    points=3,
)
