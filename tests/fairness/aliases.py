"""Outputs in the memory of an input: block by block, one row, every other block, through HBM."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from fairness import Right
from fairness.inputs import counted, normal

X = normal((32, 256))


def in_place(x, y):
    """The output lives in the memory of x; each step reads its block of x before it writes the same block."""

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    spec = pl.BlockSpec((8, 256), lambda i: (i, 0))
    return pl.pallas_call(
        kernel, out_shape=x, grid=(4,), in_specs=[spec, spec], out_specs=spec, input_output_aliases={0: 0}
    )(x, y)


def one_row_changed(x, row, at):
    """A cache: all but one row stays as it was, and is never touched. The place is prefetched."""

    def kernel(at_ref, row_ref, x_hbm, o_hbm, sem):
        copy = pltpu.make_async_copy(row_ref, o_hbm.at[pl.ds(at_ref[0], 1)], sem)
        copy.start()
        copy.wait()

    specs = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(1,),
        in_specs=[pl.BlockSpec((1, 256), lambda i, at_ref: (0, 0)), pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        scratch_shapes=[pltpu.SemaphoreType.DMA],
    )
    return pl.pallas_call(kernel, out_shape=x, grid_spec=specs, input_output_aliases={2: 0})(at, row, x)


def with_one_row_changed(x, row, at):
    return jax.lax.dynamic_update_slice(x, row, (at[0], 0))


def half_in_place(x):
    """Only the even blocks are visited; the odd ones keep what the input had there."""

    def kernel(x_ref, o_ref):
        o_ref[...] = -x_ref[...]

    spec = pl.BlockSpec((8, 256), lambda i: (2 * i, 0))
    return pl.pallas_call(kernel, out_shape=x, grid=(2,), in_specs=[spec], out_specs=spec, input_output_aliases={0: 0})(
        x
    )


def even_blocks_negated(x):
    return jnp.where((jnp.arange(x.shape[0]) // 8 % 2 == 0)[:, None], -x, x)


def read_through_the_output(x):
    """The output ref is in HBM, and holds what the input held: read there, change, write back."""

    def kernel(x_hbm, o_hbm, buffer):
        rows = pl.ds(8 * pl.program_id(0), 8)
        pltpu.sync_copy(o_hbm.at[rows], buffer)
        buffer[...] = -buffer[...]
        pltpu.sync_copy(buffer, o_hbm.at[rows])

    in_hbm = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        kernel,
        out_shape=x,
        grid=(4,),
        in_specs=[in_hbm],
        out_specs=in_hbm,
        scratch_shapes=[pltpu.VMEM((8, 256), x.dtype)],
        input_output_aliases={0: 0},
    )(x)


def onto_zeros(x):
    """The accumulator is an array of zeros from outside, whose memory the output takes."""

    def kernel(x_ref, zeros_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def start():
            o_ref[...] = zeros_ref[...]

        o_ref[...] += x_ref[...]

    block, first = pl.BlockSpec((8, 256), lambda i: (i, 0)), pl.BlockSpec((8, 256), lambda i: (0, 0))
    zeros = jnp.zeros((8, 256), x.dtype)
    return pl.pallas_call(
        kernel, out_shape=zeros, grid=(4,), in_specs=[block, first], out_specs=first, input_output_aliases={1: 0}
    )(x, zeros)


def sum_of_blocks(x):
    return jnp.sum(x.reshape(4, 8, 256), axis=0)


RIGHT = (
    Right("the output in the memory of an input", in_place, jnp.add, (X, counted((32, 256)))),
    Right(
        "one row of a cache", one_row_changed, with_one_row_changed, (X, counted((1, 256)), jnp.array([21], jnp.int32))
    ),
    Right("every other block in place", half_in_place, even_blocks_negated, (X,)),
    Right("read and written through the output", read_through_the_output, jnp.negative, (X,)),
    Right("added onto zeros from outside", onto_zeros, sum_of_blocks, (X,)),
)
