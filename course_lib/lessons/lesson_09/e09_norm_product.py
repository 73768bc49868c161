"""Golf: a norm before a matmul, with as few bytes as possible."""

import jax
import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments, with_still_rows
from course_lib.checks.kinds.golf import BYTES, Golf

MOST_VMEM = 2**20


def _sizes() -> list[tuple]:
    """Return sizes that blocks of 128 divide; the first is scored. The last x has rows that show the 1e-6."""
    cases = arguments(("x: f32[M,K]", "w: f32[K,N]"), ({"M": 256, "K": 1024, "N": 256}, {"M": 128, "K": 256, "N": 128}))
    x, w = cases[-1]
    return [*cases, (with_still_rows(x), w)]


def _reference(x, w):
    normed = x * jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + 1e-6)
    return jnp.dot(normed, w, preferred_element_type=jnp.float32)


def _last_part_as_it_is(block: int):
    """Return what a kernel gives that scales the sum in the last step before it adds the last block of K."""

    def value(x, w):
        before, last = slice(None, -block), slice(-block, None)
        squares = jnp.sum(x[:, before] ** 2, axis=1, keepdims=True) / x.shape[1]
        return (x[:, before] @ w[before]) * jax.lax.rsqrt(squares + 1e-6) + x[:, last] @ w[last]

    return value


def _norm_so_far(block: int):
    """Return the sum of the products if each block of K is normed by the squares up to it."""

    def value(x, w):
        squares, total = 0.0, 0.0
        for start in range(0, x.shape[1], block):
            part = x[:, start : start + block]
            squares += jnp.sum(part * part, axis=1, keepdims=True)
            total += (part * jax.lax.rsqrt(squares / x.shape[1] + 1e-6)) @ w[start : start + block]
        return total

    return value


EXERCISE = Exercise(
    id="09.9",
    title="Golf: a norm in front of a product",
    kind="golf",
    defines="norm_product",
    cases=_sizes,
    reference=_reference,
    budget=judges.Budget(vmem_bytes=MOST_VMEM),
    golf=Golf(unit=BYTES, par=3_700_000),
    probes=tuple(
        judges.Probe(
            scratch="o_ref",
            after=(0,),
            grid=(1024 // block,),
            expect=lambda x, w, block=block: x[:, :block] @ w[:block] if x.shape[1] == 1024 else None,
            means="the product of the first blocks, not yet scaled",
            next="scale the result only once, in the last step.",
        )
        for block in (128, 256, 512)
    ),
    slips=tuple(
        slip
        for block in (128, 256, 512)
        for slip in (
            judges.Slip(
                means="each block of K is normalized by the squares added so far, and not by those of the whole row",
                value=_norm_so_far(block),
                next="multiply x as it is, and scale the result in the last step, when all squares have been added.",
            ),
            judges.Slip(
                means="the result is scaled before the last block of K is added",
                value=_last_part_as_it_is(block),
                next="add the squares and the product of the last block first, and then scale.",
            ),
        )
    ),
    hints=(
        "The norm multiplies each row of x by one number. How does a row of rms(x) @ w differ from that row of x @ w?",
        "If f has one number for each row, (f * x) @ w is f * (x @ w). So the factor can wait, and the kernel can add "
        "up the squares and the products in the same steps.",
        "The grid has one axis, over blocks of K. x has blocks of (M, 128), w has blocks of (128, N), and the result "
        "is one block that stays in VMEM. Add the squares in a scratch of (M, 1), and in the last step multiply o_ref "
        "by rsqrt(squares / K + 1e-6).",
    ),
    points=3,
)
