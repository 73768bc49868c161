"""Output blocks that are left and come back to, and sums that outlive the block they belong to."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from zoo.arrays import counted
from zoo.bug import Bug

ROWS = 8


def row_block_sums(x, grid, x_map, o_map, reduction, semantics=None):
    """The sum of the blocks of 128 columns of x, for each eight rows; ``reduction`` is the grid axis that is summed."""

    def sums_kernel(x_ref, o_ref):
        @pl.when(pl.program_id(reduction) == 0)
        def _start():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    return pl.pallas_call(
        sums_kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], 128), x.dtype),
        grid=grid,
        in_specs=[pl.BlockSpec((ROWS, 128), x_map)],
        out_specs=pl.BlockSpec((ROWS, 128), o_map),
        compiler_params=pltpu.CompilerParams(dimension_semantics=semantics),
    )(x)


def reduction_axis_first(x):
    return row_block_sums(x, (3, x.shape[0] // ROWS), lambda k, i: (i, k), lambda k, i: (i, 0), reduction=0)


def comes_back_and_writes_the_same(x):
    """2 x, every block twice, with the others in between."""

    def double_kernel(x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...]

    spec = pl.BlockSpec((ROWS, 128), lambda i: (i % 2, 0))
    return pl.pallas_call(
        double_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(4,),
        in_specs=[spec],
        out_specs=spec,
    )(x)


def one_accumulator_for_two_blocks(x):
    """The sums of the columns' blocks again, in a scratch buffer that two output blocks take turns with."""

    def sums_kernel(x_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(1) == 0)
        def _start():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += x_ref[...]

        @pl.when(pl.program_id(1) == 1)
        def _finish():
            o_ref[...] = acc_ref[...]

    return pl.pallas_call(
        sums_kernel,
        out_shape=jax.ShapeDtypeStruct((16, 256), x.dtype),
        grid=(2, 2, 2),
        in_specs=[pl.BlockSpec((ROWS, 128), lambda i, k, j: (i, 2 * k + j))],
        out_specs=pl.BlockSpec((ROWS, 128), lambda i, k, j: (i, j)),
        scratch_shapes=[pltpu.VMEM((ROWS, 128), x.dtype)],
    )(x)


def in_threes(x):
    return x.reshape(-1, 3, 128).sum(1)


def in_twos(x):
    return x.reshape(16, 2, 256).sum(1)


def twice(x):
    return 2 * x


BUGS = (
    Bug(
        name="reduction axis first",
        kind="revisits",
        fn=reduction_axis_first,
        reference=in_threes,
        args=(counted(24, 384),),
        caught_by="simulator",
        says=r"(?s)lock \(0, 0\) of o_ref left VMEM.*\(1, 0\): the running sum is gone.*left of block.*put axis 0 last",
    ),
    Bug(
        name="the same with two blocks, by luck",
        kind="revisits",
        fn=reduction_axis_first,
        reference=in_threes,
        args=(counted(16, 384),),
        caught_by="simulator",
        says=r"(?s)lock \(0, 0\) of o_ref left VMEM.*step \(1, 0\).*by luck: there are two blocks.*put axis 0 last",
    ),
    Bug(
        name="comes back and writes the same",
        kind="revisits",
        fn=comes_back_and_writes_the_same,
        reference=twice,
        args=(counted(16, 128),),
        caught_by="simulator",
        says=r"(?s)lock \(0, 0\) of o_ref left VMEM after step \(0,\).*at step \(2,\).*order",
    ),
    Bug(
        name="one accumulator for two blocks",
        kind="revisits",
        fn=one_accumulator_for_two_blocks,
        reference=in_twos,
        args=(counted(16, 512),),
        caught_by="numbers",
        says=r"(?s)acc_ref.*step \(0, 0, 1\).*reduction axis.*last",
    ),
)
