"""The fused linear layer: forward and backward by all four judges; residuals; the kink; int8 weights; complaints."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accepted import accepted
from conftest import needs_libtpu
from jax.test_util import check_grads
from sweeps import daily

from course_lib import compiler, cost, grid
from course_lib.kernels.linear import Blocks, linear, reference
from course_lib.kernels.linear import blocks as linear_blocks
from course_lib.kernels.linear_int8 import linear_int8, quantize
from course_lib.kernels.linear_int8 import reference as reference_int8
from course_lib.kernels.matmul import blocks as matmul_blocks

SMALL = Blocks(bm=128, bk=128, bn=128)
ACTIVATIONS = [None, "relu", "gelu", "gelu_tanh", "silu"]
DTYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16}


def arrays(m, k, n, dtype=jnp.float32):
    """x, w, b and the cotangent g."""
    rng = np.random.default_rng(0)
    shapes = ((m, k), (k, n), (n,), (m, n))
    return [jnp.asarray(rng.normal(size=shape) / (10 if i == 1 else 1), dtype) for i, shape in enumerate(shapes)]


def gradients(layer):
    def of(x, w, b, g):
        return jax.vjp(layer, x, w, b)[1](g)

    return of


def value_and_gradients(layer):
    def of(x, w, b, g):
        y, pull = jax.vjp(layer, x, w, b)
        return y, *pull(g)

    return of


@pytest.mark.parametrize(
    "activation, dtype",
    daily(("gelu", "bf16"), of=itertools.product(ACTIVATIONS, DTYPES)),
)
def test_forward_by_four_judges(activation, dtype):
    x, w, b, _ = arrays(7, 13, 200, DTYPES[dtype])
    accepted(
        functools.partial(linear, activation=activation), functools.partial(reference, activation=activation), x, w, b
    )


@pytest.mark.sweep  # every day with int8 weights, and in the gradient, whose rows are cut
@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions_in_blocks_with_ragged_edges_by_four_judges(dtype):
    x, w, b, _ = arrays(136, 300, 140, DTYPES[dtype])
    layer = functools.partial(linear, activation="gelu", blocks=SMALL)
    accepted(layer, functools.partial(reference, activation="gelu"), x, w, b)


@pytest.mark.parametrize(
    "activation, residuals",
    daily(
        ("relu", "save"),
        of=itertools.product([None, "relu", "gelu"], ["save", "recompute"]),
    ),
)
def test_gradients_by_four_judges(activation, residuals):
    layer = functools.partial(linear, activation=activation, residuals=residuals)
    accepted(gradients(layer), gradients(functools.partial(reference, activation=activation)), *arrays(13, 140, 200))


def test_gradients_by_four_judges_where_rows_are_cut_and_ragged(monkeypatch):
    """Small sides make every axis ragged, and both kernels walk several blocks along each."""
    monkeypatch.setattr(linear_blocks, "_SIDES", (128,))
    monkeypatch.setattr(matmul_blocks, "chosen", lambda blocks, problem: (128, 128, 128))
    layer, want = (functools.partial(f, activation="silu") for f in (linear, reference))
    accepted(gradients(layer), gradients(want), *arrays(140, 130, 150))


@pytest.mark.sweep  # every day a v4, whose VMEM holds none, has it compiled
def test_gradients_by_four_judges_where_no_row_of_z_fits(monkeypatch):
    monkeypatch.setattr(linear_blocks, "_SIDES", ())
    layer, want = (functools.partial(f, activation="silu") for f in (linear, reference))
    accepted(gradients(layer), gradients(want), *arrays(13, 140, 200))
    assert "linear_dx" not in [call.name for call in grid.walk(gradients(layer), *arrays(13, 140, 200)).calls]


@pytest.mark.parametrize("activation", ["gelu", "silu", "gelu_tanh"])
def test_gradients_are_those_of_differences(activation):
    x, w, b, _ = arrays(3, 5, 4)
    check_grads(functools.partial(linear, activation=activation), (x, w, b), order=1, modes=["rev"], rtol=0.02)


@pytest.mark.parametrize("residuals", ["save", "recompute"])
def test_at_the_kink_relu_has_slope_zero(residuals):
    """z is 0 exactly for the first column: as jax.nn.relu, and not one half."""
    x, w, b = jnp.ones((2, 3)), jnp.zeros((3, 4)).at[:, 1:].set(1.0), jnp.zeros(4)

    def of(layer):
        return jax.grad(lambda x, w, b: layer(x, w, b).sum(), argnums=(0, 1, 2))(x, w, b)

    got = of(functools.partial(linear, activation="relu", residuals=residuals))
    want = of(lambda x, w, b: jax.nn.relu(x @ w + b))
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize(
    "activation, residuals, outputs",
    [("gelu", "save", 2), ("gelu", "recompute", 1), ("relu", "save", 1), (None, "save", 1)],
)
def test_what_is_kept_for_the_gradient(activation, residuals, outputs):
    """relu is told from y, and no activation needs nothing: only the others write z."""
    layer = functools.partial(linear, activation=activation, residuals=residuals)
    calls = grid.walk(value_and_gradients(layer), *arrays(16, 128, 256)).calls
    assert len(calls[0].outputs) == outputs
    again = residuals == "recompute" and activation == "gelu"
    assert [call.name for call in calls].count("linear") == 1 + again


def test_what_is_not_differentiated_has_no_dx():
    """As the data that the first layer of a network reads."""
    x, w, b, g = arrays(70, 140, 150)

    def by_weights(layer):
        return lambda w, b, g: jax.vjp(lambda w, b: layer(x, w, b, activation="silu"), w, b)[1](g)

    assert [call.name for call in grid.walk(by_weights(linear), w, b, g).calls].count("linear_dx") == 0
    for got, want in zip(by_weights(linear)(w, b, g), by_weights(reference)(w, b, g), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_dz_is_written_once_and_never_computed_twice(monkeypatch):
    monkeypatch.setattr(linear_blocks, "_SIDES", (128,))
    m, k, n = 256, 384, 512
    walk = grid.walk(gradients(functools.partial(linear, activation="gelu")), *arrays(m, k, n))
    moved = {row.name: row.bytes for row in cost.traffic(walk) if row.call == "linear_dx"}
    assert moved["g_ref"] == moved["z_ref"] == moved["dz_ref"] == m * n * 4
    (dx,) = [call for call in walk.calls if call.name == "linear_dx"]
    assert dx.steps == 6


@needs_libtpu
@pytest.mark.parametrize(
    "chip, dtype, kernels",
    [
        pytest.param("v5e", "f32", {"linear", "linear_dx", "linear_dw"}, marks=pytest.mark.sweep),
        pytest.param("v5e", "bf16", {"linear", "linear_dx", "linear_dw"}, marks=pytest.mark.sweep),
        pytest.param("v5p", "bf16", {"linear", "linear_dx", "linear_dw"}, marks=pytest.mark.sweep),
        ("v4", "f32", {"linear", "matmul", "linear_dw"}),  # its 16 MiB do not hold rows of z
    ],
)
def test_forward_and_backward_compile_on_other_chips(chip, dtype, kernels):
    shapes = ((300, 520), (520, 1300), (1300,), (300, 1300))
    args = [jax.ShapeDtypeStruct(shape, DTYPES[dtype]) for shape in shapes]
    both = gradients(functools.partial(linear, activation="gelu"))
    report = compiler.compile_tpu(both, *args, chip=chip, simulate=False, time_limit_s=100)
    assert report.ok, report
    assert kernels <= {op.name for op in report.ops}


def test_leading_axes_jit_grad_and_vmap_on_a_cpu():
    x, w, b, _ = arrays(24, 13, 20)
    x = x.reshape(2, 3, 4, 13)
    layer, want = (functools.partial(f, activation="gelu") for f in (linear, reference))
    np.testing.assert_allclose(jax.jit(layer)(x, w, b), want(x, w, b), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.vmap(layer, (0, None, None)))(x, w, b), want(x, w, b), rtol=1e-5, atol=1e-6)
    got, exact = (jax.jit(jax.grad(lambda w, f=f: (f(x, w, b) ** 2).sum()))(w) for f in (layer, want))
    np.testing.assert_allclose(got, exact, rtol=1e-4, atol=1e-4)


def test_no_bias_is_a_bias_of_zeros():
    x, w, b, _ = arrays(4, 5, 6)
    np.testing.assert_array_equal(linear(x, w), linear(x, w, jnp.zeros_like(b)))


@pytest.mark.parametrize("shape", [(0, 4, 3), (4, 0, 3), (4, 3, 0)], ids=str)
def test_empty_arrays(shape):
    x, w, b, g = arrays(*shape)
    np.testing.assert_allclose(linear(x, w, b), x @ w + b)
    assert [d.shape for d in gradients(linear)(x, w, b, g)] == [x.shape, w.shape, b.shape]


@pytest.mark.parametrize("dtype, blocks", daily(("bf16", SMALL), of=itertools.product(DTYPES, [None, SMALL])), ids=str)
def test_int8_weights_by_four_judges(dtype, blocks):
    x, w, b, _ = arrays(70, 200, 140, DTYPES[dtype])
    layer = functools.partial(linear_int8, activation="silu", blocks=blocks)
    accepted(layer, functools.partial(reference_int8, activation="silu"), x, *quantize(w), b)


def test_int8_weights_move_a_byte_each():
    x, w, b, _ = arrays(128, 256, 384)
    moved = {row.name: row.bytes for row in cost.traffic(grid.walk(linear_int8, x, *quantize(w), b))}
    assert moved["q_ref"] == 256 * 384


def test_quantize_rounds_by_half_a_step_at_most():
    _, w, _, _ = arrays(1, 50, 20)
    w = w.at[:, 3].set(0.0)
    q, scale = quantize(w)
    assert q.dtype == jnp.int8 and int(jnp.abs(q).max()) == 127
    assert jnp.all(jnp.abs(q * scale - w) <= 0.501 * scale)


@pytest.mark.sweep  # every day their forward pass, and gradients with other weights
def test_gradients_with_int8_weights():
    x, w, b, g = arrays(6, 20, 9)
    q, scale = quantize(w)

    def of(layer):
        return jax.grad(lambda x, scale, b: (layer(x, q, scale, b, activation="gelu") * g).sum(), argnums=(0, 1, 2))

    for got, want in zip(of(linear_int8)(x, scale, b), of(reference_int8)(x, scale, b), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "change, says",
    [
        ({"x": jnp.zeros((3, 5))}, "x has shape (3, 5) and w (4, 2)"),
        ({"b": jnp.zeros(3)}, "b has shape (3,); for w of shape (4, 2) it must be (2,)"),
        ({"w": jnp.zeros((4, 2), jnp.bfloat16)}, "x is float32, w bfloat16 and b float32"),
        ({"activation": "swish"}, "activation is 'swish'; it may be one of 'none', 'relu'"),
        ({"residuals": "keep"}, "residuals='keep'; it may be 'save' or 'recompute'"),
    ],
)
def test_bad_input_gets_one_clear_error(change, says):
    arguments = {"x": jnp.zeros((3, 4)), "w": jnp.zeros((4, 2)), "b": jnp.zeros(2)} | change
    with pytest.raises(ValueError) as error:
        linear(arguments.pop("x"), arguments.pop("w"), arguments.pop("b"), **arguments)
    assert says in str(error.value)


@pytest.mark.parametrize(
    "change, says",
    [
        ({"q": jnp.zeros((4, 2))}, "q float32"),
        ({"scale": jnp.zeros(3)}, "scale has shape (3,); for q of shape (4, 2) it must be (2,)"),
        ({"x": jnp.zeros((3, 5))}, "x has shape (3, 5) and q (4, 2)"),
    ],
)
def test_bad_input_to_int8_gets_one_clear_error(change, says):
    arguments = {"x": jnp.zeros((3, 4)), "q": jnp.zeros((4, 2), jnp.int8), "scale": jnp.ones(2)} | change
    with pytest.raises(ValueError) as error:
        linear_int8(**arguments)
    assert says in str(error.value)
