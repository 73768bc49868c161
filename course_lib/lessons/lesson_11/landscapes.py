"""What the compiler says of every legal choice of blocks, for six products: a search that tries them all.

``datasets.product_searches`` has them, for they are hundreds of compilations. ``tools/landscapes.py --write`` makes
the file; a test asks the compiler about some of it again.
"""

import itertools

import jax
import jax.numpy as jnp

from course_lib import compiler
from course_lib.lessons.lesson_07.e05_blocks import in_blocks

SHAPES = (  # (m, k, n) of bfloat16 products
    (2048, 2048, 2048),
    (256, 4096, 2048),
    (4096, 512, 2048),
    (512, 512, 1024),
    (64, 2048, 8192),
    (8192, 256, 512),
)
SMALL = ((256, 256, 256), (128, 512, 256), (256, 128, 512))  # that judges can run, too
LONGEST = 4096  # of a side of a block
LIMIT = 16 * 2**20  # bytes of VMEM that a kernel gets unless it asks for more
Shape = tuple[int, int, int]


def legal(shape: Shape) -> list[Shape]:
    """(bm, bk, bn): powers of two from 128 to LONGEST that divide their axes; a shorter axis is one block."""
    return list(itertools.product(*map(_sides, shape)))


def _sides(length: int) -> list[int]:
    sides = [2**n for n in range(7, LONGEST.bit_length()) if length % 2**n == 0]
    return sides or [length]


def asked(shape: Shape, blocks: Shape) -> tuple[int, float] | None:
    """(cycles, seconds) of a v5e, predicted (compiler); None where the compiler refuses the blocks."""
    if vmem(blocks) > LIMIT:
        return None  # it needs no compiler to say so
    m, k, n = shape
    x, y = jax.ShapeDtypeStruct((m, k), jnp.bfloat16), jax.ShapeDtypeStruct((k, n), jnp.bfloat16)
    report = compiler.compile_tpu(lambda x, y: in_blocks(x, y, blocks), x, y, time_limit_s=120)
    return (report.cycles, report.seconds) if report.ok else None


def vmem(blocks: Shape) -> int:
    """Bytes that the blocks take: two buffers for each bfloat16 operand, and the float32 sum."""
    bm, bk, bn = blocks
    return 4 * (bm * bk + bk * bn + bm * bn) + 4 * bm * bn
