"""Copies by hand of parts of tiles, each provoked for real, and what a learner reads."""

import functools

import jax.numpy as jnp
import provoke
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from provoke import Shape, compiled

from course_lib import errors

F32, BF16, I8 = jnp.float32, jnp.bfloat16, jnp.int8
IN_HBM = pl.BlockSpec(memory_space=pl.ANY)


def copying(part, buffer, array=(64, 128), dtype=F32, into=None):
    """What the compiler says to a kernel that copies part(array in HBM, grid step) into a buffer, or a part of it."""

    def kernel(x_hbm, o_ref, buffer_ref, sem):
        i = pl.program_id(0)
        copy = pltpu.make_async_copy(part(x_hbm, i), into(buffer_ref) if into else buffer_ref, sem)
        copy.start()
        copy.wait()
        o_ref[...] = jnp.zeros(o_ref.shape, o_ref.dtype)

    def f(x):
        return pl.pallas_call(
            kernel,
            grid=(4,),
            in_specs=[IN_HBM],
            out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)),
            out_shape=Shape((8, 128), dtype),
            scratch_shapes=[pltpu.VMEM(buffer, dtype), pltpu.SemaphoreType.DMA],
        )(x)

    return compiled(f, Shape(array, dtype))


narrow = functools.partial(copying, dtype=BF16)
ONE_ROW = (lambda x, i: x.at[pl.ds(i, 1)], (1, 128))
LANES = {size: (lambda x, i, size=size: x.at[:, pl.ds(0, size)], (64, size)) for size in (64, 96)}
FAILURES = {
    "copy-part-of-a-tile": (
        narrow(*ONE_ROW),
        "copies part of a tile of bf16[64, 128] (`dma_start` in kernel, line ",
    ),
    "copy-part-of-a-tile, by a number": (narrow(lambda x, i: x.at[i], (128,)), "begins at a number of rows that"),
    "copy-part-of-a-tile, a known row": (narrow(lambda x, i: x.at[pl.ds(3, 1)], (1, 128)), "to be a multiple of 8."),
    "copy-part-of-a-tile, the first row": (
        narrow(lambda x, i: x.at[pl.ds(0, 1)], (1, 128)),
        "the slice takes a number of rows that is not a multiple of 8.",
    ),
    "copy-part-of-a-tile, of bytes": (
        copying(*ONE_ROW, dtype=I8),
        "of i8[64, 128] (`dma_start` in kernel, line ",
    ),
    "copy-part-of-a-tile, into the buffer": (
        narrow(lambda x, i: x.at[pl.ds(0, 8)], (64, 128), into=lambda buffer: buffer.at[pl.ds(3, 8)]),
        "begins at a number of rows that",
    ),
    "copy-part-of-a-tile, of lanes": (
        copying(lambda x, i: x.at[:, pl.ds(64 * i, 128)], (64, 128), (64, 512)),
        "begins at a number of lanes that the compiler cannot prove to be a multiple of 128.",
    ),
    "copy-part-of-a-tile, fewer lanes": (
        copying(lambda x, i: x.at[:, pl.ds(0, 96)], (64, 96), (64, 256)),
        "takes a number of lanes that is not a multiple of 128.",
    ),
    "copy-part-of-a-tile, of one axis": (
        narrow(lambda x, i: x.at[pl.ds(128 * i, 128)], (128,), (4096,)),
        "begins at a number of elements that the compiler cannot prove to be a multiple of 256.",
    ),
    "copy-part-of-the-lanes": (
        copying(*LANES[96]),
        "The kernel copies a slice of f32[64, 96] (`dma_start` in kernel, line ",
    ),
    "copy-part-of-the-lanes, half": (narrow(*LANES[64]), "whose number of lanes is not a multiple of 128."),
    "copy-from-within-the-lanes": (
        copying(lambda x, i: x.at[:, pl.ds(64, 64)], (64, 64)),
        "that begins at a number of lanes which is not a multiple of 128",
    ),
    "copy-from-within-the-lanes, of one axis": (
        copying(lambda x, i: x.at[pl.ds(100 * i, 100)], (100,), (4096,)),
        "that begins at a number of elements which is not a multiple of 128",
    ),
    "copy-size": (  # libtpu 0.0.48 has these words, and says them of other cores
        lambda: errors.explain("MosaicError: Slice shape along dimension 2 must be aligned to tiling (8), but is 2"),
        "The kernel copies 2 along axis 2, but a tile of the array has 8 there.",
    ),
}
CURES = {
    "the tile that holds the row": narrow(lambda x, i: x.at[pl.ds(pl.multiple_of(i // 8 * 8, 8), 8)], (8, 128)),
    "the tile that holds the row of bytes": copying(
        lambda x, i: x.at[pl.ds(pl.multiple_of(i // 32 * 32, 32), 32)], (32, 128), dtype=I8
    ),
    "an axis in front": narrow(lambda x, i: x.at[i], (1, 128), (64, 1, 128)),
    "whole tiles of lanes": copying(lambda x, i: x.at[:, pl.ds(128 * i, 128)], (64, 128), (64, 512)),
    "to the very end of the lanes": copying(lambda x, i: x.at[:, pl.ds(128, 64)], (64, 64), (64, 192)),
    "one axis": narrow(lambda x, i: x.at[pl.ds(256 * i, 256)], (256,), (4096,)),
}
# The nearest copies that are right.
RIGHT = {
    "one row of float32": copying(*ONE_ROW),
    "a known row of float32": copying(lambda x, i: x.at[pl.ds(3, 1)], (1, 128)),
    "a row of float32, by a number": copying(lambda x, i: x.at[i], (256,), (64, 256)),
    "half a tile of bfloat16": narrow(lambda x, i: x.at[pl.ds(4 * i, 4)], (4, 128)),
    "a whole array that ends within a tile": narrow(lambda x, i: x, (64, 96), (64, 96)),
    "the last rows": copying(lambda x, i: x.at[pl.ds(96, 4)], (4, 128), (100, 128)),
    "one axis of float32": copying(lambda x, i: x.at[pl.ds(128 * i, 128)], (128,), (4096,)),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_is_explained(failure):
    provoke.assert_explained(failure, *FAILURES[failure])


@pytest.mark.parametrize("cure", CURES)
def test_a_cure_compiles(cure):
    provoke.assert_compiles(CURES[cure])


@pytest.mark.parametrize("program", RIGHT)
def test_no_row_speaks_of_what_is_right(program):
    provoke.assert_compiles(RIGHT[program])


@pytest.mark.parametrize("failure", FAILURES)
def test_no_word_of_the_compiler_is_passed_on(failure):
    said = str(FAILURES[failure][0]())
    assert "assume_multiple" not in said and "512 bytes" not in said and "float32" not in said, said


def test_the_advice_is_for_this_array():
    assert "(64, 1, 128)" in FAILURES["copy-part-of-a-tile"][0]().next
    assert "pl.multiple_of(i // 32 * 32, 32), 32)" in FAILURES["copy-part-of-a-tile, of bytes"][0]().next


def test_a_wrong_copy_of_another_kind_keeps_its_own_row():
    other = copying(lambda x, i: x.at[pl.ds(0, 8)], (16, 128))()
    assert other.name == "copy-mismatch", other
