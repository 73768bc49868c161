"""Index maps that transpose the blocks and add a row."""

import jax
from jax.experimental import pallas as pl

from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.lessons.lesson_04.returned import in_order


def add_kernel(x_ref, r_ref, o_ref):
    o_ref[...] = x_ref[...] + r_ref[...]


def _whole_blocks() -> list[tuple]:
    """Return arrays in whole blocks of (8, 128), because whole blocks swap places: 3 x 4, 2 x 3, 5 x 1."""
    sizes = ({"M": 24, "N": 512, "R": 384}, {"M": 16, "N": 384, "R": 256}, {"M": 40, "N": 128, "R": 640})
    return arguments(("x: f32[M,N]", "r: f32[1,R]"), sizes)


def _transpose_blocks(x, r):
    down, across = x.shape[1] // 128, x.shape[0] // 8
    blocks = x.reshape(across, 8, down, 128).transpose(2, 1, 0, 3)
    return blocks.reshape(8 * down, 128 * across) + r


def _call_transpose(index_maps):
    x_map, r_map, o_map = in_order("index_maps()", index_maps(), "x_map", "r_map", "o_map")

    def transpose(x, r):
        down, across = x.shape[1] // 128, x.shape[0] // 8
        return pl.pallas_call(
            add_kernel,
            out_shape=jax.ShapeDtypeStruct((8 * down, 128 * across), x.dtype),
            grid=(down, across),
            in_specs=[pl.BlockSpec((8, 128), x_map), pl.BlockSpec((1, 128), r_map)],
            out_specs=pl.BlockSpec((8, 128), o_map),
        )(x, r)

    return transpose


EXERCISE = Exercise(
    id="04.2",
    title="Index maps only: transpose the blocks, add a row",
    kind="configure",
    defines="index_maps",
    cases=_whole_blocks,
    reference=_transpose_blocks,
    build=_call_transpose,
    hints=(
        "Begin with the output, whose map is in the docstring. Then r: along which axis of the output does it lie, and "
        "which letter counts the blocks on that axis?",
        "A map takes (i, j) and may return them in another order. r has only one row of blocks, so the first number "
        "of its block index is always 0.",
        "The map of x is lambda i, j: (j, i). The second number of r's block index is the output's column of blocks, "
        "so its map is lambda i, j: (0, j).",
    ),
    points=1,
)
