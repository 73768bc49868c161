"""A whole kernel from an empty cell: every row divided by its root mean square, in one pass over HBM."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from course_lib import chips, cost, grid, judges, text
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments, at_random, with_still_rows

LARGE = jax.ShapeDtypeStruct((1024, 4096), jnp.float32)  # 16 MiB, and as much for the result


def _by_root_mean_square(x, added=1e-6):
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=1, keepdims=True) + added)).astype(x.dtype)


def _rows() -> list[tuple]:
    sizes = ({"M": 32, "N": 256}, {"M": 20, "N": 300}, {"M": 5, "N": 130})
    cases = arguments(("x: T[M,N]",), sizes, ("f32", "bf16"))
    wide = arguments(("x: f32[M,N]",), ({"M": 3, "N": 4200},))[1]  # wider than a block that is cut may be
    return [*cases, (with_still_rows(cases[-3][0]),), wide]


def _in_and_out(x) -> int:
    """Return the bytes of a copy, which reads x once and writes it once."""

    def copy_kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    return cost.hbm_bytes(grid.walk(pl.pallas_call(copy_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype)), x))


def _serves_a_large_array(rms_rows):
    """Demand that the kernel fits into VMEM even for an array that does not."""
    limit = chips.chip("v5e").scoped_vmem_bytes
    needs = cost.vmem_bytes(grid.walk(rms_rows, LARGE))
    if needs > limit:
        return (
            f"For x[{', '.join(map(str, LARGE.shape))}] in float32 it needs {text.size(needs)} of VMEM, but a kernel "
            f"may use only {text.size(limit)}.",
            "cut x between its rows, into blocks of a few whole rows, with one grid step for each block.",
        )
    return None


EXERCISE = Exercise(
    id="03.11",
    title="From an empty cell: one pass over HBM",
    kind="write",
    defines="rms_rows",
    cases=_rows,
    reference=_by_root_mean_square,
    budget=judges.Budget(hbm_bytes=_in_and_out),
    slips=(
        judges.Slip(
            means="1e-6 is missing under the root: a row of zeros becomes 0 / 0",
            value=lambda x: _by_root_mean_square(x, 0.0),
            next="add it to the mean of the squares, before the root.",
        ),
    ),
    also=(_serves_a_large_array,),
    also_at=lambda: [(at_random(LARGE, 0),)],
    hints=(
        "The whole of a row is needed before any part of it can be written. How much of x must a block hold, so that "
        "no row is read twice?",
        "Use blocks of (8, columns), which hold a few whole rows. The grid has pl.cdiv(rows, 8) steps. If the last "
        "block overhangs, that does no harm, because each row has a result of its own.",
        "In the kernel, read x once and widen it to float32. Take jnp.mean(..., axis=1, keepdims=True) of the squares, "
        "add 1e-6, multiply x by jax.lax.rsqrt of that, and convert back to o_ref.dtype. For bfloat16 a block of 16 "
        "rows is as good.",
    ),
    points=2,
)
