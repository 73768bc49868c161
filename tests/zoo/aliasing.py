"""Inputs that are written to, and outputs that live in an input's memory."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from zoo.arrays import counted
from zoo.bug import Bug

ROWS = 8


def writes_to_its_input(x, y):
    """2 x + y, with the doubling done in place."""

    def kernel(x_ref, y_ref, o_ref):
        x_ref[...] *= 2
        o_ref[...] = x_ref[...] + y_ref[...]

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)


def shifted_read_in_place(x):
    """x[i] + x[i - 1] by blocks, in the memory of x: step i reads a block that step i - 1 has written over."""

    def add_kernel(x_ref, before_ref, o_ref):
        o_ref[...] = x_ref[...] + before_ref[...]

    here = pl.BlockSpec((ROWS, 128), lambda i: (i, 0))
    before = pl.BlockSpec((ROWS, 128), lambda i: (jnp.maximum(i - 1, 0), 0))
    return pl.pallas_call(
        add_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.shape[0] // ROWS,),
        in_specs=[here, before],
        out_specs=here,
        input_output_aliases={1: 0},
    )(x, x)


def cache_without_an_alias(cache, new, position):
    """A cache with eight new rows at block ``position``; the other rows should stay, and are not in the output."""

    def append_kernel(position_ref, cache_ref, new_ref, o_ref):
        del position_ref, cache_ref
        o_ref[...] = new_ref[...]

    there = pl.BlockSpec((ROWS, 128), lambda i, position_ref: (position_ref[0], 0))
    return pl.pallas_call(
        append_kernel,
        out_shape=jax.ShapeDtypeStruct(cache.shape, cache.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(1,),
            in_specs=[there, pl.BlockSpec((ROWS, 128), lambda i, position_ref: (0, 0))],
            out_specs=there,
        ),
    )(position, cache, new)


def appended(cache, new, position):
    return jax.lax.dynamic_update_slice(cache, new, (ROWS * position[0], 0))


def with_the_block_before(x):
    return x + jnp.concatenate([x[:ROWS], x[:-ROWS]])


FOUR_BLOCKS = counted(4 * ROWS, 128)

BUGS = tuple(
    Bug(kind="aliasing", name=name, fn=fn, reference=reference, args=args, caught_by=caught_by, says=says)
    for name, fn, reference, args, caught_by, says in (
        (
            "writes to its input",
            writes_to_its_input,
            lambda x, y: 2 * x + y,
            (FOUR_BLOCKS, FOUR_BLOCKS),
            "numbers",
            r"(?s)writes to its input x_ref.*keep results in a value",
        ),
        (
            "reads what is written over",
            shifted_read_in_place,
            with_the_block_before,
            (FOUR_BLOCKS + 1,),
            "numbers",
            r"(?s)(before_ref.*o_ref|o_ref.*before_ref).*input_output_aliases",
        ),
        (
            "rows of a cache without an alias",
            cache_without_an_alias,
            appended,
            (FOUR_BLOCKS, FOUR_BLOCKS[:ROWS] + 1, counted(1, dtype="int32") + 2),
            "numbers",
            r"(?s)No grid step writes output block \(0, 0\).*input_output_aliases",
        ),
    )
)
