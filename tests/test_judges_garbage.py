"""Sums over a ragged edge: what lies past it is NaN in the simulator, and anything on a chip."""

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from sweeps import daily

from course_lib import judges

COLUMNS = 300


def row_sums(keep):
    """A kernel that adds up the rows of x[M, 300] in blocks of 128 columns, after ``keep``."""

    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(1) == 0)
        def zero():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += jnp.sum(keep(x_ref[...]), axis=1, keepdims=True)

    return lambda x: pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((len(x), 1), x.dtype),
        grid=(pl.cdiv(len(x), 8), pl.cdiv(COLUMNS, 128)),
        in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((8, 1), lambda i, j: (i, 0)),
    )(x)


def column(x, axis=1):
    return 128 * pl.program_id(axis) + jax.lax.broadcasted_iota(jnp.int32, x.shape, 1)


def verdict(keep, rows=16, of=lambda x: x):
    """What the judges say of the sum of ``keep``, where that of ``of`` is asked for."""
    x = jnp.arange(float(rows * COLUMNS)).reshape(rows, COLUMNS)
    return judges.judge(row_sums(keep), lambda x: of(x).sum(axis=1, keepdims=True), x, simulate=False)[-1]


BY_NAN = {
    "nan_to_num": jnp.nan_to_num,
    "x == x": lambda x: jnp.where(x == x, x, 0),
    "isnan": lambda x: jnp.where(jnp.isnan(x), 0, x),
}


@pytest.mark.parametrize("name", daily("nan_to_num", "x == x", of=BY_NAN))
def test_garbage_told_by_its_being_nan(name):
    said = verdict(BY_NAN[name])
    assert said.judge == "simulator" and said.passed is False
    assert "With 1234.5 there instead, its results are wrong" in said.message and "by its position" in said.next


COMPARED = {
    "> 0": (lambda x: jnp.where(x > 0, x, 0), "inf"),
    ">= 1": (lambda x: jnp.where(x >= 1, x, 0), "inf"),
    "< 7": (lambda x: jnp.where(x < 7, 1.0, 0), "-inf"),
    "between two": (lambda x: jnp.where((x > 10) & (x < 1e6), x, 0), "2400"),  # the middle one of the data
    "== 7": (lambda x: jnp.where(x == 7, x, 0), "7"),
    "converted to integers": (lambda x: jnp.where(x.astype(jnp.int32) > 5, 1.0, 0), "inf"),
}


@pytest.mark.parametrize("name", daily("< 7", "between two", "== 7", "converted to integers", of=COMPARED))
def test_a_comparison_that_keeps_garbage_out_because_it_is_nan(name):
    keep, filling = COMPARED[name]
    said = verdict(keep, of=keep)
    assert said.judge == "simulator" and said.passed is False
    assert f"wrong with {filling} past the end of the array that x_ref reads" in said.message
    assert "always false for NaN" in said.message and "y > 0 is no mask" in said.next


def test_integers_that_neither_the_largest_nor_the_smallest_one_shows():
    """The simulator fills integers with the largest one, the plain interpreter with the smallest."""

    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def start():
            o_ref[...] = jnp.zeros_like(o_ref)

        small = (x_ref[...] > 0) & (x_ref[...] < 999)
        o_ref[...] += jnp.sum(small.astype(jnp.int32), axis=0, keepdims=True)

    def count(x):
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((1, 128), x.dtype),
            grid=(3,),
            in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
            out_specs=pl.BlockSpec((1, 128), lambda i: (0, 0)),
        )(x)

    x = 3 + jnp.arange(20 * 128).reshape(20, 128)
    said = judges.judge(count, lambda x: jnp.sum((x > 0) & (x < 999), axis=0, keepdims=True), x, simulate=False)[-1]
    assert said.judge == "simulator" and "wrong with the integer 3 past the end" in said.message
    assert "compare the index with the length" in said.next


