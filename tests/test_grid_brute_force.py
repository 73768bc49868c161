"""The traffic that grid and cost count equals a count made step by step, on 200 random grids."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

from course_lib import cost, grid

CASES = 200


def random_map(rng, sizes: list[int], rank: int):
    """A random index map over a grid, as a function of plain integers: what a learner might write, and stranger."""
    terms = []
    for _ in range(rank):
        axis, kind = int(rng.integers(len(sizes))), rng.choice(["axis", "zero", "sum", "half", "wrap", "reverse"])
        terms.append((axis, str(kind), int(rng.integers(1, 4))))

    def index_map(*step):
        found = []
        for axis, kind, n in terms:
            i = step[axis]
            found.append(
                {
                    "axis": lambda i=i: i,
                    "zero": lambda: 0,
                    "sum": lambda: sum(step),
                    "half": lambda i=i, n=n: i // n,
                    "wrap": lambda i=i, n=n: i % n,
                    "reverse": lambda i=i, axis=axis: sizes[axis] - 1 - i,
                }[kind]()
            )
        return tuple(found)

    return index_map


def random_operand(rng, sizes: list[int]):
    """(array shape, block, how each axis of the block is given, index map)."""
    rank = int(rng.integers(1, 4))
    index_map = random_map(rng, sizes, rank)
    indices = [index_map(*step) for step in itertools.product(*map(range, sizes))]
    block, kinds, shape = [], [], []
    for axis in range(rank):
        kind = str(rng.choice(["blocked", "blocked", "blocked", "squeezed", "element"]))
        size = 1 if kind == "squeezed" else int(rng.integers(1, 9))
        last = max(i[axis] for i in indices)
        whole = (last if kind == "element" else last * size) + size
        block.append(size)
        kinds.append(kind)
        shape.append(max(1, whole - int(rng.integers(0, size))) if kind == "blocked" else whole)
    return tuple(shape), tuple(block), kinds, index_map


def brute_force(sizes, shape, block, kinds, index_map, role: str, dtype) -> int:
    """Bytes moved, by going through the grid one step at a time, as the TPU does."""
    held, moved = None, 0
    tile, itemsize = grid.tile(shape, dtype), np.dtype(dtype).itemsize
    for step in itertools.product(*map(range, sizes)):
        index = index_map(*step)
        if index == held:
            continue
        if role == "output" and held is not None:
            moved += part(held, shape, block, kinds, tile) * itemsize
        if role == "input":
            moved += part(index, shape, block, kinds, tile) * itemsize
        held = index
    return moved + (part(held, shape, block, kinds, tile) * itemsize if role == "output" else 0)


def part(index, shape, block, kinds, tile) -> int:
    """Elements of the tiles that hold something of a block: none where it lies outside of the array."""
    elements = 1
    for i, n, b, kind, t in zip(index, shape, block, kinds, tile, strict=True):
        start = i if kind == "element" else i * b
        elements *= len({at // t for at in range(start, start + b) if 0 <= at < n}) * t
    return elements


def spec(block, kinds, index_map) -> pl.BlockSpec:
    made = {"squeezed": lambda b: None, "element": pl.Element, "blocked": lambda b: b}
    return pl.BlockSpec(tuple(made[k](b) for b, k in zip(block, kinds, strict=True)), index_map)


@pytest.mark.parametrize("part_of_cases", range(4))
def test_traffic_equals_a_count_step_by_step(part_of_cases):
    for seed in range(part_of_cases, CASES, 4):
        rng = np.random.default_rng(seed)
        sizes = [int(n) for n in rng.integers(1, 6, size=rng.integers(1, 4))]
        operands = [random_operand(rng, sizes) for _ in range(3)]
        dtypes = [jnp.float32, jnp.bfloat16, jnp.int8]
        arrays = [jax.ShapeDtypeStruct(o[0], t) for o, t in zip(operands, dtypes, strict=True)]

        def kernel(x_ref, y_ref, o_ref):
            del x_ref, y_ref
            o_ref[...] = jnp.zeros_like(o_ref)

        call = pl.pallas_call(
            kernel,
            out_shape=arrays[2],
            grid=tuple(sizes),
            in_specs=[spec(*o[1:]) for o in operands[:2]],
            out_specs=spec(*operands[2][1:]),
        )
        walk = grid.walk(call, *arrays[:2])
        expected = [
            brute_force(sizes, *operand, role, dtype)
            for operand, role, dtype in zip(operands, ["input", "input", "output"], dtypes, strict=True)
        ]
        assert [row.bytes for row in cost.traffic(walk)] == expected, f"seed {seed}: {sizes}, {operands}"
        assert walk.calls[0].steps == math.prod(sizes)
