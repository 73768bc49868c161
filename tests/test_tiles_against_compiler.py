"""The bytes of a block's copy are those of the compiler's own copy: random arrays and blocks, as libtpu compiles them.

A copy in the final program says its size in granules of 32 bytes. In a long grid the size of a ragged block is worked
out at run time; so each block is asked for by a kernel of one step, where it is a number. How often blocks are copied
is what test_cost_against_compiler and test_grid_brute_force look at.
"""

import collections
import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from sweeps import daily

from course_lib import compiler, cost, grid

pytestmark = needs_libtpu

COPY = re.compile(r"= dma\.(?:hbm_to_vmem|vmem_to_hbm|general) .*?/\*size_in_granules=\*/(\d+),")
GRANULE = 32  # bytes
DTYPES = [jnp.float32, jnp.bfloat16, jnp.int8]
LARGE = 1 << 20  # rows: XLA turns a narrow array round, and a smaller one into VMEM, where nothing is copied


def copied(report: compiler.Report, kernel: str) -> collections.Counter:
    """Bytes of each copy in the program of the kernel."""
    instructions = "\n".join(i for bundle in report.listing if bundle.op == kernel for i in bundle.instructions)
    return collections.Counter(int(granules) * GRANULE for granules in COPY.findall(instructions))


def in_one_step(windows: list) -> tuple:
    """A kernel of one step with an input and an output for each (shape, dtype, block, index), and its arguments."""

    def kernel(*refs):
        for x_ref, o_ref in zip(refs, refs[len(windows) :], strict=False):
            o_ref[...] = x_ref[...]

    specs = [pl.BlockSpec(block, lambda i, index=index: index) for _, _, block, index in windows]
    arrays = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype, _, _ in windows]
    return pl.pallas_call(kernel, out_shape=arrays, grid=(1,), in_specs=specs, out_specs=specs), *arrays


def row_major(shape, dtype) -> bool:
    """Whether XLA stores an argument as it is: it takes the order of axes with the least padding."""
    orders = [[shape[axis] for axis in order] for order in itertools.permutations(range(len(shape)))]
    return grid.stored_bytes(shape, dtype) <= min(grid.stored_bytes(order, dtype) for order in orders)


def plain(rng, shape, dtype):
    """A legal block of an array, and the index of one of the last blocks along each axis: most are ragged."""
    rank, room, block = len(shape), 1 << 16, ()
    for axis, length in reversed(list(enumerate(shape))):
        sizes = cost.legal_sizes(length, axis=axis, rank=rank, dtype=dtype, even=False)
        block = (int(rng.choice([n for n in sizes if n <= room] or sizes[:1])), *block)
        room //= block[0] if axis < rank - 1 else max(128, block[0])
    blocks = [pl.cdiv(n, b) for n, b in zip(shape, block, strict=True)]
    index = tuple(int(rng.integers(max(0, n - 2), n)) for n in blocks)
    return shape, dtype, block, index


def window(rng, dtype):
    """Windows of pl.Element on both axes, that begin on a tile; some hang over the end, half of those into padding."""
    rows, columns = int(rng.integers(70, 200)), int(rng.integers(300, 600))
    rows, columns = max(rows, 128), columns if row_major((max(rows, 128), columns), dtype) else 512
    tile = grid.tile((rows, columns), dtype)
    start = tuple(int(rng.integers(0, n // t)) * t for n, t in zip((rows, columns), tile, strict=True))
    size = tuple(int(rng.integers(1, 4)) * t for t in tile)
    padded = bool(rng.integers(2))
    behind = [max(0, s + b - n) * padded for s, b, n in zip(start, size, (rows, columns), strict=True)]
    block = tuple(pl.Element(b, padding=(0, over)) for b, over in zip(size, behind, strict=True))
    return (rows, columns), dtype, block, start


def until_row_major(rng, draw, dtype):
    while not row_major(shape := draw(), dtype):
        pass
    return plain(rng, shape, dtype)


def draw(kind: str, rng, dtypes=DTYPES):
    """One window of a class: shape, dtype, block, index."""
    dtype, n = dtypes[rng.integers(len(dtypes))], lambda low, high: int(rng.integers(low, high))
    if kind == "a column":
        return plain(rng, (LARGE + n(0, 5000), 1), dtype)
    if kind == "half the lanes":
        return plain(rng, (LARGE + n(0, 5000), n(2, 127)), dtype)
    if kind == "a row":
        return plain(rng, (1, n(200, 9000)), dtype)
    if kind == "few rows":
        return until_row_major(rng, lambda: (n(2, 8), n(200, 3000)), dtype)
    if kind == "ragged":
        return until_row_major(rng, lambda: (n(9, 700), n(100, 900)), dtype)
    if kind == "one axis":
        return plain(rng, (n(100, 9000),), dtype)
    if kind == "three axes":
        return until_row_major(rng, lambda: (n(2, 9), n(1, 60), n(100, 600)), dtype)
    return window(rng, dtype)


NARROW = ["a column", "half the lanes"]
CLASSES = [*NARROW, "a row", "few rows", "ragged", "one axis", "three axes", "a window"]
SEEDS = range(8)


@pytest.mark.parametrize(
    "kind, seed", daily(*[(kind, 0) for kind in CLASSES], of=[(kind, seed) for kind in CLASSES for seed in SEEDS])
)
def test_a_copy_moves_what_the_compiler_copies(kind, seed):
    rng = np.random.default_rng([CLASSES.index(kind), seed])
    compare([draw(kind, rng) for _ in range(1 if kind in NARROW else 3)])


HALF_BYTES = ["a row", "few rows", "ragged", "three axes", "a window"]  # libtpu stores no int4 vectors in pieces


@pytest.mark.parametrize(
    "kind, seed", daily(("ragged", 0), of=[(kind, seed) for kind in HALF_BYTES for seed in range(3)])
)
def test_a_copy_of_int4_moves_half_bytes(kind, seed):
    rng = np.random.default_rng([CLASSES.index(kind), seed])
    compare([draw(kind, rng, [jnp.int4, jnp.uint4]) for _ in range(3)])


def compare(windows):
    """Compare the copies that are counted with those in the compiler's program."""
    fn, *args = in_one_step(windows)
    rows = cost.traffic(grid.walk(fn, *args))
    report = compiler.compile_tpu(fn, *args, simulate=False)
    assert report.ok, report
    assert copied(report, "kernel") == collections.Counter(row.bytes for row in rows), windows
    assert next(op.hbm_bytes for op in report.ops if op.name == "kernel") == sum(row.bytes for row in rows)
