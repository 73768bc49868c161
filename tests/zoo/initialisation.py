"""Sums that start from whatever the memory held, and scratch that is read before it is written."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from zoo.arrays import counted
from zoo.bug import Bug

ROWS = 8


def sums(x, start, semantics=None):
    """Two output blocks, each the sum of three blocks of x; the sum is set to zero where ``start(j, k)`` is true."""

    def sums_kernel(x_ref, o_ref, acc_ref):
        if start is not None:

            @pl.when(start(pl.program_id(0), pl.program_id(1)))
            def _start():
                acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += x_ref[...]

        @pl.when(pl.program_id(1) == 2)
        def _finish():
            o_ref[...] = acc_ref[...]

    return pl.pallas_call(
        sums_kernel,
        out_shape=jax.ShapeDtypeStruct((ROWS, 256), x.dtype),
        grid=(2, 3),
        in_specs=[pl.BlockSpec((ROWS, 128), lambda j, k: (0, 3 * j + k))],
        out_specs=pl.BlockSpec((ROWS, 128), lambda j, k: (0, j)),
        scratch_shapes=[pltpu.VMEM((ROWS, 128), x.dtype)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=semantics),
    )(x)


def output_adds_to_nothing(x):
    """The sum of the blocks of eight rows, with += on an output that nobody set to zero."""

    def sum_kernel(x_ref, o_ref):
        o_ref[...] += x_ref[...]

    return pl.pallas_call(
        sum_kernel,
        out_shape=jax.ShapeDtypeStruct((ROWS, 128), x.dtype),
        grid=(x.shape[0] // ROWS,),
        in_specs=[pl.BlockSpec((ROWS, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((ROWS, 128), lambda i: (0, 0)),
    )(x)


def halo_of_a_stencil(x):
    """x[i - 1] + x[i + 1] with zeros beyond the edge: the scratch has room for them, and nobody writes them."""

    def stencil_kernel(x_ref, o_ref, padded_ref):
        padded_ref[8:40] = x_ref[...]
        o_ref[...] = padded_ref[7:39] + padded_ref[9:41]

    return pl.pallas_call(
        stencil_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_shapes=[pltpu.VMEM((48, 128), x.dtype)],
    )(x)


def written_at_a_step_that_never_comes(x):
    """The sum of four blocks, handed to the output at step 4."""

    def sum_kernel(x_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(0) == 0)
        def _start():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += x_ref[...]

        @pl.when(pl.program_id(0) == pl.num_programs(0))
        def _finish():
            o_ref[...] = acc_ref[...]

    return pl.pallas_call(
        sum_kernel,
        out_shape=jax.ShapeDtypeStruct((ROWS, 128), x.dtype),
        grid=(4,),
        in_specs=[pl.BlockSpec((ROWS, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((ROWS, 128), lambda i: (0, 0)),
        scratch_shapes=[pltpu.VMEM((ROWS, 128), x.dtype)],
    )(x)


def largest_so_far(x):
    """The largest of four blocks, kept in scratch by a comparison. Nothing sets the scratch to -inf first."""

    def maximum_kernel(x_ref, o_ref, best_ref):
        best_ref[...] = jnp.where(best_ref[...] > x_ref[...], best_ref[...], x_ref[...])
        o_ref[...] = best_ref[...]

    return pl.pallas_call(
        maximum_kernel,
        out_shape=jax.ShapeDtypeStruct((ROWS, 128), x.dtype),
        grid=(x.shape[0] // ROWS,),
        in_specs=[pl.BlockSpec((ROWS, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((ROWS, 128), lambda i: (0, 0)),
        scratch_shapes=[pltpu.VMEM((ROWS, 128), x.dtype)],
    )(x)


def in_threes(x):
    return x.reshape(ROWS, 2, 3, 128).sum(2).reshape(ROWS, 256)


def block_sum(x):
    return x.reshape(4, ROWS, 128).sum(0)


def block_maximum(x):
    return x.reshape(4, ROWS, 128).max(0)


def neighbours(x):
    padded = jnp.pad(x, ((1, 1), (0, 0)))
    return padded[:-2] + padded[2:]


SIX_BLOCKS = (counted(ROWS, 6 * 128),)
FOUR_BLOCKS = (counted(4 * ROWS, 128),)

BUGS = tuple(
    Bug(kind="initialisation", name=name, fn=fn, reference=reference, args=args, caught_by="numbers", says=says)
    for name, fn, reference, args, says in (
        (
            "+= on an output nobody set",
            output_adds_to_nothing,
            block_sum,
            FOUR_BLOCKS,
            r"(?s)step \(0,\) o_ref is read before anything has been written",
        ),
        (
            "accumulator never set to zero",
            partial(sums, start=None),
            in_threes,
            SIX_BLOCKS,
            r"(?s)step \(0, 0\) acc_ref is read before anything has been written.*@pl\.when",
        ),
        (
            "zero only at the very first step",
            partial(sums, start=lambda j, k: (j == 0) & (k == 0)),
            in_threes,
            SIX_BLOCKS,
            r"(?s)initialized only once.*step \(1, 0\).*acc_ref still holds what step \(0, 2\).*\(0, 0\), \(1, 0\)",
        ),
        (
            "the same, with a parallel axis",
            partial(sums, start=lambda j, k: (j == 0) & (k == 0), semantics=("parallel", "arbitrary")),
            in_threes,
            SIX_BLOCKS,
            r"(?s)initialized only once for the whole grid, at step \(0, 0\).*block, \(0, 0\), \(1, 0\)",
        ),
        (
            "zero at every step",
            partial(sums, start=lambda j, k: k >= 0),
            in_threes,
            SIX_BLOCKS,
            r"(?s)Every step starts over.*only what step \(0, 2\) computes",
        ),
        (
            "margin of a stencil never written",
            halo_of_a_stencil,
            neighbours,
            FOUR_BLOCKS,
            r"padded_ref\[0:8\] is read before anything has been written",
        ),
        (
            "handed over at no step",
            written_at_a_step_that_never_comes,
            block_sum,
            FOUR_BLOCKS,
            r"(?s)None of the steps.*writes to o_ref.*num_programs\(a\) - 1",
        ),
    )
) + (
    Bug(
        kind="initialisation",
        name="running maximum that starts from garbage",
        fn=largest_so_far,
        reference=block_maximum,
        args=FOUR_BLOCKS,
        caught_by="simulator",
        says=r"(?s)wrong with inf in best_ref, which step \(0,\) reads before anything.*write that memory before",
    ),
)
