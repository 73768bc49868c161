"""Shared memory that is written while TMA still stores it, to be repaired."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_17 import hopper

PIECES = 2


def by_tma(fn: Callable) -> tuple[str, str] | None:
    """Report a kernel in which TMA does not copy both pieces in and out."""
    if min(hopper.count(EXERCISE, fn, copy) for copy in ("copy_gmem_to_smem", "copy_smem_to_gmem")) < PIECES:
        return "The values are right, but TMA does not copy both pieces in and out.", _KEEP
    return None


def advise(verdict: judges.Verdict) -> str:
    """Return where to look if o_smem is written too early: the judge's own advice is the missing line."""
    if "is written again while TMA" not in verdict.message:
        return ""
    return (
        "go through both pieces line by line, and note for o_smem when TMA begins to read it, and which line knows "
        "that it has finished."
    )


_KEEP = "keep the lines of double_kernel_broken, and add the one that is missing."


def _values(seed: int, size: int):
    return jnp.asarray(np.random.default_rng(seed).integers(-64, 65, size) / 8, jnp.float32)


EXERCISE = Exercise(
    id="17.6",
    title="Repair: two pieces through one buffer",
    kind="repair",
    defines="double_kernel",
    judged="two_pieces",
    cases=lambda: [(_values(0, 1024),), (_values(1, 256),)],
    reference=lambda x: 2 * x,
    engine="gpu",
    chips=("h100",),
    also=(by_tma,),
    advise=advise,
    hints=(
        "Which memory does the second piece write that the first may still need?",
        "copy_smem_to_gmem only starts a copy. What does TMA read while the loop goes on?",
        "Before o_smem is written again, wait until TMA has read it: plgpu.wait_smem_to_gmem(0, wait_read_only=True).",
    ),
    points=2,
)
