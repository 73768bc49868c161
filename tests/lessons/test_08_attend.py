"""08.9: what its cases hold, and what the demand on blocks says."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

from course_lib.checks.exercise import exercise
from course_lib.lessons.lesson_08 import e09_attend


def in_blocks(s, v, n, side):
    """No attention at all: the demand looks at blocks alone."""

    def kernel(n_ref, s_ref, v_ref, o_ref):
        o_ref[...] = s_ref[:, :128] + v_ref[:1] + n_ref[...]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((s.shape[0], 128), s.dtype),
        grid=(pl.cdiv(s.shape[1], side),),
        in_specs=[
            pl.BlockSpec((s.shape[0], 1), lambda j: (0, 0)),
            pl.BlockSpec((s.shape[0], side), lambda j: (0, j)),
            pl.BlockSpec((side, 128), lambda j: (j, 0)),
        ],
        out_specs=pl.BlockSpec((s.shape[0], 128), lambda j: (0, 0)),
    )(n, s, v)


def test_blocks_may_not_grow_with_the_keys():
    assert e09_attend._blocks_stay_small(functools.partial(in_blocks, side=128)) is None
    what, _ = e09_attend._blocks_stay_small(functools.partial(in_blocks, side=4096))
    assert "s_ref and of v_ref has all of them" in what


def test_every_case_has_a_query_for_each_end_and_the_reference_takes_them():
    *cases, far = exercise("08.9").arguments()
    assert [bool(jnp.isnan(s).any()) for s, _, _ in cases] == [False, False, False, True, False, False]
    for s, v, n in cases:
        assert {0, 1, s.shape[1]} <= set(np.ravel(n).tolist())
        out = exercise("08.9").reference(s, v, n)
        assert not jnp.isnan(out).any() and not out[1].any()
        np.testing.assert_allclose(out[2], v[0], rtol=1e-6)
    assert jnp.max(far[0]) <= -1e30
