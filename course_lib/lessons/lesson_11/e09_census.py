"""A whole kernel from an empty cell: count the bad values of each column, and find the largest good one."""

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import chips, cost, grid, judges, text
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import at_random


def reference(x, end=np.inf):
    fine = jnp.abs(x) < end
    bad = jnp.sum(~fine, axis=0, keepdims=True, dtype=jnp.int32)
    return bad, jnp.max(jnp.where(fine, jnp.abs(x), 0), axis=0, keepdims=True)


def _arrays() -> list[tuple]:
    """Return arrays with NaN, infinities, the largest float32 and a column of NaN; 8 need not divide the rows."""
    made = []
    for seed, shape in enumerate(((64, 256), (24, 128), (100, 384), (513, 128))):
        random = np.random.default_rng(seed)
        x = random.normal(size=shape).astype(np.float32)
        for value in (np.nan, np.inf, -np.inf):
            x[random.integers(0, shape[0], 5), random.integers(0, shape[1], 5)] = value
        x[:, 3] = np.nan
        x[shape[0] // 2, 5] = np.finfo(np.float32).max  # finite, and larger than any limit that one would type
        made.append((jnp.asarray(x),))
    return made


LONG = jax.ShapeDtypeStruct((32_768, 256), jnp.float32)  # 32 MiB


def _serves_long_arrays(census):
    limit = chips.chip("v5e").scoped_vmem_bytes
    needs = cost.vmem_bytes(grid.walk(census, LONG))
    if needs > limit:
        return (
            f"For x[{LONG.shape[0]:,}, 256] the kernel needs {text.size(needs)} of VMEM; it gets {text.size(limit)}.",
            "cut the rows into blocks whose size does not depend on M.",
        )
    return None


EXERCISE = Exercise(
    id="11.9",
    title="From an empty cell: a census of what went bad",
    kind="write",
    defines="census",
    cases=_arrays,
    reference=reference,
    budget=judges.Budget(
        hbm_bytes=lambda x: (
            cost.stored_bytes(x) + 2 * 8 * cost.stored_bytes(jax.ShapeDtypeStruct((1, x.shape[1]), "float32"))
        ),
        spills=0,
    ),
    slips=(
        judges.Slip(
            means="the largest |x| is asked for, but the sign counts here",
            value=lambda x: (reference(x)[0], jnp.max(jnp.where(jnp.isfinite(x), x, 0), axis=0, keepdims=True)),
            next="take jnp.abs before you compare.",
        ),
        judges.Slip(
            means="only NaN is counted, but infinities are bad as well",
            value=lambda x: (jnp.sum(jnp.isnan(x), axis=0, keepdims=True, dtype=jnp.int32), reference(x)[1]),
            next="use abs(x) < inf, which is false for both.",
        ),
        judges.Slip(
            means="the last row of x is left out",
            value=lambda x: reference(x[:-1]),
            next="compare the index of a row with m itself: row < m.",
        ),
        judges.Slip(
            output=1,
            means="it adds up the |x| of a column, but the largest is asked for",
            value=lambda x: jnp.sum(jnp.where(jnp.isfinite(x), jnp.abs(x), 0), axis=0, keepdims=True),
            next="take jnp.max within a block, and jnp.maximum of that and what the output holds.",
        ),
        judges.Slip(
            output=1,
            means="the largest |x| stays 0, where it starts",
            value=lambda x: jnp.zeros((1, x.shape[1]), x.dtype),
            next="keep the larger of what the output holds and this block's: jnp.maximum, not jnp.minimum.",
        ),
        judges.Slip(
            output=0,
            means="minus infinity is not counted, because it is smaller than infinity",
            value=lambda x: jnp.sum(~(x < jnp.inf), axis=0, keepdims=True, dtype=jnp.int32),
            next="compare the absolute value: abs(x) < inf.",
        ),
        judges.Slip(
            output=1,
            means="a column without good values gives -inf, but it must give 0",
            value=lambda x: jnp.max(jnp.where(jnp.isfinite(x), jnp.abs(x), -jnp.inf), axis=0, keepdims=True),
            next="start at 0, and replace bad values by 0, because no |x| is smaller.",
        ),
        judges.Slip(
            means="a finite value counts as bad, because float32 goes up to 3.4e38",
            value=lambda x: reference(x, 3e38),
            next="compare with jnp.inf: abs(x) < jnp.inf.",
        ),
    ),
    also=(_serves_long_arrays,),
    also_at=lambda: [(at_random(LONG, 0),)],
    hints=(
        "Both outputs are [1, N], and both stay in VMEM while the rows go by. Which values do they start with? In a "
        "kernel jnp.isfinite takes only float32, but a comparison works for every dtype: for which values is |x| "
        "smaller than infinity?",
        "abs(x) < inf is false for NaN and for infinities. The last block of rows may extend past the end of x, where "
        "it contains garbage that may look bad.",
        "Let row = rows * program_id + iota and ours = row < m. Then fine = ours & (abs(x) < inf) and bad = ours & "
        "~(abs(x) < inf). Count with jnp.sum(jnp.where(bad, 1, 0), axis=0, keepdims=True), which is int32.",
    ),
    points=4,
)
