"""The layout of an array in vector registers. tile_painter.js counts the same; a test compares them."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from course_lib import grid, text

LANES, SUBLANES = 128, 8
DTYPES = ("float32", "bfloat16", "int8")
MOST_DRAWN = 18  # registers
MOST = 10**6  # of a size


class Tile(NamedTuple):
    """A tile in a register: how many of its rows and lanes the array fills."""

    rows: int
    lanes: int


class Plan(NamedTuple):
    """``drawn``: the tiles of the first registers, in order; each register has room for ``room`` tiles."""

    numbers: int
    registers: int
    places: int  # for elements, in all registers
    stored: int  # bytes in memory, with the padding of the tiles
    tile_rows: int
    room: int
    drawn: tuple[tuple[Tile, ...], ...]

    @property
    def empty(self) -> float:
        return 1 - self.numbers / self.places


def plan(shape: Sequence[int], dtype: str) -> Plan:
    """Plan the registers of an array with two axes or more; ``dtype`` is one of DTYPES."""
    *leading, rows, lanes = shape
    kind = np.dtype(dtype)
    tall = grid.tile(shape, kind)[-2]
    in_register = SUBLANES * grid.rows_in_a_word(kind)  # rows
    room, slices = in_register // tall, math.prod(leading)
    one = [
        Tile(min(tall, rows - r), min(LANES, lanes - c))
        for r in range(0, min(rows, tall * room * MOST_DRAWN), tall)
        for c in range(0, min(lanes, LANES * room * MOST_DRAWN), LANES)
    ]
    held = [tuple(one[n : n + room]) for n in range(0, len(one), room)]
    registers = grid.registers(shape, kind)
    return Plan(
        numbers=math.prod(shape),
        registers=registers,
        places=registers * in_register * LANES,
        stored=grid.stored_bytes(shape, kind),
        tile_rows=tall,
        room=room,
        drawn=tuple((held * min(slices, MOST_DRAWN))[: min(MOST_DRAWN, registers)]),
    )


def sentence(shape: Sequence[int], dtype: str) -> str:
    """Describe the plan in words."""
    found = plan(shape, dtype)
    empty = text.significant(100 * found.empty, 3)
    said = (
        f"{dtype}[{', '.join(map(str, shape))}]: {text.counted(found.numbers, 'element')} in "
        f"{text.counted(found.registers, 'register')}. {empty} % of the places are empty. In memory it "
        f"takes {text.size(found.stored)}, in tiles of {found.tile_rows} x {LANES}."
    )
    slices = math.prod(shape[:-2])
    if slices > 1:
        said += f" Each of the {text.count(slices)} slices of the leading axes begins new registers."
    return said
