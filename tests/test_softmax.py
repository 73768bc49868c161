"""Softmax: odd shapes by all four judges, whole rows and rows in pieces; its gradient; its blocks and complaints."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accepted import accepted
from conftest import needs_libtpu
from jax.test_util import check_grads
from sweeps import daily

from course_lib import chips, compiler, cost, grid, judges
from course_lib.kernels import softmax
from course_lib.kernels.softmax import op as softmax_op
from course_lib.kernels.softmax.kernel import gradient_reference

IN_PIECES = softmax.Blocks(bm=16, bn=128)  # of an array (20, 300): its last rows and its last columns are ragged
WIDE = softmax.Blocks(bm=8, bn=128)


def sample(shape, dtype, scale=4.0):
    return jnp.asarray(np.random.default_rng(0).normal(size=shape) * scale, dtype)


def gradient(x, g, blocks=None):
    return jax.vjp(functools.partial(softmax.softmax, blocks=blocks), x)[1](g)[0]


def plain_gradient(x, g):
    """Through the softmax in the dtype of x, which is what is kept for the gradient."""
    return gradient_reference(softmax.reference(x), g)


@pytest.mark.parametrize(
    "shape, dtype",
    daily(
        ((300, 60), "float32"),  # XLA stores it by columns
        of=[((1,), "float32"), ((7,), "bfloat16"), ((2, 1, 3, 40), "bfloat16"), ((33, 1300), "float32")]
        + [((300, 60), "float32"), ((40, 200), "bfloat16")],
    ),
    ids=str,
)
def test_by_four_judges(shape, dtype):
    accepted(softmax.softmax, softmax.reference, sample(shape, dtype))


# Columns of (A, N, C), and of (A, N, R, C), in several ragged blocks; an axis that is better the last; one of a matrix.
ALONG = [
    ((20, 13, 300), 1, "float32", softmax.Blocks(bm=64, bn=128)),
    ((2, 21, 20, 140), -3, "bfloat16", softmax.Blocks(bm=256, bn=128)),
    ((3, 300, 20), 1, "float32", None),
    ((30, 300), 0, "float32", None),
    ((40, 5, 1), 1, "float32", None),
]


@pytest.mark.parametrize("shape, axis, dtype, blocks", daily(ALONG[1], of=ALONG), ids=str)
def test_along_another_axis_by_four_judges_forwards_and_backwards(shape, axis, dtype, blocks):
    def both(x, g):
        y, pull = jax.vjp(functools.partial(softmax.softmax, axis=axis, blocks=blocks), x)
        return y, pull(g)[0]

    def reference(x, g):
        y = softmax.reference(x, axis)
        return y, gradient_reference(y, g, axis)

    accepted(both, reference, sample(shape, dtype), sample(shape, dtype, scale=1.0))


@needs_libtpu
@pytest.mark.parametrize("shape, axis", daily(((8192, 1024), 0), of=[((32, 256, 1024), 1), ((8192, 1024), 0)]), ids=str)
def test_along_another_axis_x_is_read_once_where_it_lies(shape, axis):
    """Predicted, in f32: the time its bytes take, with no copy; XLA takes half as long again for the matrix."""
    x = jax.ShapeDtypeStruct(shape, jnp.float32)
    report = compiler.compile_tpu(functools.partial(softmax.softmax, axis=axis), x)
    assert [op.kind for op in report.ops] == ["kernel"]
    assert report.seconds <= 1.02 * 2 * x.size * 4 / chips.chip("v5e").hbm_bandwidth


@needs_libtpu
def test_columns_that_no_vmem_holds_are_turned_into_rows():
    x = jax.ShapeDtypeStruct((100_000, 256), jnp.float32)
    report = compiler.compile_tpu(functools.partial(softmax.softmax, axis=0), x, simulate=False)
    assert report.ok and sum(op.kind == "copy" for op in report.ops) == 2, report


@pytest.mark.parametrize("axis", daily(1, of=[0, 1, -3, -1]))
def test_any_axis_on_a_cpu_under_jit_grad_and_vmap(axis):
    x, g = sample((3, 4, 5), jnp.float32), sample((3, 4, 5), jnp.float32, scale=1.0)
    ours, theirs = (functools.partial(f, axis=axis) for f in (softmax.softmax, jax.nn.softmax))
    np.testing.assert_allclose(jax.jit(ours)(x), theirs(x), rtol=1e-6)
    got, want = (jax.jit(jax.grad(lambda x, f=f: (f(x) * g).sum()))(x) for f in (ours, theirs))
    np.testing.assert_allclose(got, want, atol=1e-6)
    got, want = (jax.vmap(functools.partial(f, axis=axis % 3 - 1), 1)(x) for f in (softmax.softmax, jax.nn.softmax))
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.sweep  # every day in front of their gradient
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16], ids=["f32", "bf16"])
def test_rows_in_pieces_by_four_judges(dtype):
    accepted(functools.partial(softmax.softmax, blocks=IN_PIECES), softmax.reference, sample((20, 300), dtype))


@pytest.mark.parametrize(
    "dtype, blocks",
    daily(
        (jnp.float32, IN_PIECES),
        of=[(jnp.float32, None), (jnp.bfloat16, None), (jnp.float32, IN_PIECES)],
    ),
)
def test_gradient_by_four_judges(dtype, blocks):
    x, g = sample((20, 300), dtype), sample((20, 300), dtype, scale=1.0)
    accepted(functools.partial(gradient, blocks=blocks), plain_gradient, x, g)


@pytest.mark.parametrize(
    "blocks", daily(softmax.Blocks(bm=8, bn=128), of=[None, softmax.Blocks(bm=8, bn=128)]), ids=str
)
def test_infinities_and_large_numbers_as_in_jax(blocks):
    x = np.array(sample((8, 384), jnp.float32))
    x[0] = -np.inf
    x[1, :200] = -np.inf  # the whole first piece, and some of the second
    x[2, 300] = np.inf
    x[3] = 3e38
    x[4] *= 1e30
    x[5, 7] = np.nan
    fn = functools.partial(softmax.softmax, blocks=blocks)
    accepted(fn, lambda x: jax.nn.softmax(x, axis=-1), jnp.asarray(x))


@pytest.mark.sweep  # every day vmap of layer_norm: test_norm.py
def test_vmap_of_the_kernel():
    """Without the simulator: in JAX 0.11 and 0.12 it does not take a vmapped kernel with dimension_semantics."""
    fn = jax.vmap(functools.partial(softmax.softmax, blocks=softmax.Blocks(bm=8, bn=128)), in_axes=1)
    x = sample((3, 20, 130), jnp.float32)
    for judge in (judges.numbers_judge, judges.compiler_judge):
        assert judge(fn, jax.vmap(softmax.reference, 1), x).passed is not False


def test_gradients_are_those_of_differences():
    check_grads(softmax.softmax, (sample((2, 5), jnp.float32, scale=1.0),), order=1, modes=["rev"], eps=0.01)


def test_bytes_are_those_of_the_docstring():
    x = jax.ShapeDtypeStruct((1000, 700), jnp.bfloat16)
    array, in_pieces = 1000 * 700 * 2, softmax.Blocks(bm=16, bn=256)
    assert cost.payload_bytes(grid.walk(softmax.softmax, x)) == 2 * array
    assert cost.payload_bytes(grid.walk(functools.partial(softmax.softmax, blocks=in_pieces), x)) == 3 * array
    backward = functools.partial(softmax_op._backward, 1, None, None)
    assert cost.payload_bytes(grid.walk(backward, x, x)) == 3 * array
    assert cost.payload_bytes(grid.walk(functools.partial(softmax_op._backward, 1, in_pieces, None), x, x)) == 5 * array


@needs_libtpu
@pytest.mark.parametrize("shape", [(8192, 2048), (1024, 16384)], ids=str)
def test_takes_the_time_its_bytes_take(shape):
    """Predicted: the arithmetic hides behind the traffic."""
    v5e, x = chips.chip("v5e"), jax.ShapeDtypeStruct(shape, jnp.float32)
    report = compiler.compile_tpu(softmax.softmax, x)
    assert report.seconds <= 1.02 * 2 * x.size * 4 / v5e.hbm_bandwidth


@needs_libtpu
@pytest.mark.parametrize("chip", daily("v4", of=["v4", "v5e", "v5p"]))
def test_default_blocks_compile(chip):
    """Rows that no chip can hold, rows that a v4 cannot, and short ones; softmax and its gradient."""
    for shape, dtype in (((16, 1_000_001), jnp.bfloat16), ((40, 150_000), jnp.float32), ((9000, 130), jnp.float32)):
        x = jax.ShapeDtypeStruct(shape, dtype)
        report = compiler.compile_tpu(gradient, x, x, chip=chip, simulate=False)
        assert report.ok, f"{shape}: {report.error}"


def test_long_rows_are_cut_only_where_they_must_be():
    with chips.chip("v5e").target():
        assert softmax.blocks_for(jax.ShapeDtypeStruct((8192, 2048), jnp.float32)) == softmax.Blocks(bm=256)
        assert softmax.blocks_for(jax.ShapeDtypeStruct((16, 400_000), jnp.float32)).bn is None
        assert softmax.blocks_for(jax.ShapeDtypeStruct((16, 1_000_000), jnp.float32)).bn
    with chips.chip("v4").target():
        assert softmax.blocks_for(jax.ShapeDtypeStruct((16, 400_000), jnp.float32)).bn


def test_an_array_without_axes_is_refused():
    with pytest.raises(ValueError, match=r"softmax: x has shape \(\)"):
        softmax.softmax(jnp.zeros(()))


def test_blocks_that_do_not_fit_say_so():
    x = jnp.zeros((1024, 20_000))
    with pytest.raises(ValueError, match=r"Blocks\(bm=1024, bn=None\) needs .* the chip has 128"):
        softmax.softmax(x, blocks=softmax.Blocks(bm=1024))
