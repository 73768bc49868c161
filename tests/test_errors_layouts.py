"""Values that the compiler finds no layout for, each provoked for real, and what a learner reads."""

import jax
import jax.numpy as jnp
import provoke
import pytest
from conftest import PINNED
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from provoke import Shape, compiled
from sweeps import daily

F32, BF16, I32 = jnp.float32, jnp.bfloat16, jnp.int32
HALF_ROWS, MANY = Shape((16, 128), F32), Shape((48, 128), F32)


def of(fn, *args):
    """What the compiler says to a kernel that writes fn(its whole inputs)."""

    def kernel(*refs):
        refs[-1][...] = fn(*(ref[...] for ref in refs[:-1]))

    out = jax.eval_shape(fn, *args)
    return compiled(lambda *values: pl.pallas_call(kernel, out_shape=Shape(out.shape, out.dtype))(*values), *args)


def chosen(mask):
    return jnp.where(mask, 1.0, 0.0)


def gathered(axis, *shape, dtype=F32):
    return of(lambda i, x: jnp.take_along_axis(x, i, axis), Shape(shape, I32), Shape(shape, dtype))


def gathered_by_lanes(i, x):
    """Elements of 256 lanes, half by half."""
    low, high = (jnp.take_along_axis(half, i % 128, 1) for half in (x[:, :128], x[:, 128:]))
    return jnp.where(i < 128, low, high)


def gathered_by_rows(i, x):
    low, high = (jnp.take_along_axis(half, i % 8, 0) for half in (x[:8], x[8:]))
    return jnp.where(i < 8, low, high)


def gathered_of_one_axis(i, x):
    i8, x8 = (jnp.broadcast_to(v, (8, v.size)) for v in (i, x))
    return jnp.take_along_axis(x8, i8, 1)[0]


def reshaped(before, after, dtype=F32):
    return of(lambda x: x.reshape(after), Shape(before, dtype))


def rows_joined(before, after):
    parts = before[0] // after[0]

    def join(x):
        v = x.reshape(after[0], parts, before[1])
        return jnp.concatenate([v[:, i] for i in range(parts)], axis=1)

    return of(join, Shape(before, F32))


