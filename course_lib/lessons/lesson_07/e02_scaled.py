"""An accumulator in scratch, and a factor per column at the end."""

import jax.numpy as jnp

from course_lib import grid, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.lessons.lesson_07 import bfloat16_dots


def _depths_in_blocks() -> list[tuple]:
    """Return K in whole blocks of 128; 07.7 handles the rest. The first has four output blocks of two steps each."""
    sizes = ({"M": 64, "K": 256, "N": 256}, {"M": 40, "K": 384, "N": 200}, {"M": 5, "K": 128, "N": 70})
    return arguments(("x: bf16[M,K]", "y: bf16[K,N]", "s: f32[1,N]"), sizes)


def _scaled(x, y, s):
    return (jnp.dot(x, y, preferred_element_type=jnp.float32) * s).astype(x.dtype)


def _first_sum(k):
    def expect(x, y, s):
        return jnp.dot(x[:32, : 128 * (k + 1)], y[: 128 * (k + 1), :128], preferred_element_type=jnp.float32)

    return judges.Probe(
        scratch="acc_ref",
        place=0,
        after=(0, 0, k),
        grid=(2, 2, 2),
        expect=expect,
        means="the sum of the products so far, not scaled yet",
        next="keep the plain sum in acc_ref, and apply s only in the last step.",
    )


def _rounded_first(x, y, s):
    product = jnp.dot(x, y, preferred_element_type=jnp.float32).astype(x.dtype)
    return (product * s).astype(x.dtype)


def _rounded_both(x, y, s):
    return jnp.dot(x, y, preferred_element_type=jnp.float32).astype(x.dtype) * s.astype(x.dtype)


def _stores_once(scaled):
    """Demand that o_ref is written under a condition, not at every step."""
    (call,) = grid.walk(scaled, *_depths_in_blocks()[0]).calls
    o_ref = call.kernel.invars[len(call.inputs)]
    if any(eqn.primitive.name == "swap" and eqn.invars[0] is o_ref for eqn in call.kernel.eqns):
        return (
            "The result is right, but o_ref is written at every step, and only what the last step writes counts.",
            "write o_ref once, in the last step: under @pl.when(pl.program_id(2) == pl.num_programs(2) - 1).",
        )
    return None


_SCALE_FIRST = "multiply by s first, in float32, and then cast, so that only the last line rounds."

EXERCISE = Exercise(
    id="07.2",
    title="An accumulator in scratch, and a factor for each column",
    kind="write",
    defines="scaled_kernel",
    judged="scaled",
    cases=_depths_in_blocks,
    reference=_scaled,
    probes=(_first_sum(0), _first_sum(1)),
    slips=(
        *(
            judges.Slip(means="the sum was rounded to bfloat16 before it was scaled", value=value, next=_SCALE_FIRST)
            for value in (_rounded_first, _rounded_both)
        ),
        judges.Slip(
            means="all columns of a block are scaled by the factor of its first column",
            value=lambda x, y, s: _scaled(x, y, jnp.repeat(s[:, ::128], 128, axis=1)[:, : s.shape[1]]),
            next="multiply by all of s_ref, because each column has a factor of its own.",
        ),
        judges.Slip(
            means="the last block of K is missing, because o_ref is written before its product is added",
            value=lambda x, y, s: _scaled(x[:, :-128], y[:-128], s),
            next="write o_ref in the last step along K, after the product of that step has been added.",
        ),
    ),
    also=(
        bfloat16_dots.demanded(
            _depths_in_blocks, "multiply the bfloat16 blocks as they are, and apply s to the finished sum."
        ),
        _stores_once,
    ),
    hints=(
        "The kernel has three parts: one for the first step of axis 2, one for every step, and one for the last. In "
        "which of them does s belong?",
        "acc_ref holds the plain sum in float32. o_ref is written once, where pl.program_id(2) is "
        "pl.num_programs(2) - 1.",
        "The last part is o_ref[...] = (acc_ref[...] * s_ref[...]).astype(o_ref.dtype), which scales and then rounds.",
    ),
    points=2,
)
