"""What a copy moves: the whole tiles that an array lies in. test_tiles_against_compiler asks the compiler."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import cost, grid, judges, roofline, viz

F32, BF16, INT8 = jnp.float32, jnp.bfloat16, jnp.int8


@pytest.mark.parametrize(
    "shape, dtype, tile",
    [
        ((1, 4096), F32, (1, 128)),
        ((2, 128), F32, (2, 128)),
        ((3, 128), F32, (4, 128)),
        ((5, 128), F32, (8, 128)),
        ((1, 4096), BF16, (2, 128)),
        ((20, 128), BF16, (8, 128)),
        ((1, 4096), INT8, (4, 128)),
        ((16, 128), INT8, (8, 128)),
        ((64, 128), INT8, (32, 128)),
        ((16, 3, 100), F32, (1, 4, 128)),
    ],
    ids=str,
)
def test_the_tile_of_an_array(shape, dtype, tile):
    assert grid.tile(shape, dtype) == tile


def copied(shape, block, dtype=F32, steps=1):
    """The traffic of a kernel that copies an array block by block along its first axis: the row of its input."""

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    spec = pl.BlockSpec(block, lambda i: (i, *[0] * (len(shape) - 1)))
    x = jax.ShapeDtypeStruct(shape, dtype)
    call = pl.pallas_call(kernel, out_shape=x, grid=(steps,), in_specs=[spec], out_specs=spec)
    return cost.traffic(grid.walk(call, x))[0], call, x


@pytest.mark.parametrize(
    "shape, block, dtype, steps, moved",
    [
        ((64, 64), (32, 64), F32, 2, 64 * 128 * 4),
        ((262_144, 1), (1024, 1), F32, 256, 262_144 * 512),
        ((1, 4096), (1, 4096), F32, 1, 4096 * 4),
        ((1, 4096), (1, 4096), BF16, 1, 2 * 4096 * 2),
        ((20, 128), (8, 128), F32, 3, 24 * 512),  # the last block has 4 rows, and its tile 8
        ((100, 128), (64, 128), F32, 2, 104 * 512),  # 13 tiles, of which the last block takes 5
        ((16, 3, 100), (1, 3, 100), F32, 16, 16 * 4 * 512),  # axes before the last two are not padded
    ],
    ids=str,
)
def test_a_copy_moves_whole_tiles(shape, block, dtype, steps, moved):
    row, *_ = copied(shape, block, dtype, steps)
    assert row.bytes == moved
    assert row.payload == int(np.prod(shape)) * jnp.dtype(dtype).itemsize


@pytest.mark.parametrize("behind, moved", [(14, 24), (0, 32)])
def test_a_window_that_hangs_over_the_end(behind, moved):
    """34 rows lie in 40. With padding the tiles that exist are copied, without it all rows that are asked for."""

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    window = pl.BlockSpec((pl.Element(32, padding=(0, behind)), pl.Element(128)), lambda i: (16, 0))
    out = jax.ShapeDtypeStruct((32, 128), F32)
    call = pl.pallas_call(kernel, out_shape=out, grid=(1,), in_specs=[window])
    x, _ = cost.traffic(grid.walk(call, jax.ShapeDtypeStruct((34, 128), F32)))
    assert (x.bytes, x.payload) == (moved * 512, 18 * 512)


def test_overlapping_windows_move_the_padding_of_the_last_tile_too():
    """Four windows of 16 rows in an array of 34: the last ends where the array's last tile does."""

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[:8] + x_ref[8:]

    call = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((32, 128), F32),
        grid=(4,),
        in_specs=[pl.BlockSpec((pl.Element(16), pl.Element(128)), lambda i: (8 * i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
    )
    x, _ = cost.traffic(grid.walk(call, jax.ShapeDtypeStruct((34, 128), F32)))
    assert (x.bytes, x.payload) == (64 * 512, (16 * 3 + 10) * 512)


def test_padding_of_an_element_is_where_the_reader_says_it_is():
    """A window of the padded array: what the kernel sees of it in JAX's interpreter begins where grid.walk says."""

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    def windows(x, **mode):
        window = pl.BlockSpec((pl.Element(16, padding=(8, 14)), pl.Element(128)), lambda i: (8 * i, 0))
        out, block = jax.ShapeDtypeStruct((5, 16, 128), F32), pl.BlockSpec((None, 16, 128), lambda i: (i, 0, 0))
        return pl.pallas_call(kernel, out_shape=out, grid=(5,), in_specs=[window], out_specs=block, **mode)(x)

    x = jnp.arange(34 * 128, dtype=F32).reshape(34, 128)
    seen = np.asarray(windows(x, interpret=True))
    operand = grid.walk(windows, x).calls[0].inputs[0]
    for (start, _), window in zip(operand.starts, seen, strict=True):
        inside = slice(max(0, -start), min(16, 34 - start))
        np.testing.assert_array_equal(window[inside], x[max(0, start) : start + 16])
    assert operand.starts[:, 0].tolist() == [-8, 0, 8, 16, 24] and operand.padding == ((8, 14), (0, 0))


def by_hand(shape, part, dtype=F32):
    """Bytes that a copy of ``x.at[part]`` moves, which a kernel starts itself."""

    def kernel(x_hbm, buffer, sem):
        pltpu.make_async_copy(x_hbm.at[part], buffer, sem).start()

    def call(x):
        taken = jax.eval_shape(lambda x: x[part], x)
        scratch = [pltpu.VMEM(taken.shape, dtype), pltpu.SemaphoreType.DMA(())]
        return pl.pallas_call(
            lambda x_hbm, o_ref, buffer, sem: kernel(x_hbm, buffer, sem),
            out_shape=jax.ShapeDtypeStruct((8, 128), F32),
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            scratch_shapes=scratch,
        )(x)

    rows = cost.traffic(grid.walk(call, jax.ShapeDtypeStruct(shape, dtype)))
    return sum(row.bytes for row in rows if row.direction == "in")


@pytest.mark.parametrize(
    "shape, part, dtype, moved",
    [
        ((64, 512), slice(3, 6), F32, 3 * 2048),  # rows of a tile, not the tile
        ((64, 64), slice(8, 11), F32, 3 * 512),
        ((64, 128), slice(2, 4), BF16, 512),
        ((64, 128), slice(4, 8), INT8, 512),
        ((20, 128), slice(0, 20), F32, 20 * 512),  # f32 of 128 columns: rows lie one behind another
        ((20, 300), slice(8, 20), F32, 16 * 384 * 4),  # up to the end: the last tile's padding goes along
        ((9, 128), slice(0, 9), BF16, 16 * 256),
        ((2500,), slice(0, 2500), F32, 2560 * 4),
    ],
    ids=str,
)
def test_a_copy_by_hand_moves_rows(shape, part, dtype, moved):
    assert by_hand(shape, part, dtype) == moved


COLUMN = "x_ref and o_ref (float32[8192,1]) lie in HBM in tiles of 8 x 128: a row of 4 bytes moves 512. "


def test_where_most_is_padding_everybody_says_so():
    _, column, x = copied((8192, 1), (1024, 1), F32, 8)
    (said,) = cost.padding(grid.walk(column, x))
    assert said == COLUMN + "Their copies move 128 times the bytes of the elements."
    predicted = roofline.predict(column, x)
    assert predicted.notes == (said,) and "Note: x_ref and o_ref" in str(predicted)
    assert predicted.hbm_bytes == 2 * 8192 * 512
    assert said in viz.grid_player(column, x).kernels[0]["notes"]
    verdict = judges.budget_judge(column, lambda x: x, x, budget=judges.Budget(hbm_bytes=4 * 8192 * 4))
    assert not verdict.passed and "128 times the bytes of the elements" in verdict.message
    assert "rows are padded to 128" in verdict.next
    assert "times the whole array" not in verdict.message, "it is fetched once, with its padding"


@pytest.mark.parametrize("dtype, times", [(BF16, "2"), (INT8, "4")], ids=["bf16", "int8"])
def test_a_single_row_of_narrow_numbers_is_padded_too(dtype, times):
    _, row, x = copied((1, 4096), (1, 4096), dtype)
    (said,) = cost.padding(grid.walk(row, x))
    assert f"in tiles of {times} x 128. Their copies move {times} times" in said


@pytest.mark.parametrize("shape", [(64, 128), (1, 4096), (64, 65), (4096,)], ids=str)
def test_little_padding_is_no_matter(shape):
    _, call, x = copied(shape, shape)
    assert cost.padding(grid.walk(call, x)) == ()
    assert roofline.predict(call, x).notes == ()