def lanes_cut(before, after):
    wide = after[1]

    def cut(x):
        return jnp.stack([x[:, wide * i : wide * (i + 1)] for i in range(before[1] // wide)], axis=1).reshape(after)

    return of(cut, Shape(before, F32))


FAILURES = {
    "booleans": (
        of(lambda x: jnp.where((jnp.arange(48) < 37)[:, None], x, 0.0), MANY),
        "The kernel changes the layout of booleans (`broadcast_in_dim` in <lambda>, line ",
    ),
    "booleans, rolled along the lanes": (
        of(lambda x: jnp.where(jnp.roll(x > 0, 1, 1), x, 0.0), HALF_ROWS),
        "The kernel changes the layout of booleans (`concatenate`",
    ),
    "booleans, rolled along the rows": (
        of(lambda x: jnp.where(jnp.roll(x > 0, 1, 0), x, 0.0), HALF_ROWS),
        "The kernel changes the layout of booleans",
    ),
    "booleans, joined within a register": (
        of(lambda x: chosen(jnp.concatenate([x > 0, x < 1])), Shape((4, 128), F32)),
        "The kernel changes the layout of booleans (`concatenate` in <lambda>, line ",
    ),
    "booleans, two axes in front exchanged": (
        of(lambda x: chosen(jnp.swapaxes(x > 0, 0, 1)), Shape((8, 16, 128), F32)),
        "The kernel changes the layout of booleans (`transpose` in <lambda>, line ",
    ),
    "booleans-made": (
        of(lambda x: chosen((x > 0).reshape(8, 256)), HALF_ROWS),
        "The layout of booleans computed in the kernel (`gt` in <lambda>, line ",
    ),
    "booleans-made, rolled by pltpu": (
        of(lambda x: jnp.where(pltpu.roll(x > 0, 1, 1), x, 0.0), HALF_ROWS),
        "The layout of booleans computed in the kernel (`gt` in <lambda>, line ",
    ),
    "booleans-made, on one axis": (
        of(lambda x: chosen((x > 0).ravel()), Shape((8, 128), F32)),
        "The layout of booleans computed in the kernel (`gt` in <lambda>, line ",
    ),
    "booleans-abort": (
        of(lambda x: chosen((x > 0).reshape(256, 8)), HALF_ROWS),
        "laid out booleans that get another shape or a new axis (line ",
    ),
    "booleans-abort, of one axis": (
        of(lambda x: chosen((x > 0).reshape(8, 128)), Shape((1024,), F32)),
        "laid out booleans that get another shape or a new axis (line ",
    ),
    "booleans-abort, a new last axis": (
        of(lambda x: chosen((x > 0)[:, :, None] & (x > 1)[:, None, :]), Shape((8, 128), F32)),
        "laid out booleans that get another shape or a new axis (line ",
    ),
    "booleans-chosen": (
        of(lambda x: chosen(jnp.where(x > 0, x > 1, x < -1)), HALF_ROWS),
        "The kernel chooses between booleans",
    ),
    "reshape-across-lanes": (
        reshaped((24, 96), (8, 288)),
        "The kernel reshapes (24, 96) to (8, 288) (`reshape` in <lambda>, line ",
    ),
    "reshape-across-lanes, back": (reshaped((8, 288), (24, 96)), "The kernel reshapes (8, 288) to (24, 96)"),
    "reshape-across-lanes, to one axis": (reshaped((8, 64), (512,)), "The kernel reshapes (8, 64) to (512,)"),
    "reshape-across-lanes, of narrow columns": (reshaped((256, 8), (8, 256)), "reshapes (256, 8) to (8, 256)"),
    "reshape-across-lanes, sizes that share nothing": (reshaped((4, 12), (6, 8)), "reshapes (4, 12) to (6, 8)"),
    "reshape-across-lanes, of bfloat16": (reshaped((24, 96), (8, 288), BF16), "reshapes (24, 96) to (8, 288)"),
    "gather-past-a-register": (gathered(1, 8, 256), "gathers along axis 1, which has 256 elements (`gather`, line "),
    "gather-past-a-register, of rows": (gathered(0, 16, 128), "covers one register: 8 rows."),
    "gather-bits": (gathered(1, 16, 128, dtype=BF16), "gathers bf16 values by 32-bit indices (`gather`, line "),
    "gather-one-axis": (gathered(0, 128), "a one-axis array of length 128"),
    "gather-one-axis, by an index": (
        of(lambda i, x: x[i], Shape((128,), I32), Shape((128,), F32)),
        "a one-axis array of length 128 by an array of indices (`gather` in <lambda>, line ",
    ),
}
CURES = {
    "booleans": of(lambda x: jnp.where(jnp.arange(48)[:, None] < 37, x, 0.0), MANY),
    "booleans, as integers": of(lambda x: chosen((x > 0).astype(I32).reshape(8, 256) > 0), HALF_ROWS),
    "booleans, rolled as integers": of(lambda x: chosen(jnp.roll((x > 0).astype(I32), 1, 1) > 0), HALF_ROWS),
    "booleans-abort": of(lambda x: chosen((x > 0).astype(I32).reshape(256, 8) > 0), HALF_ROWS),
    "booleans-abort, a new axis": of(lambda x: chosen((x[:, :, None] > 0) & (x[:, None, :] > 1)), Shape((8, 128), F32)),
    "booleans-chosen": of(lambda x: chosen((x > 0) & (x > 1) | ~(x > 0) & (x < -1)), HALF_ROWS),
    "reshape, by hand": rows_joined((24, 96), (8, 288)),
    "reshape, by hand, of narrow columns": rows_joined((256, 8), (8, 256)),
    "reshape, back by hand": lanes_cut((8, 288), (24, 96)),
    "reshape, to one axis by hand": of(lambda x: jnp.concatenate([x[i] for i in range(8)]), Shape((8, 64), F32)),
    "gather, lanes": of(gathered_by_lanes, Shape((8, 128), I32), Shape((8, 256), F32)),
    "gather, rows": of(gathered_by_rows, Shape((8, 128), I32), Shape((16, 128), F32)),
    "gather, bits": of(
        lambda i, x: jnp.take_along_axis(x.astype(F32), i, 1).astype(x.dtype),
        Shape((16, 128), I32),
        Shape((16, 128), BF16),
    ),
    "gather, one axis": of(gathered_of_one_axis, Shape((128,), I32), Shape((128,), F32)),
}
# The nearest programs that are right: no row may speak of them, and the compiler takes them.
RIGHT = {
    "booleans get an axis in front": of(lambda x: jnp.where((jnp.arange(128) < 37)[None], x, 0.0), MANY),
    "booleans get an axis in the middle": of(lambda x: chosen((x > 0)[:, None]), Shape((8, 128), F32)),
    "booleans are transposed": of(lambda x: chosen((x > 0).T), HALF_ROWS),
    "booleans are joined by whole registers": of(lambda x: chosen(jnp.concatenate([x > 0, x < 1])), HALF_ROWS),
    "booleans are cut and tiled": of(lambda x: chosen(jnp.tile((x > 0)[4:12], (2, 1))), HALF_ROWS),
    "numbers chosen by booleans": of(lambda x: jnp.where(x > 0, x, -x), HALF_ROWS),
    "a reshape by whole registers": reshaped((16, 128), (8, 256)),
    "a reshape that splits lanes": reshaped((8, 128), (8, 8, 16)),
    "a reshape that splits rows": reshaped((24, 96), (8, 3, 96)),
    "a gather within a register": gathered(1, 16, 128),
    "a gather within a register's rows": gathered(0, 8, 128),
}


# One abort of the compiler takes the child with it, and the next one starts another: one every day.
ABORTS = [failure for failure in FAILURES if failure.startswith("booleans-abort,")]


@pytest.mark.parametrize("failure", daily(*[f for f in FAILURES if f not in ABORTS], of=FAILURES))
def test_failure_is_explained(failure):
    if failure == "booleans" and not PINNED:
        pytest.skip("libtpu 0.0.50 aborts there, and the row of aborts speaks")
    provoke.assert_explained(failure, *FAILURES[failure])


@pytest.mark.parametrize("cure", CURES)
def test_a_cure_compiles(cure):
    provoke.assert_compiles(CURES[cure])


@pytest.mark.parametrize("program", RIGHT)
def test_no_row_speaks_of_what_is_right(program):
    provoke.assert_compiles(RIGHT[program])


def test_the_advice_on_a_reshape_is_for_these_shapes():
    def cure(failure):
        return FAILURES[failure][0]().next

    assert "v = x.reshape(8, 3, 96) and jnp.concatenate([v[:, i] for i in range(3)], axis=1)" in cure(
        "reshape-across-lanes"
    )
    assert "jnp.stack([x[:, 96 * i : 96 * (i + 1)] for i in range(3)], axis=1).reshape(24, 96)" in cure(
        "reshape-across-lanes, back"
    )
    assert "jnp.concatenate([x[i] for i in range(8)])" in cure("reshape-across-lanes, to one axis")
    assert cure("reshape-across-lanes, sizes that share nothing").startswith("reshape it outside the kernel")


def test_an_abort_is_not_called_a_want_of_memory():
    assert "memory" not in str(FAILURES["booleans-abort"][0]())
