"""What a verdict says of an index map that asks for a block the array does not have."""

import jax
import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl

from course_lib import compiler, grid
from course_lib.judges.reading import index_maps

X = jax.ShapeDtypeStruct((24, 512), jnp.float32)  # 3 x 4 blocks of (8, 128)


def doubled(x_map, steps=(3, 4)):
    def double_kernel(x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...]

    return pl.pallas_call(
        double_kernel,
        out_shape=X,
        grid=steps,
        in_specs=[pl.BlockSpec((8, 128), x_map)],
        out_specs=pl.BlockSpec((8, 128), lambda i, j: (i, j)),
    )


def said_of(x_map, steps=(3, 4), x=X):
    return index_maps.outside(grid.walk(doubled(x_map, steps), x).calls[0])


@pytest.mark.parametrize(
    "x_map, steps, says",
    [
        (lambda i, j: (j, i), (3, 4),
         "x_ref's map returns j first. j runs from 0 to 3, but the array has 3 blocks there. "
         "i runs from 0 to 2: did you mean i?"),
        (lambda r, c: (0, r), (6, 4),
         "x_ref's map returns r second. r runs from 0 to 5, but the array has 4 blocks there. "
         "c runs from 0 to 3: did you mean c?"),
        (lambda *at: (at[1], 0), (3, 4), "x_ref's map returns index 1 of the grid first. index 1 of"),
        (lambda i, j: (i + 1, j), (3, 4), "blocks are counted from 0: check whether the grid"),
        (lambda i, j: (8 * i, j), (3, 4), "an index map returns block indices, counted from 0, not element indices"),
        (lambda i, j: (i - 1, j), (3, 4), "the last of n blocks is n - 1"),
    ],
)  # fmt: skip
def test_the_advice_is_in_the_words_of_the_map(x_map, steps, says):
    assert says in said_of(x_map, steps).next


def test_where_there_is_one_block_it_is_number_0():
    row = jax.ShapeDtypeStruct((8, 512), jnp.float32)
    said = said_of(lambda i, j: (i, j), x=row)
    assert said.next.endswith("i runs from 0 to 2, but the array has 1 block there. The only valid index is 0.")


def past_the_last_row(i, j):
    return i + 1, j


def past_the_end_of_a_row(i, j):
    return 0, j + 1


def test_only_a_block_behind_the_whole_array_stops_a_v5e():
    assert said_of(past_the_last_row).what.endswith("of shape (8, 128). A v5e halts there.")
    assert said_of(past_the_end_of_a_row).what.endswith("of shape (8, 128).")
    assert said_of(lambda i, j: (0, j + 1), x=jax.ShapeDtypeStruct((8, 512), jnp.float32)).what.endswith("halts there.")


@needs_libtpu
def test_the_program_compares_addresses_with_the_array_and_halts():
    """Before each copy: its first and last byte against those of the array, whatever the block's numbers are."""
    report = compiler.compile_tpu(doubled(past_the_last_row), X, simulate=False)
    lines = [line for bundle in report.listing for line in bundle.instructions]
    copies = [n for n, line in enumerate(lines) if "dma.hbm_to_vmem" in line]
    halts = [n for n, line in enumerate(lines) if "shalt.err" in line]
    assert copies and halts and halts[0] < copies[0]
