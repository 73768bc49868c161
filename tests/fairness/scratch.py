"""What scratch carries from step to step: weights made ready once, a running row, a sum that is cleared at the end."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from fairness import Right
from fairness.inputs import counted, normal

X = counted((64, 128))
ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))


def weights_turned_once(x, w):
    """The first step turns the weights over, all others find them so."""

    def kernel(x_ref, w_ref, o_ref, turned_ref):
        @pl.when(pl.program_id(0) == 0)
        def turn():
            turned_ref[...] = w_ref[...].T

        o_ref[...] = jnp.dot(x_ref[...], turned_ref[...], preferred_element_type=jnp.float32)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], 128), jnp.float32),
        grid=(x.shape[0] // 16,),
        in_specs=[pl.BlockSpec((16, 128), lambda i: (i, 0)), pl.BlockSpec((128, 128), lambda i: (0, 0))],
        out_specs=pl.BlockSpec((16, 128), lambda i: (i, 0)),
        scratch_shapes=[pltpu.VMEM((128, 128), w.dtype)],
    )(x, w)


def product_with_turned(x, w):
    return jnp.dot(x, w.T, preferred_element_type=jnp.float32)


def running_block(x):
    """Each block is added to all blocks before: the scratch is never cleared, and should not be."""

    def kernel(x_ref, o_ref, carry_ref):
        @pl.when(pl.program_id(0) == 0)
        def start():
            carry_ref[...] = jnp.zeros_like(carry_ref)

        o_ref[...] = x_ref[...] + carry_ref[...]
        carry_ref[...] = o_ref[...]

    scratch = [pltpu.VMEM((8, 128), x.dtype)]
    return pl.pallas_call(kernel, out_shape=x, grid=(8,), in_specs=[ROWS], out_specs=ROWS, scratch_shapes=scratch)(x)


def running_blocks(x):
    return jnp.cumsum(x.reshape(-1, 8, 128), axis=0).reshape(x.shape)


def cleared_at_the_end(x):
    """Whoever finishes a sum clears the scratch for the next; only the very first step of all clears it before."""

    def kernel(x_ref, o_ref, acc_ref):
        i, k = pl.program_id(0), pl.program_id(1)

        @pl.when((i == 0) & (k == 0))
        def start():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += x_ref[...]

        @pl.when(k == pl.num_programs(1) - 1)
        def finish():
            o_ref[...] = acc_ref[...]
            acc_ref[...] = jnp.zeros_like(acc_ref)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], 128), x.dtype),
        grid=(x.shape[0] // 8, x.shape[1] // 128),
        in_specs=[pl.BlockSpec((8, 128), lambda i, k: (i, k))],
        out_specs=pl.BlockSpec((8, 128), lambda i, k: (i, 0)),
        scratch_shapes=[pltpu.VMEM((8, 128), x.dtype)],
    )(x)


def sums_of_lanes(x):
    return jnp.sum(x.reshape(x.shape[0], -1, 128), axis=1)


def filled_row_by_row(x):
    """Even rows first, then odd ones: all of the scratch is written before any of it is read."""

    def kernel(x_ref, o_ref, buffer):
        buffer[pl.ds(0, 32, stride=2)] = x_ref[0:32]
        buffer[pl.ds(1, 32, stride=2)] = x_ref[32:64]
        o_ref[...] = buffer[...]

    return pl.pallas_call(kernel, out_shape=x, scratch_shapes=[pltpu.VMEM(x.shape, x.dtype)])(x)


def interleaved(x):
    return jnp.stack([x[:32], x[32:]], axis=1).reshape(x.shape)


def largest_by_comparison(x):
    """A running maximum by a comparison; at the first step a select drops what the scratch holds."""

    def kernel(x_ref, o_ref, best_ref):
        kept = (pl.program_id(0) > 0) & (best_ref[...] > x_ref[...])
        best_ref[...] = jnp.where(kept, best_ref[...], x_ref[...])
        o_ref[...] = best_ref[...]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype),
        grid=(x.shape[0] // 8,),
        in_specs=[ROWS],
        out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)),
        scratch_shapes=[pltpu.VMEM((8, 128), x.dtype)],
    )(x)


def largest(x):
    return jnp.max(x.reshape(-1, 8, 128), axis=0)


WEIGHTS = normal((64, 128), jnp.bfloat16), normal((128, 128), jnp.bfloat16, seed=1)

RIGHT = (
    Right("weights made ready at the first step", weights_turned_once, product_with_turned, WEIGHTS),
    Right("a block carried through the grid", running_block, running_blocks, (X,)),
    Right("a sum cleared when it is finished", cleared_at_the_end, sums_of_lanes, (counted((32, 256)),)),
    Right("scratch filled every other row", filled_row_by_row, interleaved, (X,)),
    Right("a running maximum, a select drops the garbage", largest_by_comparison, largest, (-X,)),
)
