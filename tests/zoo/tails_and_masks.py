"""Loops one turn too short or too long, slices past the end, and masks in the wrong place."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from zoo.arrays import counted, normal
from zoo.bug import Bug

ROWS = 8


def maximum_in_a_loop(x, turns):
    """The largest of each column of x, eight rows a turn; right is as many turns as there are eight rows."""

    def maximum_kernel(x_ref, o_ref):
        def turn(i, largest):
            rows = pl.ds(pl.multiple_of(ROWS * i, ROWS), ROWS)
            return jnp.maximum(largest, x_ref[rows])

        o_ref[...] = jax.lax.fori_loop(0, turns, turn, jnp.full((ROWS, 128), -jnp.inf))

    out = jax.ShapeDtypeStruct((ROWS, 128), x.dtype)
    return pl.pallas_call(maximum_kernel, out_shape=out)(x)


def ragged_sum(x, mask):
    """The sum of 20 rows, eight at a step; ``mask(block, first_row)`` gives the block without what is no row of x."""

    def sum_kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def _start():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += mask(x_ref[...], ROWS * pl.program_id(0)).sum(0, keepdims=True)

    return pl.pallas_call(
        sum_kernel,
        out_shape=jax.ShapeDtypeStruct((1, 128), x.dtype),
        grid=(3,),
        in_specs=[pl.BlockSpec((ROWS, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((1, 128), lambda i: (0, 0)),
    )(x)


def count_of_negatives(x):
    """How many numbers of each column are negative, eight rows at a step; the last four rows of 24 are not of x."""

    def count_kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def _start():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += (x_ref[...] < 0).astype(jnp.float32).sum(0, keepdims=True)

    return pl.pallas_call(
        count_kernel,
        out_shape=jax.ShapeDtypeStruct((1, 128), x.dtype),
        grid=(3,),
        in_specs=[pl.BlockSpec((ROWS, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((1, 128), lambda i: (0, 0)),
    )(x)


def inside(block, first_row):
    return first_row + jax.lax.broadcasted_iota(jnp.int32, block.shape, 0) < 20


def mask_after_the_sum(x):
    """Sums all eight rows of a block and asks then whether the block's last row is one of x."""

    def sum_kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def _start():
            o_ref[...] = jnp.zeros_like(o_ref)

        total = x_ref[...].sum(0, keepdims=True)
        o_ref[...] += jnp.where(ROWS * pl.program_id(0) + ROWS <= 20, total, 0)

    return pl.pallas_call(
        sum_kernel,
        out_shape=jax.ShapeDtypeStruct((1, 128), x.dtype),
        grid=(3,),
        in_specs=[pl.BlockSpec((ROWS, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((1, 128), lambda i: (0, 0)),
    )(x)


def masked_softmax(scores, mask):
    """Softmax of each row of scores, over the columns where ``mask(row, column)`` is true."""

    def softmax_kernel(s_ref, o_ref):
        row = ROWS * pl.program_id(0) + jax.lax.broadcasted_iota(jnp.int32, s_ref.shape, 0)
        column = jax.lax.broadcasted_iota(jnp.int32, s_ref.shape, 1)
        s = jnp.where(mask(row, column), s_ref[...], -jnp.inf)
        e = jnp.exp(s - s.max(-1, keepdims=True))
        o_ref[...] = e / e.sum(-1, keepdims=True)

    spec = pl.BlockSpec((ROWS, scores.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        softmax_kernel,
        out_shape=jax.ShapeDtypeStruct(scores.shape, scores.dtype),
        grid=(scores.shape[0] // ROWS,),
        in_specs=[spec],
        out_specs=spec,
    )(scores)


def gradient_of_a_weight(x, dy):
    """x.T @ dy, 16 rows at a step, with the rows past the end cut off x, and left in dy."""

    def gradient_kernel(x_ref, dy_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def _start():
            o_ref[...] = jnp.zeros_like(o_ref)

        row = 16 * pl.program_id(0) + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 0)
        rows = jnp.where(row < x.shape[0], x_ref[...], 0)
        o_ref[...] += jnp.dot(rows.T, dy_ref[...], precision=jax.lax.Precision.HIGHEST)

    return pl.pallas_call(
        gradient_kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[1], dy.shape[1]), x.dtype),
        grid=(pl.cdiv(x.shape[0], 16),),
        in_specs=[pl.BlockSpec((16, 128), lambda i: (i, 0))] * 2,
        out_specs=pl.BlockSpec((128, 128), lambda i: (0, 0)),
    )(x, dy)


def product_of_the_transpose(x, dy):
    return jnp.dot(x.T, dy, precision=jax.lax.Precision.HIGHEST)


def maximum(x):
    return x.reshape(-1, ROWS, 128).max(0)


def total(x):
    return x.sum(0, keepdims=True)


def negatives(x):
    return (x < 0).astype(jnp.float32).sum(0, keepdims=True)


def causal_softmax(scores):
    mask = jnp.tril(jnp.ones(scores.shape, bool))
    return jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1)


FOUR_BLOCKS = (counted(32, 128),)
RAGGED = (counted(20, 128) + 1,)
SCORES = (normal(16, 128),)

BUGS = tuple(
    Bug(kind="tails and masks", name=name, fn=fn, reference=reference, args=args, caught_by=caught_by, says=says)
    for name, fn, reference, args, caught_by, says in (
        (
            "loop one turn short",
            partial(maximum_in_a_loop, turns=3),
            maximum,
            FOUR_BLOCKS,
            "numbers",
            r"(?s)x_ref\[24:32\] is never read.*iterations of the loop",
        ),
        (
            "loop one turn long",
            partial(maximum_in_a_loop, turns=5),
            maximum,
            FOUR_BLOCKS,
            "simulator",
            r"outside x_ref: \[32:40, 0:128\] of shape \(32, 128\)",
        ),
        (
            "ragged edge without a mask",
            partial(ragged_sum, mask=lambda block, first_row: block),
            total,
            RAGGED,
            "numbers",
            r"(?s)step \(2,\) the block of x_ref reaches past the end.*last 4 of this block are garbage.*jnp\.where",
        ),
        (
            "one operand of two masked",
            gradient_of_a_weight,
            product_of_the_transpose,
            (normal(40, 128), normal(40, 128)),
            "numbers",
            r"(?s)step \(2,\) the block of dy_ref reaches past.*masks x_ref but not dy_ref.*NaN \* 0 is NaN",
        ),
        (
            "mask by multiplying",
            partial(ragged_sum, mask=lambda block, first_row: block * inside(block, first_row)),
            total,
            RAGGED,
            "numbers",
            r"(?s)step \(2,\) the block of x_ref reaches past.*NaN \* 0 is NaN.*what this kernel does",
        ),
        (
            "mask that counts from the block",
            partial(ragged_sum, mask=lambda block, first_row: jnp.where(inside(block, 0), block, 0)),
            total,
            RAGGED,
            "numbers",
            r"(?s)step \(2,\).* of x_ref reaches past.*mask of x_ref lets all.*the mask does not use pl.program_id",
        ),
        (
            "mask that looks for NaN",
            partial(ragged_sum, mask=lambda block, first_row: jnp.nan_to_num(block)),
            total,
            RAGGED,
            "simulator",
            r"With 1234\.5 there instead, its results are wrong",
        ),
        (
            "comparison in the place of a mask",
            count_of_negatives,
            negatives,
            (normal(20, 128),),
            "simulator",
            r"(?s)wrong with -inf past the end of the array that x_ref reads.*mask by index.*y > 0 is no mask",
        ),
        (
            "mask after the sum",
            mask_after_the_sum,
            total,
            RAGGED,
            "numbers",
            r"(?s)at \[0, 0\] is 15376; it should be 24340.*should depend on x\[16:20, :\], but does not.*mask",
        ),
        (
            "causal mask off by one",
            partial(masked_softmax, mask=lambda row, column: column < row + 2),
            causal_softmax,
            SCORES,
            "numbers",
            r"(?s)step \(0,\).*it should be 1\. .*depends on scores\[:, 1\], but should not.*mask that is off by one",
        ),
    )
)
