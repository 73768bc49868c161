"""Arithmetic around kernels: what only moves data is none, and arithmetic that hides in a movement is found."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import grid, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds import kernel

X = jnp.linspace(-3, 3, 1024, dtype=jnp.float32).reshape(8, 128)
LIST = jnp.arange(8, dtype=jnp.int32)
TABLE = np.arange(256, dtype=np.uint8)


def copied(x):
    def copy_kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    return pl.pallas_call(copy_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def steered(numbers, x):
    def kernel(numbers_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]

    block = pl.BlockSpec(x.shape, lambda i, numbers: (numbers[0], 0))
    grid_spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(1,), in_specs=[block], out_specs=block)
    return pl.pallas_call(kernel, grid_spec=grid_spec, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(numbers, x)


def in_steps(x, steps):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    whole = pl.BlockSpec(x.shape, lambda i: (0, 0))
    return pl.pallas_call(
        kernel, grid=(steps,), in_specs=[whole], out_specs=whole, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype)
    )(x)


def whole(x):
    return lax.bitcast_convert_type(x, jnp.int32)


def parts(x):
    return lax.bitcast_convert_type(x, jnp.uint8).astype(jnp.int32)


def put_together(parts):
    return lax.bitcast_convert_type(parts, jnp.float32)


def through_a_table(x, table):
    return put_together(jnp.asarray(table)[parts(x)])


def one_hot(x):
    rows, columns = jnp.arange(8)[:, None], jnp.arange(128)[None]
    return jnp.zeros((8, 128, 16)).at[rows, columns, x.astype(jnp.int32)].set(1.0)[..., 1]


def counted(x):
    turns = lax.while_loop(lambda n: n < whole(x)[0, 0], lambda n: n + 1, 0)
    return jnp.zeros_like(x).at[0, 0].set(turns.astype(jnp.float32))


def bit_by_bit(x):
    def turn(i, x):
        return x.at[i, 0].set(lax.bitcast_convert_type(whole(x[i, 0]) + 1, jnp.float32))

    return lax.fori_loop(0, 8, turn, x)


LAUNDERED = {
    "an iota at the numbers' bytes": lambda x: copied(through_a_table(2 * x, lax.iota(jnp.uint8, 256))),
    "a constant table at the numbers' bytes": lambda x: copied(through_a_table(2 * x, TABLE)),
    "the same behind the kernel": lambda x: through_a_table(2 * copied(x), TABLE),
    "the same inside jit": lambda x: jax.jit(lambda x: copied(through_a_table(2 * x, TABLE)))(x),
    "the same for a part of the result": lambda x: jnp.concatenate([copied(x[:4]), through_a_table(2 * x[4:], TABLE)]),
    "the same in a loop": lambda x: lax.map(lambda row: copied(through_a_table(2 * row, TABLE)[None])[0], x),
    "a table behind the numbers themselves": lambda x: copied(
        jnp.concatenate([x.ravel(), jnp.arange(9.0)])[parts(x).ravel()[:1024]].reshape(8, 128)
    ),
    "a slice for each number": lambda x: copied(
        jax.vmap(jax.vmap(lambda v: lax.dynamic_slice(jnp.arange(9.0), (v.astype(jnp.int32),), (1,))[0]))(2 * x)
    ),
    "an update at a computed place": lambda x: copied(
        lax.dynamic_update_slice(x, jnp.ones((1, 1)), (whole(2 * x)[0, 0], 0))
    ),
    "one-hot": lambda x: copied(one_hot(x)),
    "a sort": lambda x: copied(x[jnp.argsort(x[:, 0])]),
    "bits in SMEM": lambda x: steered(whole(2 * x).ravel(), x),
    "the condition of a cond": lambda x: copied(lax.cond(x[0, 0] > 0, jnp.ones_like, jnp.zeros_like, x)),
    "the branch of a switch": lambda x: copied(lax.switch(whole(x)[0, 0], [jnp.ones_like, jnp.zeros_like], x)),
    "the turns of a loop": lambda x: copied(counted(x)),
    "whole numbers in a loop": lambda x: copied(bit_by_bit(x)),
    "rounding to whole numbers": lambda x: copied(x.astype(jnp.int32).astype(jnp.float32)),
    "rounding to eight bits": lambda x: copied(x.astype(jnp.float8_e8m0fnu).astype(jnp.float32)),
    "which numbers are zero": lambda x: copied(x.astype(bool).astype(jnp.float32)),
    "remainders": lambda x: copied(whole(x).astype(jnp.int8)),
    "exchanged bytes": lambda x: copied(put_together(lax.bitcast_convert_type(x, jnp.uint8)[..., ::-1])),
    "the size of the grid": lambda x: in_steps(x, 4 + x[0, 0].astype(jnp.int32)),
}
OF_INTEGERS = {
    "a table": lambda n: copied(jnp.arange(1, 257, dtype=jnp.int32)[n]),
    "constants side by side": lambda n: copied(jnp.stack([jnp.int32(i * i) for i in range(8)])[n]),
    "integers in SMEM": lambda n: steered(n * n, jnp.zeros((8, 128), jnp.int32)),
}
HONEST = {
    "padding": lambda x, n: copied(jnp.pad(x, ((0, 8), (0, 0)), constant_values=-jnp.inf))[:8],
    "a slice set": lambda x, n: copied(jnp.zeros((16, 128)).at[:8].set(x))[:8],
    "layout": lambda x, n: copied(x.reshape(2, 4, 128).swapaxes(0, 1)).reshape(8, 128).T,
    "rows by a list": lambda x, n: copied(x[n]),
    "jnp.take": lambda x, n: copied(jnp.take(x, n, axis=0)),
    "rows by a list that is computed with": lambda x, n: copied(x[jnp.clip(n + 1, 0, 7)]),
    "rows sorted by a list, and back": lambda x, n: copied(x[jnp.argsort(n)])[jnp.argsort(jnp.argsort(n))],
    "rows scattered by a list": lambda x, n: jnp.zeros_like(x).at[n].set(copied(x)),
    "constant places": lambda x, n: copied(x[jnp.tril_indices(8)]),
    "another dtype": lambda x, n: copied(x.astype(jnp.bfloat16)).astype(jnp.float32),
    "the same bits": lambda x, n: lax.bitcast_convert_type(copied(whole(x)), jnp.float32),
    "rolled, by a list's number": lambda x, n: copied(jnp.roll(x, n[0], 0)),
    "split": lambda x, n: jnp.concatenate([copied(part) for part in jnp.split(x, 2)]),
    "repeated": lambda x, n: copied(jnp.repeat(x, 2, axis=0)),
    "repeated as a list says": lambda x, n: copied(jnp.repeat(x, n, axis=0, total_repeat_length=28)),
    "a loop over slices": lambda x, n: lax.fori_loop(
        0, 8, lambda i, a: lax.dynamic_update_slice(a, copied(lax.dynamic_slice(x, (i, 0), (1, 128))), (i, 0)), x
    ),
    "map": lambda x, n: lax.map(lambda row: copied(row[None])[0], x),
    "vmap": lambda x, n: jax.vmap(copied)(x[None])[0],
    "checkpoint": lambda x, n: jax.checkpoint(copied)(x),
    "a computed list in SMEM": lambda x, n: steered(jnp.cumsum(n) - n, x),
    "a padded list in SMEM": lambda x, n: steered(jnp.concatenate([n, jnp.zeros(3, jnp.int32)]), x),
    "a condition on a list": lambda x, n: lax.cond(n[0] > 0, copied, lambda x: copied(x[::-1]), x),
    "as many steps as a list says": lambda x, n: in_steps(x, pl.cdiv(n[0] + 8, 8)),
}


def around(fn, *args):
    return judges.arithmetic_around(grid.walk(fn, *args))


@pytest.mark.parametrize("fn", LAUNDERED.values(), ids=LAUNDERED)
def test_arithmetic_that_hides_in_a_movement_is_found(fn):
    assert set(around(fn, X)) - {"lt", "gt", "mul"}  # those are seen without any care


@pytest.mark.parametrize("fn", OF_INTEGERS.values(), ids=OF_INTEGERS)
def test_where_all_arguments_are_integers_they_are_values(fn):
    assert around(fn, LIST)


@pytest.mark.parametrize("fn", HONEST.values(), ids=HONEST)
def test_what_only_moves_data_is_no_arithmetic(fn):
    assert around(fn, X, LIST) == []


def test_arithmetic_is_named_by_its_operations():
    assert around(lambda x: copied(x / 2) * 2, X) == ["div", "mul"]


def test_arithmetic_that_a_loop_hands_to_the_next_turn_is_outside_too():
    def hidden(x, y):
        return lax.scan(lambda total, _: (total + y, copied(total)), x, length=2)[1][1]

    assert around(hidden, X, X) == ["add"]


def test_a_judge_takes_what_an_exercise_refuses():
    halved = lambda x: copied(x / 2) * 2  # noqa: E731
    assert all(said.passed is not False for said in judges.judge(halved, lambda x: x, X))


def outcome_of(fn, **fields):
    task = Exercise(
        id="99.1",
        title="Twice the sum",
        kind="write",
        defines="twice",
        hints=("one", "two", "three"),
        points=1,
        inputs=("x: f32[M,N]",),
        sizes=({"M": 16, "N": 256}, {"M": 8, "N": 128}, {"M": 5, "N": 130}),
        reference=lambda x: 2 * x,
        judges=("numbers",),
        **fields,
    )
    return kernel.result(task, fn)


def test_an_exercise_refuses_a_result_that_came_through_a_table():
    laundered = LAUNDERED["a constant table at the numbers' bytes"]
    said = outcome_of(laundered)
    assert (said.outcome, said.judge) == ("not yet", "exercise")
    assert "outside the kernel: an index of gather that comes from values, bitcast_convert_type." in said.message
    assert outcome_of(laundered, arithmetic_around=True).passed
