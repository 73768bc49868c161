"""Block-sparse products: their kernels by all four judges, with patterns of every kind; mistakes that must be seen."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_libtpu
from sweeps import daily

from course_lib import compat, compiler, grid, judges
from course_lib.kernels import block_sparse, block_sparse_blocks, block_sparse_kernels
from course_lib.kernels.block_sparse import Blocks, Pattern

# Rows and columns of blocks, and of each block where it lies: of any number of them a step takes 4.
PATTERNS = {
    "in order": ((4, 3), [0, 0, 1, 2, 3], [0, 2, 1, 2, 0]),
    "any order": ((4, 3), [3, 0, 3, 1, 0, 2, 1, 3, 0, 2, 1], [0, 1, 2, 2, 0, 0, 1, 1, 2, 2, 0]),
    "empty rows and columns": ((4, 3), [2, 0, 2], [1, 0, 0]),
    "one place twice": ((2, 3), [1, 0, 1, 1], [2, 0, 2, 2]),
    "surplus": ((2, 3), [0, 2, 1, -1, 0, 7], [1, 0, 2, 1, 3, -5]),
    "one block": ((1, 1), [0], [0]),
}
SMALL = Blocks(bn=128)
WAYS = {  # in which sdd has its operands in VMEM, with a depth of 200
    "all of a and b": ({}, 1.0),
    "rows of a": ({}, 0.0),
    "columns of b": ({"blocks": SMALL}, 0.0),
    "K cut": ({"blocks": Blocks(bk=128)}, 0.0),
}


@pytest.fixture(autouse=True)
def several_steps(monkeypatch):
    monkeypatch.setattr(block_sparse_blocks, "_MOST", 4)


def pattern_of(name):
    shape, rows, cols = PATTERNS[name]
    return Pattern(jnp.asarray(rows, jnp.int32), jnp.asarray(cols, jnp.int32), shape)


def sample(*shapes, dtype=jnp.float32):
    rng = np.random.default_rng(0)
    return [jnp.asarray(rng.normal(size=shape), dtype) for shape in shapes]


def dsd_case(name, transpose_a=False, h=8, w=128, n=200, dtype=jnp.float32):
    pattern = pattern_of(name)
    depth = pattern.shape[0] * h if transpose_a else pattern.shape[1] * w
    values, b = sample((pattern.rows.size, h, w), (depth, n), dtype=dtype)
    return values, pattern, b


def sdd_case(name, transpose_b=False, h=8, w=128, k=200, dtype=jnp.float32):
    pattern = pattern_of(name)
    n = pattern.shape[1] * w
    a, b = sample((pattern.shape[0] * h, k), (n, k) if transpose_b else (k, n), dtype=dtype)
    return a, b, pattern


def simulated(fn, *args):
    """In the TPU simulator, where what lies beyond an array is NaN."""
    traced = grid.trace(fn, *args)
    return jax.jit(lambda *a: grid.run(traced, compat.interpret_params(), *a))(*args)


def both_ways(fn, **how):
    """The result and the gradients, of arrays and a pattern, wherever that stands among them."""

    def run(*args):
        arrays, where = [arg for arg in args if not isinstance(arg, Pattern)], [*map(is_pattern, args)].index(True)
        o, pull = jax.vjp(lambda *x: fn(*x[:where], args[where], *x[where:], **how), *arrays)
        return o, *pull(jnp.cos(jnp.arange(o.size)).reshape(o.shape).astype(o.dtype))

    return run


def is_pattern(arg):
    return isinstance(arg, Pattern)


def near(got, want, tolerance=2e-5):
    for found, wanted in zip(got, want, strict=True):
        found, wanted = np.float32(found), np.float32(wanted)
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max(initial=1))


@pytest.mark.parametrize(
    "name, transpose_a",
    daily(
        ("any order", False), ("surplus", True), of=[(name, turned) for name in PATTERNS for turned in (False, True)]
    ),
)
def test_dsd_and_its_gradients_are_the_reference(name, transpose_a):
    args, how = dsd_case(name, transpose_a), {"transpose_a": transpose_a}
    got = simulated(both_ways(block_sparse.dsd, blocks=SMALL, **how), *args)
    near(got, jax.jit(both_ways(block_sparse.dsd_reference, **how))(*args))


@pytest.mark.parametrize(
    "name, transpose_b",
    daily(("one place twice", False), of=[(name, turned) for name in PATTERNS for turned in (False, True)]),
)
def test_sdd_and_its_gradients_are_the_reference(name, transpose_b):
    args, how = sdd_case(name, transpose_b), {"transpose_b": transpose_b}
    got = simulated(both_ways(block_sparse.sdd, **how), *args)
    near(got, jax.jit(both_ways(block_sparse.sdd_reference, **how))(*args))


@pytest.mark.parametrize(
    "name, way, transpose_b",
    daily(
        ("surplus", "all of a and b", True),
        ("any order", "rows of a", False),
        ("surplus", "columns of b", False),
        ("any order", "K cut", True),
        of=[(name, way, turned) for name in PATTERNS for way in WAYS for turned in (False, True)],
    ),
)
def test_sdd_however_its_operands_lie_in_vmem(name, way, transpose_b, monkeypatch):
    how, step = WAYS[way]
    monkeypatch.setattr(block_sparse_blocks, "_STEP", step)
    args = sdd_case(name, transpose_b)
    got = simulated(functools.partial(block_sparse.sdd, transpose_b=transpose_b, **how), *args)
    near(got, [block_sparse.sdd_reference(*args, transpose_b=transpose_b)])
