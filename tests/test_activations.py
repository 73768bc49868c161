"""The activations: against float64 over their whole range, by all four judges as kernels, and their gradients."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accepted import accepted
from conftest import needs_libtpu
from sweeps import daily

from course_lib import chips, compiler, cost, grid
from course_lib.kernels import activations, elementwise

REFERENCES = {
    "relu": jax.nn.relu,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "gelu_tanh": jax.nn.gelu,
    "silu": jax.nn.silu,
}
HUGE = jnp.float32([3e38, 1e20, 100, 20, -20, -100, -1e20, -3e38])


def some(shape, dtype=jnp.float32, scale=4):
    return jnp.asarray(np.random.default_rng(0).normal(size=shape) * scale, dtype)


def pulled_back(fn):
    return lambda x, g: jax.vjp(fn, x)[1](g)[0]


@pytest.mark.parametrize("name", daily("gelu", of=REFERENCES))
def test_by_four_judges(name):
    accepted(getattr(activations, name), REFERENCES[name], some((33, 300)))


@pytest.mark.parametrize("name", daily("gelu", of=REFERENCES))
def test_gradient_by_four_judges(name):
    """The gradient of gelu is written out: in JAX 0.12 that of erfc holds operations whose rounding is not known."""

    def gelu_gradient(x, g):
        return g * (0.5 * jax.lax.erfc(-x * 0.5**0.5) + x * jnp.exp(-0.5 * x * x) * (2 * math.pi) ** -0.5)

    x = some((20, 140))
    reference = gelu_gradient if name == "gelu" else pulled_back(REFERENCES[name])
    accepted(pulled_back(getattr(activations, name)), reference, x, x[::-1])


@pytest.mark.parametrize("shape", daily([3, 5, 70], of=[[], [1000], [3, 5, 70]]), ids=str)
def test_bf16_of_every_rank_is_computed_in_f32_and_rounded_once(shape):
    def reference(x):
        return jax.nn.silu(x.astype(jnp.float32)).astype(x.dtype)

    accepted(activations.silu, reference, some(shape, jnp.bfloat16))


def test_exact_gelu_and_its_slope_keep_their_digits_in_the_tail():
    """Against math.erfc. The exponential of z^2 / 2 has a rounding for each unit of it: hence the factor."""
    z = np.linspace(-12.5, 12.5, 20_001).astype(np.float32)
    wide = z.astype(np.float64)
    integral = np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in wide])
    density = np.exp(-wide * wide / 2) / math.sqrt(2 * math.pi)
    eps = (10 + wide * wide) * 2.0**-24
    value, slope = activations.apply("gelu", jnp.asarray(z)), activations.slope("gelu", jnp.asarray(z))
    assert np.all(np.abs(value - wide * integral) <= eps * np.abs(wide * integral))
    assert np.all(np.abs(slope - (integral + wide * density)) <= eps * (integral + np.abs(wide) * density))


@pytest.mark.parametrize("name", activations.ACTIVATIONS)
def test_slope_is_the_derivative(name):
    z = jnp.linspace(-6, 6, 1000)
    derivative = jax.vmap(jax.grad(lambda z: REFERENCES.get(name, lambda z: z)(z)))(z)
    np.testing.assert_allclose(activations.slope(name, z), derivative, atol=5e-6)  # 1 - tanh^2 cancels, as in JAX


@pytest.mark.parametrize("name", activations.ACTIVATIONS)
def test_huge_numbers_give_neither_nan_nor_infinity(name):
    left = HUGE if name == "none" else jnp.where(HUGE > 0, HUGE, 0)
    np.testing.assert_allclose(activations.apply(name, HUGE), left, atol=1e-6)
    np.testing.assert_allclose(activations.slope(name, HUGE), (HUGE > 0) | (name == "none"), atol=1e-6)


def test_relu_has_no_slope_at_its_kink():
    x = jnp.float32([0.0, -0.0, 1e-30, -1e-30])
    np.testing.assert_array_equal(pulled_back(activations.relu)(x, jnp.ones(4)), [0, 0, 1, 0])


def test_no_activation_may_be_called_by_no_name():
    z = some((3,))
    np.testing.assert_array_equal(activations.apply(None, z), z)
    np.testing.assert_array_equal(activations.slope(None, z), [1, 1, 1])


@pytest.mark.parametrize("fn", [activations.apply, activations.slope])
def test_unknown_names_get_the_known_ones(fn):
    for name in ("swish", 3, ["relu"]):
        with pytest.raises(ValueError, match="it may be one of 'none', 'relu', 'gelu', 'gelu_tanh', 'silu', or None"):
            fn(name, jnp.ones(3))


def test_integers_are_refused():
    with pytest.raises(ValueError, match="gelu: x is int32; it may be float32 or bfloat16"):
        activations.gelu(jnp.ones(3, jnp.int32))


def test_blocks_may_be_given():
    def gelu(x):
        return activations.gelu(x, blocks=elementwise.Blocks(bm=8, bn=128))

    accepted(gelu, REFERENCES["gelu"], some((20, 300)))
    assert grid.walk(gelu, some((20, 300))).calls[0].outputs[0].block_shape == (8, 128)


@needs_libtpu
@pytest.mark.parametrize("name", daily("gelu", of=REFERENCES))
def test_large_arrays_are_bound_by_hbm(name):
    """Predicted, in f32: the cycles hide behind the traffic, which is as the docstring says."""
    x = jax.ShapeDtypeStruct((8192, 2048), jnp.float32)
    fn, v5e = getattr(activations, name), chips.chip("v5e")
    report = compiler.compile_tpu(fn, x)
    assert report.cycles / v5e.clock_hz < report.hbm_bytes / v5e.hbm_bandwidth
    assert cost.hbm_bytes(grid.walk(fn, x)) == 2 * x.size * 4
    assert cost.hbm_bytes(grid.walk(jax.value_and_grad(lambda x: fn(x).sum()), x)) == (2 + 3) * x.size * 4


@pytest.mark.sweep  # every day gelu: test_it_compiles_for_other_chips of the contract
@needs_libtpu
def test_compiles_for_other_chips():
    x = jax.ShapeDtypeStruct((4000, 3000), jnp.bfloat16)
    report = compiler.compile_tpu(pulled_back(activations.gelu), x, x, chip="v5p")
    assert report.ok, report.error
