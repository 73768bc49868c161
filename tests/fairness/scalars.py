"""Scalars that steer: how long a loop is, which rows are copied; and outputs that are scalars."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from fairness import Right
from fairness.inputs import counted, normal, whole

X = counted((64, 128))


def rows_by_copy(index, table):
    """A look-up of rows: all copies are started, then all are waited for; the index is in SMEM."""

    def kernel(index_ref, table_hbm, o_ref, sem):
        def copy(n):
            return pltpu.make_async_copy(table_hbm.at[pl.ds(index_ref[n], 1)], o_ref.at[pl.ds(n, 1)], sem)

        jax.lax.fori_loop(0, index.size, lambda n, _: copy(n).start(), None)
        jax.lax.fori_loop(0, index.size, lambda n, _: copy(n).wait(), None)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((index.size, table.shape[1]), table.dtype),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec(memory_space=pltpu.VMEM),
        scratch_shapes=[pltpu.SemaphoreType.DMA],
    )(index, table)


def row_lengths(lengths, x):
    """Each group of rows is summed up to its own length: a loop whose end is a number in SMEM."""

    def kernel(lengths_ref, x_ref, o_ref):
        def add(n, total):
            return total + x_ref[pl.ds(n, 1), :]

        length = lengths_ref[pl.program_id(0)]
        total = jax.lax.fori_loop(0, length, add, jnp.zeros((1, 128), jnp.float32))
        o_ref[...] = jnp.broadcast_to(total, o_ref.shape)

    specs = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(4,),
        in_specs=[pl.BlockSpec((16, 128), lambda i, lengths_ref: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i, lengths_ref: (i, 0)),
    )
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((32, 128), jnp.float32), grid_spec=specs)(lengths, x)


def sums_up_to(lengths, x):
    kept = jnp.where(jnp.arange(16)[None, :, None] < lengths[:, None, None], x.reshape(4, 16, 128), 0)
    return jnp.repeat(jnp.sum(kept, axis=1), 8, axis=0)


def counted_in_smem(x):
    """An output of scalars: how many numbers of each block are above zero; written one by one, read back once."""

    def kernel(x_ref, o_ref):
        i = pl.program_id(0)
        o_ref[i] = jnp.sum((x_ref[...] > 0).astype(jnp.int32))

        @pl.when(i == pl.num_programs(0) - 1)
        def total():
            o_ref[pl.num_programs(0)] = o_ref[0] + o_ref[1] + o_ref[2] + o_ref[3]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((5,), jnp.int32),
        grid=(4,),
        in_specs=[pl.BlockSpec((16, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec(memory_space=pltpu.SMEM),
    )(x)


def counts(x):
    each = jnp.sum(x.reshape(4, -1) > 0, axis=1, dtype=jnp.int32)
    return jnp.append(each, jnp.sum(each))


def no_arrays():
    """A function of nothing: numbers that are made in the kernel."""

    def kernel(o_ref):
        row = 8 * pl.program_id(0) + jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0)
        o_ref[...] = 128 * row + jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 1)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((32, 128), jnp.int32),
        grid=(4,),
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
    )()


def groups_from_lengths(lengths, x):
    """Where each of 16 groups of rows begins is summed up outside: numbers for the loops, not for the result."""
    starts = jnp.cumsum(lengths) - lengths
    specs = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=2,
        grid=(lengths.size,),
        in_specs=[pl.BlockSpec(x.shape, lambda i, *_: (0, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i, *_: (i, 0)),
    )
    out = jax.ShapeDtypeStruct((8 * lengths.size, 128), x.dtype)
    return pl.pallas_call(group_kernel, out_shape=out, grid_spec=specs)(starts, lengths, x)


def groups_in_smem(lengths, x):
    """The same numbers as ordinary inputs that lie in SMEM."""
    in_smem = pl.BlockSpec(memory_space=pltpu.SMEM)
    return pl.pallas_call(
        group_kernel,
        out_shape=jax.ShapeDtypeStruct((8 * lengths.size, 128), x.dtype),
        grid=(lengths.size,),
        in_specs=[in_smem, in_smem, pl.BlockSpec(x.shape, lambda i: (0, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
    )(jnp.cumsum(lengths) - lengths, lengths, x)


def group_kernel(starts_ref, lengths_ref, x_ref, o_ref):
    i = pl.program_id(0)

    def add(n, total):
        return total + x_ref[pl.ds(starts_ref[i] + n, 1), :]

    total = jax.lax.fori_loop(0, lengths_ref[i], add, jnp.zeros((1, 128), jnp.float32))
    o_ref[...] = jnp.broadcast_to(total, o_ref.shape)


def sums_of_groups(lengths, x):
    ends, row = jnp.cumsum(lengths)[:, None], jnp.arange(x.shape[0])[None]
    mine = (row < ends) & (row >= ends - lengths[:, None])
    return jnp.repeat(jnp.sum(jnp.where(mine[:, :, None], x[None], 0), axis=1), 8, axis=0)


LENGTHS = jnp.array([4, 0, 8, 1, 3, 4, 4, 8, 0, 0, 16, 4, 4, 4, 3, 1], jnp.int32)

RIGHT = (
    Right("rows looked up by copies", rows_by_copy, lambda i, t: t[i], (whole((16,), 0, 64), X)),
    Right(
        "loops as long as prefetched scalars say",
        row_lengths,
        sums_up_to,
        (jnp.array([16, 1, 0, 5], jnp.int32), normal((64, 128))),
    ),
    Right("an output of scalars in SMEM", counted_in_smem, counts, (normal((64, 128)),)),
    Right("no arguments", no_arrays, lambda: counted((32, 128), jnp.int32), ()),
    Right("groups whose beginnings are summed up outside", groups_from_lengths, sums_of_groups, (LENGTHS, X)),
    Right("the same, in SMEM", groups_in_smem, sums_of_groups, (LENGTHS, X)),
)
