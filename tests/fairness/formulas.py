"""Other formulas for the same numbers, in a precision no worse than the reference's."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from fairness import Right
from fairness.inputs import normal
from fairness.kernels import at_once, by_rows


def rms_norm(x):
    return x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def rms_norm_by_rsqrt(x):
    return x * jax.lax.rsqrt(jnp.sum(x * x, axis=-1, keepdims=True) * (1 / x.shape[-1]) + 1e-6)


def layer_norm(x):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    return (x - mean) / jnp.sqrt(jnp.var(x, axis=-1, keepdims=True) + 1e-5)


def layer_norm_merged(x, block=128):
    """Mean and squared distance of each block of columns, merged as Chan, Golub and LeVeque do."""
    mean = squares = jnp.zeros((x.shape[0], 1), x.dtype)
    for start in range(0, x.shape[1], block):
        part = x[:, start : start + block]
        of_part = jnp.sum(part, axis=1, keepdims=True) / block
        apart = of_part - mean
        squares += jnp.sum((part - of_part) ** 2, axis=1, keepdims=True) + apart**2 * (start * block / (start + block))
        mean += apart * (block / (start + block))
    return (x - mean) * jax.lax.rsqrt(squares / x.shape[1] + 1e-5)


def welford_variances(x):
    """One row after the other: mean and squared distance of every column are kept up to date."""

    def kernel(x_ref, o_ref):
        def take(n, state):
            mean, squares = state
            row = x_ref[pl.ds(n, 1), :]
            apart = row - mean
            mean = mean + apart / (n + 1).astype(jnp.float32)
            return mean, squares + apart * (row - mean)

        start = jnp.zeros((1, 128)), jnp.zeros((1, 128))
        o_ref[...] = jax.lax.fori_loop(0, x.shape[0], take, start)[1] / x.shape[0]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((1, x.shape[1]), x.dtype),
        grid=(x.shape[1] // 128,),
        in_specs=[pl.BlockSpec((x.shape[0], 128), lambda j: (0, j))],
        out_specs=pl.BlockSpec((1, 128), lambda j: (0, j)),
    )(x)


def variances(x):
    return jnp.var(x, axis=0, keepdims=True)


def cosine_with_itself(x):
    unit = x / jnp.sqrt(jnp.sum(x * x, axis=1, keepdims=True))
    return jnp.clip(jnp.sum(unit * unit, axis=1, keepdims=True), -1, 1)


def cosine_of_sums(x):
    squares = jnp.sum(x * x, axis=1, keepdims=True)
    return jnp.minimum(squares * jax.lax.rsqrt(squares) * jax.lax.rsqrt(squares), 1)


def product_by_logs(x):
    return jnp.exp(jnp.sum(jnp.log(x), axis=1, keepdims=True))


X = normal((32, 512))
ABOVE_A_HALF = jnp.abs(X) + 0.5

RIGHT = (
    Right("rsqrt for 1/sqrt, a mean by multiplying", by_rows(rms_norm_by_rsqrt), rms_norm, (X,)),
    Right(
        "bf16 normalised in f32",
        by_rows(lambda x: rms_norm(x.astype(jnp.float32)).astype(x.dtype)),
        rms_norm,
        (X.astype(jnp.bfloat16),),
    ),
    Right("a variance merged from blocks", by_rows(layer_norm_merged), layer_norm, (X + 100,)),
    Right("Welford's variance", welford_variances, variances, (X + 10,)),
    Right("tanh where a sigmoid is asked", by_rows(jnp.tanh), lambda x: 2 * jax.nn.sigmoid(2 * x) - 1, (X * 5,)),
    Right(
        "a product through logarithms",
        at_once(product_by_logs),
        lambda x: jnp.prod(x, axis=1, keepdims=True),
        (ABOVE_A_HALF[:, :128] * 0.01 + 0.99,),
    ),
    Right("a cosine at its limit of 1", at_once(cosine_of_sums), cosine_with_itself, (X,)),
)
