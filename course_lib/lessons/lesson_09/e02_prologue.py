"""A matmul with int8 weights that are widened in VMEM, and nowhere else."""

import jax
import jax.numpy as jnp

from course_lib import cost, grid, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.unfit import Unfit

MOST_VMEM = 192 * 2**10


def _few_rows() -> list[tuple]:
    """Return few rows, and columns that blocks of 128 divide, because this exercise is about weights, not edges."""
    inputs = ("x: bf16[M,K]", "q: int8[K,N]", "scale: f32[N]")
    return arguments(
        inputs, ({"M": 16, "K": 256, "N": 1024}, {"M": 32, "K": 128, "N": 256}, {"M": 16, "K": 384, "N": 128})
    )


def _reference(x, q, scale):
    return jnp.dot(x.astype(jnp.float32), q.astype(jnp.float32)) * scale


def _scaled_before(x, q, scale):
    wide = (q.astype(jnp.float32) * scale).astype(x.dtype)
    return jnp.dot(x, wide, preferred_element_type=jnp.float32)


def _scaled_before_and_behind(x, q, scale):
    return _scaled_before(x, q, scale) * scale


def _scaled_at_each_step(x, q, scale):
    """Return the sum over blocks of 128 if it is scaled whenever a block has been added."""
    total = 0.0
    for start in range(0, x.shape[1], 128):
        part = _reference(x[:, start : start + 128], q[start : start + 128], 1.0)
        total = (total + part) * scale
    return total


def _reads_bytes(from_bytes):
    """Return the function if its kernel reads q as it is stored. Raise Unfit if q is widened before the kernel."""
    arrays = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in _few_rows()[0]]
    try:
        calls = grid.walk(from_bytes, *arrays).calls
    except Exception:  # the judges report any error when they run it
        return from_bytes
    if calls and all(operand.dtype != jnp.int8 for call in calls for operand in call.operands):
        raise Unfit(
            "No kernel reads int8, because q is widened before the kernel. The wide copy goes to HBM and back.",
            "pass q as it is, and write q_ref[...].astype(x_ref.dtype) in the kernel.",
            headline="q is widened outside the kernel.",
        )
    return from_bytes


def _each_once(x, q, scale) -> int:
    return cost.stored_bytes(x, q, scale, jnp.zeros((x.shape[0], q.shape[1]), jnp.float32))


EXERCISE = Exercise(
    id="09.2",
    title="A prologue: weights in int8",
    kind="write",
    defines="from_bytes",
    cases=_few_rows,
    reference=_reference,
    build=_reads_bytes,
    slips=(
        judges.Slip(
            means="q * scale is rounded to bfloat16 before the matmul",
            value=_scaled_before,
            next="apply the scale after the matmul, while the sum is still float32.",
        ),
        judges.Slip(
            means="q is multiplied by scale before the matmul, and the result once more",
            value=_scaled_before_and_behind,
            next="multiply the result by scale, and leave q as it is.",
        ),
        judges.Slip(
            means="the sum so far is multiplied by scale at each step along K, so early blocks are scaled repeatedly",
            value=_scaled_at_each_step,
            next="multiply by scale only in the last step along K, or let a block of q hold all of K.",
        ),
        judges.Slip(
            means="x was converted to int8, which drops fractions and wraps values beyond 127",
            value=lambda x, q, scale: _reference(x.astype(jnp.int8), q, scale),
            next="convert q to the dtype of x, and leave x as it is.",
        ),
        judges.Slip(
            means="q was read as unsigned, so that -1 became 255",
            value=lambda x, q, scale: _reference(x, q.astype(jnp.uint8), scale),
            next="write q_ref[...].astype(x_ref.dtype), without another dtype in between.",
        ),
    ),
    budget=judges.Budget(hbm_bytes=_each_once, vmem_bytes=MOST_VMEM),
    hints=(
        "x is small and q is large. Which of them can stay in VMEM while blocks of the other one are copied in?",
        "The grid has one axis, over the columns. x is one block, whose map does not use j, and q has blocks of "
        "(K, 128). Widen the block of q in the kernel, with .astype(x_ref.dtype).",
        "Each element of scale belongs to one column of the sum, so it can be applied after the matmul, in float32: "
        "o_ref[...] = product * scale_ref[...]. Pass scale as (1, N), in blocks of (1, 128).",
    ),
    points=2,
)
