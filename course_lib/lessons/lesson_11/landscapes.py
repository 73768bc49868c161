"""The compiler's answer for every legal choice of blocks of six matmuls: an exhaustive search.

The answers are stored in ``datasets.product_searches``, because they take hundreds of compilations.
``tools/landscapes.py --write`` makes the file; a test compiles some of them again.
"""

import itertools

import jax
import jax.numpy as jnp

from course_lib import compiler
from course_lib.lessons.lesson_07.e05_blocks import in_blocks

SHAPES = (  # (m, k, n) of bfloat16 matmuls
    (2048, 2048, 2048),
    (256, 4096, 2048),
    (4096, 512, 2048),
    (512, 512, 1024),
    (64, 2048, 8192),
    (8192, 256, 512),
)
SMALL = ((256, 256, 256), (128, 512, 256), (256, 128, 512))  # small enough for the judges to run
LONGEST = 4096  # side of a block
LIMIT = 16 * 2**20  # bytes of VMEM that a kernel gets by default
Shape = tuple[int, int, int]


def legal(shape: Shape) -> list[Shape]:
    """Return all (bm, bk, bn): powers of two from 128 to LONGEST that divide their axes, or an axis in one block."""
    return list(itertools.product(*map(_sides, shape)))


def _sides(length: int) -> list[int]:
    sides = [2**n for n in range(7, LONGEST.bit_length()) if length % 2**n == 0]
    return sides or [length]


def asked(shape: Shape, blocks: Shape) -> tuple[int, float] | None:
    """Return (cycles, seconds) on a v5e, predicted (compiler); None if the compiler refuses the blocks."""
    if vmem(blocks) > LIMIT:
        return None  # known without the compiler
    m, k, n = shape
    x, y = jax.ShapeDtypeStruct((m, k), jnp.bfloat16), jax.ShapeDtypeStruct((k, n), jnp.bfloat16)
    report = compiler.compile_tpu(lambda x, y: in_blocks(x, y, blocks), x, y, time_limit_s=120)
    return (report.cycles, report.seconds) if report.ok else None


def vmem(blocks: Shape) -> int:
    """Return the bytes that the blocks take: two buffers for each bfloat16 operand, and the float32 accumulator."""
    bm, bk, bn = blocks
    return 4 * (bm * bk + bk * bn + bm * bn) + 4 * bm * bn
