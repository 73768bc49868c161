"""A residual sum and its RMSNorm, both returned, with every array moved once."""

import jax
import jax.numpy as jnp

from course_lib import cost, grid, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments, with_still_rows

MOST_VMEM = 512 * 2**10
_STATISTICS = {"mul", "square", "integer_pow", "rsqrt", "sqrt", "div", "reduce_sum"}


def _reference(x, r, weight, added=1e-6):
    s = x + r
    wide = s.astype(jnp.float32)
    mean = jnp.mean(wide * wide, axis=1, keepdims=True)
    return (wide * jax.lax.rsqrt(mean + added) * weight).astype(x.dtype), s


def _rows() -> list[tuple]:
    sizes = ({"M": 32, "N": 256}, {"M": 20, "N": 300}, {"M": 160, "N": 256})
    cases = arguments(("x: T[M,N]", "r: T[M,N]", "weight: f32[N]"), sizes, ("f32", "bf16"))
    x, r, weight = cases[1]
    return [*cases, (with_still_rows(x), with_still_rows(r), weight)]


def _each_once(x, r, weight) -> int:
    return cost.stored_bytes(x, r, x, x) + cost.stored_bytes(weight.reshape(1, -1))


def _statistics_wide(add_and_norm):
    """Demand that squares, means and roots are float32 even if x and r are bfloat16."""
    x, weight = jax.ShapeDtypeStruct((32, 256), jnp.bfloat16), jax.ShapeDtypeStruct((256,), jnp.float32)
    traced = jax.make_jaxpr(add_and_norm)(x, x, weight)
    narrow = {
        eqn.primitive.name
        for call in grid.pallas_calls(traced.jaxpr)
        for eqn in grid.equations(call.params["jaxpr"])
        if eqn.primitive.name in _STATISTICS and eqn.outvars[0].aval.dtype == jnp.bfloat16
    }
    if not narrow:
        return None
    return (
        "For bfloat16 arguments the result is close enough, but the statistics are computed in bfloat16 "
        f"({', '.join(sorted(narrow))}), which rounds each step to 8 bits. The exercise asks for float32.",
        "widen s before you square it: s = s_ref[...].astype(jnp.float32).",
    )


def _mean_of(which: int):
    """Return the norm with the mean of the squares of x or r, in the place of that of x + r."""

    def value(x, r, weight):
        alone = (x, r)[which].astype(jnp.float32)
        s = (x + r).astype(jnp.float32)
        mean = jnp.mean(alone * alone, axis=1, keepdims=True)
        return (s * jax.lax.rsqrt(mean + 1e-6) * weight).astype(x.dtype)

    return value


EXERCISE = Exercise(
    id="09.6",
    title="A sum and its norm",
    kind="write",
    defines="add_and_norm",
    cases=_rows,
    reference=_reference,
    budget=judges.Budget(hbm_bytes=_each_once, vmem_bytes=MOST_VMEM),
    slips=(
        judges.Slip(
            means="1e-6 is missing under the root, so a row of zeros becomes 0 / 0",
            value=lambda x, r, weight: _reference(x, r, weight, 0.0),
            next="add it to the mean of the squares, before the root.",
        ),
        *(
            judges.Slip(
                output=0,
                means=f"the mean is that of the squares of {name} alone",
                value=_mean_of(which),
                next="take the mean of s * s, with s = x + r.",
            )
            for which, name in enumerate("xr")
        ),
        judges.Slip(
            output=0,
            means="the norm was multiplied by 1 + weight",
            value=lambda x, r, weight: _reference(x, r, 1 + weight)[0],
            next="multiply by weight itself.",
        ),
    ),
    also=(_statistics_wide,),
    hints=(
        "With a block of whole rows of x and the same rows of r, you can compute those rows of both results. What else "
        "does the kernel have to read?",
        "out_shape and out_specs are lists of two, and the kernel gets two output refs after its inputs. Pass the "
        "weight as (1, N), with a map that never changes.",
        "Write s = x_ref[...] + r_ref[...] to s_ref, which rounds it to the dtype of x. Then widen s to float32, take "
        "the mean of its squares with keepdims=True, multiply s by jax.lax.rsqrt(mean + 1e-6) and by weight_ref[...], "
        "and convert the result with .astype(o_ref.dtype).",
    ),
    points=2,
)
