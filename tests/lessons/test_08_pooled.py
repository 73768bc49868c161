"""08.9 takes a kernel that skips copies too: its index map reads n, which the demand on blocks must give it."""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.checks.exercise import exercise
from course_lib.lessons.lesson_08 import e09_pooled


def in_blocks(s, v, n, side):
    """No mean at all: the demand looks at blocks alone."""
    block = pl.BlockSpec((side, 128), lambda j, i, n: (jnp.minimum(i, (n[0] - 1) // side), j))
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(s.shape[1] // 128, pl.cdiv(s.shape[0], side)),
        in_specs=[block, block],
        out_specs=pl.BlockSpec((1, 128), lambda j, i, n: (0, j)),
    )

    def kernel(n_ref, s_ref, v_ref, o_ref):
        o_ref[...] = s_ref[:1] + v_ref[:1]

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((1, s.shape[1]), s.dtype), grid_spec=spec)(n, s, v)


def test_a_map_that_reads_n_is_no_reason_to_refuse():
    assert e09_pooled._blocks_stay_small(functools.partial(in_blocks, side=32)) is None
    what, _ = e09_pooled._blocks_stay_small(functools.partial(in_blocks, side=4096))
    assert "has all of them" in what


def test_what_does_not_count_is_nan_in_one_case_and_the_reference_takes_it():
    cases = exercise("08.9").arguments()
    with_nan = [case for case in cases if any(jnp.isnan(leaf).any() for leaf in case[:2])]
    assert len(with_nan) == 1 and not jnp.isnan(exercise("08.9").reference(*with_nan[0])).any()
