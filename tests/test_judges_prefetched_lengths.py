"""What is said of kernels that take lengths from a list: lengths of 0, and NaN behind the end."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import judges

LENGTHS = np.array([20, 0, 8], np.int32)
X = np.random.default_rng(0).normal(size=(3, 24, 128)).astype(np.float32)
STALE = np.where(np.arange(24)[None, :, None] < LENGTHS[:, None, None], X, np.nan)


def totals(lengths, x, *, stored, cleaned):
    """The sum of the first rows of each matrix, eight rows a step; ``stored(j, left)`` says when it is written."""

    def kernel(lengths_ref, x_ref, o_ref, acc_ref):
        b, j = pl.program_id(0), pl.program_id(1)
        left = lengths_ref[b] - 8 * j
        row = jax.lax.broadcasted_iota(jnp.int32, (8, 128), 0)

        @pl.when(j == 0)
        def begin():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        rows = x_ref[...]
        acc_ref[...] += jnp.where(row < left, rows, 0) if cleaned else rows * (row < left).astype(rows.dtype)

        @pl.when(stored(j, left))
        def store():
            o_ref[...] = acc_ref[...]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((3, 8, 128), x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(3, 3),
            in_specs=[pl.BlockSpec((None, 8, 128), lambda b, j, lengths_ref: (b, j, 0))],
            out_specs=pl.BlockSpec((None, 8, 128), lambda b, j, lengths_ref: (b, 0, 0)),
            scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
        ),
    )(lengths, x)


def summed(lengths, x):
    there = jnp.arange(24)[None, :, None] < lengths[:, None, None]
    return jnp.where(there, x, 0).reshape(3, 3, 8, 128).sum(axis=1)


def said(x, *slips, stored=lambda j, left: j == 2, cleaned=True):
    fn = lambda lengths, x: totals(lengths, x, stored=stored, cleaned=cleaned)  # noqa: E731
    return judges.JUDGES["numbers"](judges.Trial(fn, summed, (LENGTHS, x), slips=slips))


@pytest.mark.parametrize("x", [X, STALE], ids=["numbers behind", "NaN behind"])
def test_a_right_one_passes(x):
    assert said(x).passed


def test_a_block_that_no_step_writes_is_not_said_to_start_anew():
    verdict = said(X, stored=lambda j, left: (left > 0) & (left <= 8))
    assert verdict.passed is False
    assert "None of the steps of this block writes to o_ref" in verdict.message


def test_a_slip_that_is_nan_is_not_a_nan_of_the_arguments():
    slip = judges.Slip(
        means="everything is divided by 0", value=lambda lengths, x: summed(lengths, x) / 0 * 0, next="?"
    )
    verdict = said(STALE, slip, cleaned=False)
    assert verdict.passed is False and "known slip" not in verdict.message
    assert "is NaN and must not count" in verdict.message
