"""Reductions: over rows, columns and everything, by all four judges; gradients and ties; complaints."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accepted import accepted
from conftest import needs_libtpu
from jax.test_util import check_grads
from sweeps import daily

from course_lib import chips, compiler, cost, grid
from course_lib.kernels import reduce
from course_lib.kernels.reduce import Blocks

SMALL = Blocks(bm=128, bn=128)
OPS = {"sum": (reduce.sum_over, reduce.sum_over_reference), "max": (reduce.max_over, reduce.max_over_reference)}


def some(shape, dtype=jnp.float32):
    return jnp.asarray(np.random.default_rng(0).normal(size=shape) * 20 - 30, dtype)


RAGGED = [
    ("sum", 0, "float32"),
    ("sum", -1, "float32"),
    ("sum", None, "bfloat16"),
    ("sum", -1, "int32"),
    ("max", 0, "bfloat16"),
    ("max", -1, "float32"),
    ("max", None, "int32"),
]


@pytest.mark.parametrize("op, axis, dtype", daily(("max", -1, "float32"), of=RAGGED))
def test_ragged_blocks_by_four_judges(op, axis, dtype):
    """All numbers are far below zero on average: a maximum that began with 0, or with garbage, would show."""
    ours, reference = OPS[op]
    accepted(lambda x: ours(x, axis, blocks=SMALL), lambda x: reference(x, axis), some((150, 300), dtype))


# Between others, as (A, N, C) and as (A, N, R, C), in several ragged blocks; better the last; several; with ones.
MIDDLE = [
    ("sum", (20, 50, 140), 1, "bfloat16", SMALL),
    ("max", (2, 30, 20, 140), -3, "float32", SMALL),
    ("sum", (2, 3, 300, 20), 2, "float32", SMALL),
    ("sum", (30, 20, 140), 0, "int32", None),
    ("max", (2, 3, 4, 5), (0, 2), "float32", None),
    ("sum", (2, 3, 4, 5), (2, 0, 1), "float32", None),
    ("sum", (40, 5, 1), 1, "float32", None),
]


@pytest.mark.parametrize("op, shape, axis, dtype, blocks", daily(MIDDLE[0], of=MIDDLE), ids=str)
def test_any_axis_by_four_judges(op, shape, axis, dtype, blocks):
    ours, reference = OPS[op]
    accepted(lambda x: ours(x, axis, blocks=blocks), lambda x: reference(x, axis), some(shape, dtype))


@pytest.mark.parametrize("axis", [1, -3, (0, 2), (1, -1), (0, 1, 2), ()], ids=str)
def test_any_axes_and_their_gradients_are_those_of_jax(axis):
    x = jnp.round(some((4, 6, 5)) / 20)
    for ours, theirs in ((reduce.sum_over, jnp.sum), (reduce.max_over, jnp.max)):
        got, want = (jax.jit(jax.value_and_grad(lambda x, f=f: (f(x, axis) ** 2).sum()))(x) for f in (ours, theirs))
        np.testing.assert_allclose(got[0], want[0], rtol=1e-6)
        np.testing.assert_allclose(got[1], want[1], rtol=1e-6)


@needs_libtpu
@pytest.mark.parametrize("shape, axis", daily(((32, 256, 1024), 1), of=[((32, 256, 1024), 1), ((4, 64, 64, 512), 1)]))
def test_an_axis_between_others_is_read_once_where_it_lies(shape, axis):
    x = jax.ShapeDtypeStruct(shape, jnp.float32)
    report = compiler.compile_tpu(lambda x: reduce.sum_over(x, axis), x)
    assert [op.kind for op in report.ops] == ["kernel"]
    assert report.hbm_bytes <= 1.1 * x.size * 4


@pytest.mark.parametrize(
    "shape, axis",
    daily(
        ((5001,), None),
        of=[((1, 1), 0), ((7, 13), -1), ((7, 13), None), ((3, 5, 200), -1), ((5001,), None), ((1, 40_000), -1)],
    ),
    ids=str,
)
def test_blocks_chosen_by_four_judges(shape, axis):
    accepted(lambda x: reduce.sum_over(x, axis), lambda x: reduce.sum_over_reference(x, axis), some(shape))


def test_a_long_vector_in_several_blocks():
    accepted(lambda x: reduce.max_over(x, blocks=SMALL), jnp.max, some((40_000,), jnp.bfloat16))


@pytest.mark.parametrize("axis", [0, -1, None], ids=str)
def test_gradients_are_those_of_jax_ties_included(axis):
    x = jnp.round(some((6, 10)) / 20)
    for ours, theirs in ((reduce.sum_over, jnp.sum), (reduce.max_over, jnp.max)):
        got, want = (jax.jit(jax.grad(lambda x, f=f: (f(x, axis) ** 2).sum()))(x) for f in (ours, theirs))
        np.testing.assert_allclose(got, want, rtol=1e-6)
    check_grads(lambda x: reduce.sum_over(x, axis), (x,), order=1, modes=["rev"], eps=0.5)


def test_nan_is_the_maximum():
    x = some((200, 300)).at[150, 7].set(jnp.nan)
    accepted(lambda x: reduce.max_over(x, -1), lambda x: jnp.max(x, -1), x)


def test_where_there_is_nothing_to_reduce():
    np.testing.assert_array_equal(reduce.sum_over(jnp.zeros((0, 4)), 0), jnp.zeros(4))
    assert reduce.max_over(jnp.zeros((0, 4)), -1).shape == (0,)
    assert reduce.sum_over(jnp.float32(3)) == 3
    with pytest.raises(ValueError, match=r"max_over: x has shape \(0, 4\), and nothing has no maximum"):
        reduce.max_over(jnp.zeros((0, 4)), 0)


@needs_libtpu
@pytest.mark.parametrize("axis", [0, -1, None], ids=str)
def test_large_arrays_are_bound_by_hbm(axis):
    """Predicted, in f32: within 2 % of the time that reading x takes. x is read once."""
    x = jax.ShapeDtypeStruct((8192, 2048), jnp.float32)

    def total(x):
        return reduce.sum_over(x, axis)

    report = compiler.compile_tpu(total, x)
    assert report.seconds <= 1.02 * x.size * 4 / chips.chip("v5e").hbm_bandwidth
    kept = {0: 2048, -1: 8192, None: 2 * 2048 + 1}[axis]
    assert cost.payload_bytes(grid.walk(total, x)) == 4 * (x.size + kept)


@needs_libtpu
@pytest.mark.parametrize(
    "shape", daily([2_000_001], of=[[3, 200_000], [200_000, 3], [10_000, 10_000], [2_000_001]]), ids=str
)
def test_blocks_chosen_are_legal_and_fit(shape):
    x = jax.ShapeDtypeStruct(shape, jnp.bfloat16)
    for chip in ("v5e", "v5p"):
        for axis in (-1, None):
            report = compiler.compile_tpu(lambda x, a=axis: reduce.sum_over(x, a), x, chip=chip, simulate=False)
            assert report.ok, report.error


@needs_libtpu
def test_gradients_and_vmap_compile_for_a_v5e():
    x = jax.ShapeDtypeStruct((3, 300, 700), jnp.float32)
    for op in (reduce.sum_over, reduce.max_over):
        gradient = jax.vmap(jax.grad(lambda x, op=op: (op(x, 0) ** 2).sum()))
        report = compiler.compile_tpu(gradient, x, simulate=False)
        assert report.ok, report.error


@pytest.mark.parametrize(
    "x, axis, says",
    [
        (jnp.zeros((2, 3)), 2, r"axis is 2 and x has shape \(2, 3\); it may be a whole number from -2 to 1, a tuple"),
        (jnp.zeros((2, 3)), (0, -2), r"axis is \(0, -2\) and x .* a tuple of such, each axis once, or None"),
        (jnp.zeros(()), 0, r"axis is 0 and x has shape \(\); it may be None, for all"),
        (jnp.zeros((2, 3), jnp.int8), 0, "x is int8; it may be float32, bfloat16 or int32"),
    ],
)
def test_bad_input_gets_one_clear_error(x, axis, says):
    with pytest.raises(ValueError, match=says):
        reduce.sum_over(x, axis)


def test_blocks_chosen_for_a_long_vector_fit_the_smallest_vmem():
    """A row by itself is not padded to 8: counted as if it were, it did not fit a v4."""
    with chips.chip("v4").target():
        assert jax.eval_shape(reduce.sum_over, jax.ShapeDtypeStruct((2_000_001,), jnp.float32)).shape == ()


def test_blocks_larger_than_the_chip_are_refused():
    with pytest.raises(ValueError, match=r"needs [0-9.]+ MiB of VMEM, and the chip has 128.0 MiB"):
        reduce.sum_over(jnp.zeros((8192, 8192)), 0, blocks=Blocks(bm=8192, bn=8192))
