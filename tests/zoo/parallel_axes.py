"""Grid axes marked "parallel" whose steps are not independent."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from zoo.arrays import counted
from zoo.bug import Bug

ROWS = 8


def parallel_reduction(x):
    """The sum of four blocks of eight rows, with the axis of the sum marked parallel."""

    def sum_kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def _start():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    return pl.pallas_call(
        sum_kernel,
        out_shape=jax.ShapeDtypeStruct((ROWS, 128), x.dtype),
        grid=(4,),
        in_specs=[pl.BlockSpec((ROWS, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((ROWS, 128), lambda i: (0, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x)


def all_write_the_same(x):
    """2 x, computed by both steps of a parallel axis and written to the same place."""

    def double_kernel(x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...]

    return pl.pallas_call(
        double_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(2,),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x)


def carry_across_a_parallel_axis(x):
    """The sum of all blocks up to this one, carried in scratch from step to step of a parallel axis."""

    def prefix_kernel(x_ref, o_ref, carry_ref):
        @pl.when(pl.program_id(0) == 0)
        def _start():
            carry_ref[...] = jnp.zeros_like(carry_ref)

        carry_ref[...] += x_ref[...]
        o_ref[...] = carry_ref[...]

    spec = pl.BlockSpec((ROWS, 128), lambda i: (i, 0))
    return pl.pallas_call(
        prefix_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(4,),
        in_specs=[spec],
        out_specs=spec,
        scratch_shapes=[pltpu.VMEM((ROWS, 128), x.dtype)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x)


def in_place_with_an_odd_step(x):
    """x + 1 in the memory of x. Two cores that share three steps run two each, so one of them runs twice."""

    def add_kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    spec = pl.BlockSpec((ROWS, 128), lambda i: (i, 0))
    return pl.pallas_call(
        add_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.shape[0] // ROWS,),
        in_specs=[spec],
        out_specs=spec,
        input_output_aliases={0: 0},
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x)


FOUR_BLOCKS = (counted(4 * ROWS, 128),)

BUGS = (
    Bug(
        name="reduction axis marked parallel",
        kind="parallel axes",
        fn=parallel_reduction,
        reference=lambda x: x.reshape(4, ROWS, 128).sum(0),
        args=FOUR_BLOCKS,
        caught_by="races",
        says=r"(?s)Axis 0.*parallel.*steps \(0,\) and \(1,\) both write block \(0, 0\) of o_ref",
    ),
    Bug(
        name="both steps write the same block",
        kind="parallel axes",
        fn=all_write_the_same,
        reference=lambda x: 2 * x,
        args=FOUR_BLOCKS,
        caught_by="races",
        says=r"(?s)Axis 0.*parallel.*steps \(0,\) and \(1,\) both write block \(0, 0\) of o_ref",
    ),
    Bug(
        name="running sum along a parallel axis",
        kind="parallel axes",
        fn=carry_across_a_parallel_axis,
        reference=lambda x: x.reshape(4, ROWS, 128).cumsum(0).reshape(x.shape),
        args=FOUR_BLOCKS,
        caught_by="simulator",
        says=r"(?s)[Aa]xis 0.*parallel.*carry_ref",
    ),
    Bug(
        name="in place, three steps for two cores",
        kind="parallel axes",
        fn=in_place_with_an_odd_step,
        reference=lambda x: x + 1,
        args=(counted(3 * ROWS, 128),),
        caught_by="races",
        says=r"(?s)o_ref overwrites x_ref in place.*step \(0,\) may be applied twice.*even",
        chip="v5p",
    ),
)
