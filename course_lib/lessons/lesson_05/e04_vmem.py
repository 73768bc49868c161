"""The VMEM that a kernel's blocks and scratch take."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import chips, cost, grid
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several

KI = 1024


def product(m: int, k: int, n: int, bm: int, bk: int, bn: int, *, scratch: tuple = (), still: bool = False) -> int:
    """Return the VMEM bytes of a blocked matmul, bfloat16 to float32; ``still``: the right operand's block is fixed."""

    def kernel(x_ref, w_ref, o_ref, *_):
        o_ref[...] = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    x, w = (jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((m, k), (k, bn if still else n)))
    call = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), jnp.float32),
        grid=(m // bm, n // bn, k // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, r: (i, r)),
            pl.BlockSpec((bk, bn), (lambda i, j, r: (0, 0)) if still else (lambda i, j, r: (r, j))),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, r: (i, j)),
        scratch_shapes=scratch,
    )
    return cost.vmem_bytes(grid.walk(call, x, w))


def _strips(**changed) -> int:
    return product(4096, 2048, 4096, 256, 2048, 256, **changed)


def _largest_bk() -> int:
    sizes = [bk for bk in range(128, 8193, 128) if 8192 % bk == 0]
    limit = chips.chip("v5e").scoped_vmem_bytes
    return max(bk for bk in sizes if product(2048, 8192, 2048, 512, bk, 512) <= limit)


BYTES = "bytes"
PARTS = {
    "A": Predict(
        value=4608 * KI,
        unit=BYTES,
        near={
            2304 * KI: "That is every block once. What moves has two buffers: one is filled, the other worked on.",
            4352 * KI: "The output moves too: while one block is written back, the next is computed.",
            9216 * KI: "Twice too much: a bfloat16 has two bytes.",
            8704 * KI: "x and w are bfloat16; a number of them has two bytes.",
            3584 * KI: "One of the strips has one buffer there. x's block moves with i, and w's with j.",
            2560 * KI: "Only the output has two buffers there. Which of the three move?",
        },
        why="two buffers each of 1 MiB, 1 MiB and 256 KiB.",
        proof=_strips,
    ),
    "B": Predict(
        value=3584 * KI,
        unit=BYTES,
        near={
            4608 * KI: "That is as in A. Does w's block still move?",
            2304 * KI: "That gives no block a second buffer. x and the output move.",
            2560 * KI: "That has w's block no more than once and x's once. x moves.",
            3328 * KI: "The output moves too.",
        },
        why="w's block is the same in all steps, so it needs one buffer.",
        proof=lambda: _strips(still=True),
    ),
    "C": Predict(
        value=4736 * KI,
        unit=BYTES,
        near={
            4609 * KI: "A column of (256, 1) takes more than its numbers: VMEM has rows of 128 lanes.",
            4864 * KI: "Scratch has no second buffer: nothing is copied into it.",
            128 * KI: "That is the scratch. Its blocks take as much as in A, on top of it.",
            4608 * KI: "That is A. The scratch takes room as well.",
            4672 * KI: "The scratch is float32: four bytes for each of 256 rows of 128 lanes.",
        },
        why="256 rows of 128 lanes of 4 bytes, once.",
        proof=lambda: _strips(scratch=(pltpu.VMEM((256, 1), jnp.float32),)),
    ),
    "D": Predict(
        value=2048,
        unit="",
        near={
            4096: "Two buffers of x and of w of that depth are 16 MiB, and the output needs room too.",
            1024: "It fits. Does the next size fit as well?",
            3840: "The output has two buffers as well, and the size has to divide 8192.",
            3584: "That much room there is. It has to divide 8192.",
            8192: "Two buffers of one such strip take 16 MiB alone.",
        },
        why="4 KiB for each 1 of bk, and 2 MiB for the output.",
        proof=_largest_bk,
        stands_above="as the depth of strips, the length of other axes",
    ),
}

EXERCISE = Exercise(
    id="05.4",
    title="Predict: VMEM to the byte",
    kind="several",
    defines="vmem",
    asks=Several(parts=PARTS, why="buffers that move twice, the rest once, whole rows of 128 lanes."),
    hints=(
        "For each operand: rows x columns x bytes of a number, times its buffers. Which blocks move?",
        "A block that never moves has one buffer, and so has scratch. A row of float32 in VMEM takes 128 lanes, "
        "however few numbers it has.",
        "A: 2 x 256 x 2048 x 2 for x, as much for w, 2 x 256 x 256 x 4 for the output. D: x and w together take "
        "2 x 2 x 512 x 2 bytes for each 1 of bk.",
    ),
    points=2,
)
