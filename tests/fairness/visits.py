"""Which step has which block: permuted by arithmetic, half a block at a time, all of the array at every step."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from fairness import Right
from fairness.inputs import counted

X = counted((64, 128))
ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))


def doubled(x):
    return 2 * x


def permuted(x):
    """Blocks 0 3 6 1 4 7 2 5: each once."""

    def kernel(x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...]

    spec = pl.BlockSpec((8, 128), lambda i: (jax.lax.rem(3 * i, 8), 0))
    return pl.pallas_call(kernel, out_shape=x, grid=(8,), in_specs=[spec], out_specs=spec)(x)


def half_a_block_each(x):
    """Two steps in a row fill one output block, each its half: it is not left in between."""

    def kernel(x_ref, o_ref):
        half = pl.program_id(0) % 2
        o_ref[pl.ds(pl.multiple_of(8 * half, 8), 8)] = 2 * x_ref[...]

    out_spec = pl.BlockSpec((16, 128), lambda i: (i // 2, 0))
    return pl.pallas_call(kernel, out_shape=x, grid=(8,), in_specs=[ROWS], out_specs=out_spec)(x)


def the_whole_array(x):
    """A grid, and no specs: every step has all of both arrays, and writes the rows that are its own."""

    def kernel(x_ref, o_ref):
        rows = pl.ds(pl.multiple_of(8 * pl.program_id(0), 8), 8)
        o_ref[rows] = 2 * x_ref[rows]

    return pl.pallas_call(kernel, out_shape=x, grid=(8,))(x)


def clamped_neighbours(x):
    """The block before and the block after through maps that stay inside; at the ends what they hold is not used."""
    last = x.shape[0] // 8 - 1

    def kernel(before_ref, here_ref, after_ref, o_ref):
        i = pl.program_id(0)
        above = jnp.where(i > 0, before_ref[7:8], 0)
        below = jnp.where(i < last, after_ref[0:1], 0)
        rows = jnp.concatenate([above, here_ref[...], below], axis=0)
        o_ref[...] = rows[:-2] + rows[1:-1] + rows[2:]

    before = pl.BlockSpec((8, 128), lambda i: (jnp.maximum(i - 1, 0), 0))
    after = pl.BlockSpec((8, 128), lambda i: (jnp.minimum(i + 1, last), 0))
    return pl.pallas_call(kernel, out_shape=x, grid=(last + 1,), in_specs=[before, ROWS, after], out_specs=ROWS)(
        x, x, x
    )


def sums_with_neighbours(x):
    padded = jnp.pad(x, ((1, 1), (0, 0)))
    return padded[:-2] + padded[1:-1] + padded[2:]


def every_block_twice(x):
    """The last axis changes nothing: each block is written twice in a row, with the same numbers."""

    def kernel(x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...]

    spec = pl.BlockSpec((8, 128), lambda i, again: (i, 0))
    return pl.pallas_call(kernel, out_shape=x, grid=(8, 2), in_specs=[spec], out_specs=spec)(x)


def dynamic_grid(steps, x):
    """As many steps as a number says; the blocks that none visits keep what the input has there."""

    def kernel(x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...]

    return pl.pallas_call(
        kernel, out_shape=x, grid=(steps,), in_specs=[ROWS], out_specs=ROWS, input_output_aliases={0: 0}
    )(x)


def first_blocks_doubled(steps, x):
    return jnp.where(jnp.arange(x.shape[0])[:, None] < 8 * steps, 2 * x, x)


RIGHT = (
    Right("blocks permuted by arithmetic", permuted, doubled, (X,)),
    Right("half an output block at each step", half_a_block_each, doubled, (X,)),
    Right("a grid without specs", the_whole_array, doubled, (X,)),
    Right("neighbours by clamped maps", clamped_neighbours, sums_with_neighbours, (X,)),
    Right("every block twice in a row", every_block_twice, doubled, (X,)),
    Right("a grid as long as a number says", dynamic_grid, first_blocks_doubled, (jnp.int32(5), X)),
)