@pytest.mark.parametrize("sign", [1, -1])
def test_a_running_maximum_that_starts_from_scratch_nobody_wrote(sign):
    def kernel(x_ref, o_ref, best_ref):
        best_ref[...] = jnp.where(best_ref[...] > x_ref[...], best_ref[...], x_ref[...])
        o_ref[...] = best_ref[...]

    def largest(x):
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype),
            grid=(4,),
            in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)),
            scratch_shapes=[pltpu.VMEM((8, 128), x.dtype)],
        )(x)

    x = sign * (1 + jnp.arange(32.0 * 128).reshape(32, 128))
    said = judges.judge(largest, lambda x: x.reshape(4, 8, 128).max(0), x)[-1]
    assert said.judge == "simulator" and said.passed is False, said
    assert "wrong with inf in best_ref, which step (0,) reads before anything has been written" in said.message
    assert "write that memory before the first step" in said.next


def test_a_comparison_beside_a_mask_by_the_index_is_right():
    assert verdict(lambda x: jnp.where((column(x) < COLUMNS) & (x > 0), x, 0)).passed is not False


@pytest.mark.parametrize(
    "keep, through, why",
    [
        (
            lambda x: jnp.where(jax.lax.broadcasted_iota(jnp.int32, x.shape, 1) < COLUMNS, x, 0),
            "all 128 columns",
            "the mask does not use pl.program_id",
        ),
        (lambda x: jnp.where(column(x) <= COLUMNS, x, 0), "45 columns", "check for a <= that should be <"),
        (
            lambda x: jnp.where(column(x, axis=0) < COLUMNS, x, 0),
            "all 128 columns",
            "the block moves with axis 1 of the grid, but the mask uses axis 0",
        ),
        (
            lambda x: jnp.where(jax.lax.broadcasted_iota(jnp.int32, x.shape, 0) < COLUMNS, x, 0),
            "all 128 columns",
            "the mask runs along axis 0 of the block, but the array ends along axis 1",
        ),
        (
            lambda x: jnp.where(column(x) < COLUMNS + 2, x, 0),
            "46 columns",
            "compare pl.program_id(1) * 128 + the index in the block along axis 1 with 300",
        ),
    ],
    ids=["counts in the block", "<=", "another axis of the grid", "another axis of the block", "two too many"],
)
def test_a_mask_that_lets_some_through(keep, through, why):
    said = verdict(keep)
    assert said.judge == "numbers" and "broadcasted_iota" not in said.next
    assert f"The mask of x_ref lets {through} of that block through, but only 44 of them" in said.message, str(said)
    assert why in said.next, said.next


@pytest.mark.parametrize(
    "fill, says", [(jnp.inf, "puts inf where its mask hides an element, and then takes the sum"), (0.0, ""), (3.0, "")]
)
def test_an_infinity_that_a_mask_puts_in(fill, says):
    said = verdict(lambda x: jnp.where(column(x) < COLUMNS, x, fill))
    assert says in said.message and (says or "where its mask hides" not in said.message)
    assert not says or "put 0 there" in said.next


def test_of_a_mask_that_depends_on_the_data_nothing_is_said():
    said = verdict(lambda x: jnp.where(jnp.isnan(x) & (column(x) < COLUMNS), 0, x))
    assert "The mask of x_ref lets" not in said.message and "reaches past the end" in said.message


def test_a_quotient_of_zeros_is_not_garbage_that_got_through():
    """Masked right, and then 0 / 0: no number past the end would change that."""
    said = verdict(lambda x: jnp.where(column(x) < COLUMNS, x, 0) * 0 / jnp.float32(0))
    assert said.judge == "numbers" and "computes that NaN itself" in said.message


MASKS = {
    "where": lambda x: jnp.where(column(x) < COLUMNS, x, 0),
    "where, and finite": lambda x: jnp.where((column(x) < COLUMNS) & jnp.isfinite(x), x, 0),
}


@pytest.mark.parametrize("name", daily("where", of=MASKS))  # beside x > 0, above, stands for beside isfinite
def test_a_mask_by_the_index_is_right(name):
    assert verdict(MASKS[name]).passed is not False


def test_of_two_ragged_axes_the_one_that_is_summed_over_is_blamed():
    assert "axis 1 has 300 elements, in blocks of 128" in verdict(lambda x: x, rows=20).message
