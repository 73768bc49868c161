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
            next="scale the result once, in the last step.",
        )
        for block in (128, 256, 512)
    ),
    slips=tuple(
        slip
        for block in (128, 256, 512)
        for slip in (
            judges.Slip(
                means="each block of K is normed by the squares that were added up to it, and not by all of them",
                value=_norm_so_far(block),
                next="multiply x as it is, and scale the result in the last step: then all squares are there.",
            ),
            judges.Slip(
                means="the result is scaled before the last block of K is added",
                value=_last_part_as_it_is(block),
                next="add the last block's squares and product first, and then scale.",
            ),
        )
    ),
    hints=(
        "A row's factor is one number. Is a row of the product with the normed x a row of x @ w, times something?",
        "(f * x) @ w is f * (x @ w) where f is one number a row. So the factor can wait, and the squares can be added "
        "up while the product is.",
        "One axis in the grid, over blocks of K: x in (M, 128), w in (128, N), the result whole and standing still. A "
        "scratch of (M, 1) collects the sums of squares; in the last step o_ref is multiplied by rsqrt(squares / K + "
        "1e-6).",
    ),
    points=3,
)
