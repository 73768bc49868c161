"""The grid, block and index map for 4096 elements."""

import re

import jax
import numpy as np
from jax.experimental import pallas as pl

from course_lib import grid
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.unfit import Unfit
from course_lib.lessons.lesson_01.vectors import VECTORS

WHOLE_BLOCKS = ({"N": 4096}, {"N": 8192}, {"N": 3072})


def _whole_blocks() -> list[tuple]:
    """Return vectors whose lengths are multiples of 1024; a later lesson handles remainders."""
    return arguments(VECTORS, WHOLE_BLOCKS)


def _call_configured(configure):
    """Return a plain add kernel with the learner's grid and blocks."""

    def add_kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    for size in WHOLE_BLOCKS:
        _grid_block_and_map(size["N"], configure(size["N"]))

    def add(x, y):
        settings = configure(x.size)
        if settings is None:
            return None
        steps, block, index_map = settings
        spec = pl.BlockSpec(block, index_map)
        out = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(add_kernel, out_shape=out, grid=steps, in_specs=[spec, spec], out_specs=spec)(x, y)

    return add


def _grid_block_and_map(n: int, settings: object) -> None:
    """Raise Unfit unless ``settings`` is a grid, a block and an index map, or None, which means not attempted."""
    three = isinstance(settings, tuple | list) and len(settings) == 3
    if settings is not None and not (
        three and callable(settings[2]) and not any(isinstance(s, str) or callable(s) for s in settings[:2])
    ):
        raise Unfit(
            f"configure({n}) returned {_shown(settings)}. It should return three things, in this order: the grid "
            "and the block, which are tuples of integers, and the index map, which is a function.",
            "write return grid, block, index_map.",
        )


def _shown(value: object) -> str:
    """Return the repr without the addresses of functions, so that it is the same on every run."""
    return f"{re.sub(r'<function [^ ]+ at 0x[0-9a-fA-F]+>', 'a function', repr(value)):.90}"


def _covers_once(configure):
    call = grid.walk(_call_configured(configure), *_whole_blocks()[0]).calls[0]
    output = call.outputs[0]
    if call.steps == 1:
        return "The grid has one step, so all of both vectors would be in VMEM at once.", "choose a smaller block."
    if call.steps != len(np.unique(output.indices, axis=0)):
        return (
            f"The grid has {call.steps} steps, but the output has {output.blocks[0]} blocks, so some block is written "
            "more than once.",
            "use one step for each block, that is, 4096 divided by the block size.",
        )


EXERCISE = Exercise(
    id="01.4",
    title="Configure only: a grid for 4096 elements",
    kind="configure",
    defines="configure",
    cases=_whole_blocks,
    reference=lambda x, y: x + y,
    build=_call_configured,
    also=(_covers_once,),
    hints=(
        "The grid is the number of steps, the block is what one step sees, and the index map says which block it is.",
        "A block of one dimension is legal if it is a multiple of 1024, or a power of two from 128 up.",
        "The index map returns a block number, not an element number, so at step i it returns i.",
    ),
    points=1,
)
