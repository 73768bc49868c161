"""The reduction inside the kernel: a loop in the body in place of a grid axis."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from fairness import Right
from fairness.inputs import counted, normal, whole

X, Y = normal((32, 512), jnp.bfloat16), normal((512, 256), jnp.bfloat16, seed=1)
BN, BK = 128, 128
STEPS = 512 // BK


def product(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32)


def part(x_ref, y_ref, k):
    """The product of the k-th slices of a row and a column of blocks; k may be traced."""
    at = pl.ds(pl.multiple_of(k * BK, BK), BK)
    return jnp.dot(x_ref[:, at], y_ref[at, :], preferred_element_type=jnp.float32)


def by_columns(kernel, scratch=()):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((32, 256), jnp.float32),
        grid=(2,),
        in_specs=[pl.BlockSpec((32, 512), lambda j: (0, 0)), pl.BlockSpec((512, BN), lambda j: (0, j))],
        out_specs=pl.BlockSpec((32, BN), lambda j: (0, j)),
        scratch_shapes=scratch,
    )


def fori_loop_kernel(x_ref, y_ref, o_ref):
    def body(k, total):
        return total + part(x_ref, y_ref, k)

    o_ref[...] = jax.lax.fori_loop(0, STEPS, body, jnp.zeros(o_ref.shape, jnp.float32))


def unrolled_kernel(x_ref, y_ref, o_ref):
    def body(k, total):
        return total + part(x_ref, y_ref, k)

    o_ref[...] = jax.lax.fori_loop(0, STEPS, body, jnp.zeros(o_ref.shape, jnp.float32), unroll=True)


def into_the_output_kernel(x_ref, y_ref, o_ref):
    """The loop carries nothing: it adds into the output's own block, which the kernel has set to zero."""
    o_ref[...] = jnp.zeros_like(o_ref)

    def body(k, _):
        o_ref[...] += part(x_ref, y_ref, k)

    jax.lax.fori_loop(0, STEPS, body, None)


def while_loop_kernel(x_ref, y_ref, o_ref):
    def body(state):
        k, total = state
        return k - 1, total + part(x_ref, y_ref, k)

    start = STEPS - 1, jnp.zeros(o_ref.shape, jnp.float32)
    o_ref[...] = jax.lax.while_loop(lambda state: state[0] >= 0, body, start)[1]


def triangle(x):
    """Row block i is the sum of the row blocks up to i: the loop is as long as the grid step says."""

    def kernel(x_ref, o_ref):
        def body(n, total):
            return total + x_ref[pl.ds(pl.multiple_of(8 * n, 8), 8), :]

        o_ref[...] = jax.lax.fori_loop(0, pl.program_id(0) + 1, body, jnp.zeros_like(o_ref))

    return pl.pallas_call(
        kernel,
        out_shape=x,
        grid=(x.shape[0] // 8,),
        in_specs=[pl.BlockSpec(x.shape, lambda i: (0, 0))],
        out_specs=pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0)),
    )(x)


def sums_so_far(x):
    return jnp.cumsum(x.reshape(-1, 8, x.shape[1]), axis=0).reshape(x.shape)


def until_it_fits(x):
    """Halve the whole block until nothing in it is above 1: how often is for the data to say."""

    def kernel(x_ref, o_ref):
        o_ref[...] = jax.lax.while_loop(lambda v: jnp.max(v) > 1, lambda v: v * 0.5, x_ref[...])

    return pl.pallas_call(kernel, out_shape=x)(x)


def halved_until_it_fits(x):
    return jax.lax.while_loop(lambda v: jnp.max(v) > 1, lambda v: v * 0.5, x)


RIGHT = (
    Right("fori_loop over the reduction", by_columns(fori_loop_kernel), product, (X, Y)),
    Right("fori_loop, unrolled", by_columns(unrolled_kernel), product, (X, Y)),
    Right("fori_loop that adds into the output", by_columns(into_the_output_kernel), product, (X, Y)),
    Right("while_loop that counts down", by_columns(while_loop_kernel), product, (X, Y)),
    Right("a loop as long as the grid step", triangle, sums_so_far, (whole((32, 128), -1000, 1000),)),
    Right("a loop that ends when the data says so", until_it_fits, halved_until_it_fits, (counted((8, 128)),)),
)
