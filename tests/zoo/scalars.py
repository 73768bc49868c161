"""Scalars in SMEM: numbers that steer index maps and copies, read in the wrong place or kept in the wrong memory."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from zoo.arrays import counted
from zoo.bug import Bug

ROWS = 8


def picked_blocks(blocks, x):
    """The blocks of eight rows of x whose numbers are in ``blocks``; the index map looks at the number before."""

    def pick_kernel(blocks_ref, x_ref, o_ref):
        del blocks_ref
        o_ref[...] = x_ref[...]

    return pl.pallas_call(
        pick_kernel,
        out_shape=jax.ShapeDtypeStruct((blocks.size * ROWS, 128), x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(blocks.size,),
            in_specs=[pl.BlockSpec((ROWS, 128), lambda i, blocks_ref: (blocks_ref[jnp.maximum(i - 1, 0)], 0))],
            out_specs=pl.BlockSpec((ROWS, 128), lambda i, blocks_ref: (i, 0)),
        ),
    )(blocks, x)


def copies_one_block_ahead(blocks, x):
    """The same with copies by hand: while a block is worked on, the next is fetched, and one more after the last."""

    def pick_kernel(blocks_ref, x_hbm, o_ref, buf_ref, copy_sem):
        def copy(i, slot):
            source = x_hbm.at[pl.ds(pl.multiple_of(ROWS * blocks_ref[i], ROWS), ROWS)]
            return pltpu.make_async_copy(source, buf_ref.at[slot], copy_sem.at[slot])

        copy(0, 0).start()

        def turn(i, _):
            slot = i % 2
            copy(i + 1, 1 - slot).start()
            copy(i, slot).wait()
            o_ref[pl.ds(pl.multiple_of(ROWS * i, ROWS), ROWS)] = buf_ref[slot]

        jax.lax.fori_loop(0, blocks.size, turn, None)
        copy(0, blocks.size % 2).wait()

    return pl.pallas_call(
        pick_kernel,
        out_shape=jax.ShapeDtypeStruct((blocks.size * ROWS, 128), x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(),
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            out_specs=pl.BlockSpec(memory_space=pltpu.VMEM),
            scratch_shapes=[pltpu.VMEM((2, ROWS, 128), x.dtype), pltpu.SemaphoreType.DMA((2,))],
        ),
    )(blocks, x)


def scaled(scale, x):
    """Each block of eight rows times its scale, which is read one place too far."""

    def scale_kernel(scale_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] * scale_ref[pl.program_id(0) + 1]

    spec = pl.BlockSpec((ROWS, 128), lambda i: (i, 0))
    return pl.pallas_call(
        scale_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(scale.size,),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), spec],
        out_specs=spec,
    )(scale, x)


def scalar_stored_to_vmem(x):
    """The largest number of each block of eight rows, written as one element of the output."""

    def maximum_kernel(x_ref, o_ref):
        o_ref[pl.program_id(0), 0] = jnp.max(x_ref[...])

    return pl.pallas_call(
        maximum_kernel,
        out_shape=jax.ShapeDtypeStruct((4, 1), x.dtype),
        grid=(4,),
        in_specs=[pl.BlockSpec((ROWS, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec(memory_space=pltpu.VMEM),
    )(x)


def loop_over_an_array_in_vmem(starts, x):
    """Rows of x from each start on, with the starts left in VMEM."""

    def rows_kernel(starts_ref, x_ref, o_ref):
        def turn(i, _):
            o_ref[pl.ds(i, 1)] = x_ref[pl.ds(starts_ref[i], 1)]

        jax.lax.fori_loop(0, 8, turn, None)

    return pl.pallas_call(rows_kernel, out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype))(starts, x)


def pick(blocks, x):
    return x.reshape(-1, ROWS, 128)[blocks].reshape(-1, 128)


def scale_blocks(scale, x):
    return x * jnp.repeat(scale, ROWS)[:, None]


BLOCKS = np.array([2, 0, 3], np.int32)
FOUR_BLOCKS = counted(4 * ROWS, 128)

BUGS = tuple(
    Bug(kind="scalars", name=name, fn=fn, reference=reference, args=args, caught_by=caught_by, says=says)
    for name, fn, reference, args, caught_by, says in (
        (
            "index map looks one place back",
            picked_blocks,
            pick,
            (BLOCKS, FOUR_BLOCKS),
            "numbers",
            r"(?s)step \(1,\).*x_ref holds block \(2, 0\).*needs block \(0, 0\).*index map of x_ref",
        ),
        (
            "block looked up past the last",
            copies_one_block_ahead,
            pick,
            (BLOCKS, FOUR_BLOCKS),
            "simulator",
            r"outside blocks_ref: \[3\] of shape \(3,\)",
        ),
        (
            "scalar read one place too far",
            scaled,
            scale_blocks,
            (counted(4) + 1, FOUR_BLOCKS + 1),
            "numbers",
            r"(?s)step \(3,\).*scale_ref\[4\], but axis 0 of scale_ref has only 4 elements",
        ),
        (
            "scalar stored to VMEM",
            scalar_stored_to_vmem,
            lambda x: x.reshape(4, -1).max(1, keepdims=True),
            (FOUR_BLOCKS,),
            "compiler",
            r"(?s)scalar to VMEM.*jnp\.full.*SMEM",
        ),
        (
            "row numbers left in VMEM",
            loop_over_an_array_in_vmem,
            lambda starts, x: x[starts],
            (np.array([3, 1, 4, 1, 5, 9, 2, 6], np.int32), FOUR_BLOCKS),
            "compiler",
            r"cannot prove to be a multiple of 128",
        ),
    )
)
