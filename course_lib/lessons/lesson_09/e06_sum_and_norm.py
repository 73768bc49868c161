"""A residual sum and its RMSNorm, both returned, and every array moved once."""

import jax
import jax.numpy as jnp

from course_lib import cost, judges
from course_lib.checks.exercise import Exercise


def _reference(x, r, weight):
    s = x + r
    wide = s.astype(jnp.float32)
    mean = jnp.mean(wide * wide, axis=1, keepdims=True)
    return (wide * jax.lax.rsqrt(mean + 1e-6) * weight).astype(x.dtype), s


def _each_once(x, r, weight) -> int:
    return cost.stored_bytes(x, r, x, x) + cost.stored_bytes(weight.reshape(1, -1))


EXERCISE = Exercise(
    id="09.6",
    title="A sum and its norm",
    kind="write",
    defines="add_and_norm",
    inputs=("x: T[M,N]", "r: T[M,N]", "weight: f32[N]"),
    sizes=({"M": 32, "N": 256}, {"M": 48, "N": 128}, {"M": 20, "N": 300}),
    dtypes=("f32", "bf16"),
    reference=_reference,
    budget=judges.Budget(hbm_bytes=_each_once),
    hints=(
        "A block of whole rows of x and of r is all that its rows of both results need. What else has to come in?",
        "out_shape and out_specs are lists of two, and the kernel gets two output refs behind its inputs. The weight "
        "as (1, N) has a map that never changes.",
        "s = x_ref[...] + r_ref[...], rounded as the result s is: write it to s_ref. Then widen to float32, mean of "
        "the squares with keepdims=True, jax.lax.rsqrt, times weight_ref[...], .astype(o_ref.dtype).",
    ),
    points=2,
)
