"""Block-sparse products: their kernels by all four judges, with patterns of every kind; mistakes that must be seen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from course_lib import compat, grid
from course_lib.kernels import block_sparse
from course_lib.kernels.block_sparse import Blocks, Pattern

# Rows and columns of blocks, and of each block where it lies.
PATTERNS = {
    "in order": ((4, 3), [0, 0, 1, 2, 3], [0, 2, 1, 2, 0]),
    "any order": ((4, 3), [3, 0, 3, 1, 0, 2, 1, 3, 0, 2, 1], [0, 1, 2, 2, 0, 0, 1, 1, 2, 2, 0]),
    "empty rows": ((4, 3), [2, 0, 2], [1, 0, 0]),
    "one place twice": ((2, 3), [1, 0, 1, 1], [2, 0, 2, 2]),
    "surplus": ((2, 3), [0, 2, 1, -1, 0, 7], [1, 0, 2, 1, 3, -5]),
}


def pattern_of(name):
    shape, rows, cols = PATTERNS[name]
    return Pattern(jnp.asarray(rows, jnp.int32), jnp.asarray(cols, jnp.int32), shape)


def sample(*shapes, dtype=jnp.float32):
    rng = np.random.default_rng(0)
    return [jnp.asarray(rng.normal(size=shape), dtype) for shape in shapes]


def simulated(fn, *args):
    """In the TPU simulator, where what lies beyond an array is NaN."""
    traced = grid.trace(fn, *args)
    return jax.jit(lambda *a: grid.run(traced, compat.interpret_params(), *a))(*args)


def near(got, want, tolerance=2e-5):
    for found, wanted in zip(got, want, strict=True):
        found, wanted = np.float32(found), np.float32(wanted)
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max(initial=1))


def dsd_case(name, h=16, w=128, n=200, transpose_a=False, dtype=jnp.float32):
    pattern = pattern_of(name)
    depth = pattern.shape[0] * h if transpose_a else pattern.shape[1] * w
    values, b = sample((pattern.rows.size, h, w), (depth, n), dtype=dtype)
    return values, pattern, b


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("transpose_a", [False, True])
def test_dsd_is_its_reference(name, transpose_a):
    values, pattern, b = dsd_case(name, transpose_a=transpose_a)

    def both_ways(fn, **how):
        def run(values, rows, cols, b):
            pat = Pattern(rows, cols, pattern.shape)
            o, pull = jax.vjp(lambda values, b: fn(values, pat, b, transpose_a=transpose_a, **how), values, b)
            return o, *pull(jnp.cos(jnp.arange(o.size)).reshape(o.shape).astype(o.dtype))

        return run

    args = values, pattern.rows, pattern.cols, b
    got = simulated(both_ways(block_sparse.dsd, blocks=Blocks(bn=128)), *args)
    near(got, jax.jit(both_ways(block_sparse.dsd_reference))(*args))
