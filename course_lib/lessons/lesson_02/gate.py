"""What 02.10 and 02.11 compute, and the slow kernel that they start from."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from course_lib.judges import Slip


def gated_rows(x):
    """Return x / (1 + exp(-x)), with each row divided by its root mean square."""
    s = x / (1 + jnp.exp(-x))
    return s / jnp.sqrt(jnp.mean(s * s, axis=1, keepdims=True) + 1e-6)


def accepted(x):
    """Return the same values by tanh, which rounds slightly more, so that such answers pass too."""
    return _over_its_root_mean_square(_gated(x))


def _gated(x):
    return x * (0.5 * jnp.tanh(0.5 * x) + 0.5)


def _over_its_root_mean_square(s):
    return s * jax.lax.rsqrt(jnp.mean(s * s, axis=1, keepdims=True) + 1e-6)


_BETWEEN = (
    "the gate is a half at 0, 0 far to the left and 1 far to the right, but tanh goes from -1 to 1. How do you turn "
    "one into the other?"
)
SLIPS = (
    Slip(
        means="the gate is tanh(x), which is between -1 and 1",
        value=lambda x: _over_its_root_mean_square(x * jnp.tanh(x)),
        next=_BETWEEN,
    ),
    Slip(
        means="the gate is tanh(x / 2), which is between -1 and 1",
        value=lambda x: _over_its_root_mean_square(x * jnp.tanh(0.5 * x)),
        next=_BETWEEN,
    ),
    Slip(
        means="the gate is 1 / (1 + exp(-2 x)), which is too steep",
        value=lambda x: _over_its_root_mean_square(x * (0.5 * jnp.tanh(x) + 0.5)),
        next="note that (1 + tanh(y)) / 2 is 1 / (1 + exp(-2 y)). What is y here?",
    ),
    Slip(
        means="the rows are divided by the root mean square of x, and not by that of the gated elements",
        value=lambda x: _gated(x) * jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + 1e-6),
        next="gate first, and take the mean of the squares of the result.",
    ),
    Slip(
        means="each element is also multiplied by itself",
        value=lambda x: _over_its_root_mean_square(x * x * (0.5 * jnp.tanh(0.5 * x) + 0.5)),
        next="note that x / (1 + exp(-x)) is x times the gate already.",
    ),
    Slip(
        means="the rows are divided by the mean of the squares, and not by its root",
        value=lambda x: _gated(x) / (jnp.mean(_gated(x) ** 2, axis=1, keepdims=True) + 1e-6),
        next="take jax.lax.rsqrt of that mean, and multiply.",
    ),
    Slip(
        means="the gate is right, but the rows are not divided by their root mean square",
        value=_gated,
        next="take jax.lax.rsqrt of the mean of the squares, once a row, and multiply.",
    ),
)


def slow(x):
    """Return ``gated_rows`` of an array whose row count is a multiple of 8, eight rows per iteration."""

    def kernel(x_ref, o_ref):
        def turn(i, carry):
            here = pl.ds(pl.multiple_of(8 * i, 8), 8)
            o_ref[here, :] = gated_rows(x_ref[here, :])
            return carry

        jax.lax.fori_loop(0, x.shape[0] // 8, turn, 0)

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
