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
            2304 * KI: "That counts each block once, but a block that moves has two buffers, so that copies overlap.",
            4352 * KI: "The output moves too, so it has two buffers: one is written back, the other computed.",
            9216 * KI: "That is twice too much, because a bfloat16 has two bytes.",
            8704 * KI: "The elements of x and w are bfloat16, so each has two bytes.",
            3584 * KI: "One of the strips has a single buffer there, but x's block moves with i, and w's with j.",
            2560 * KI: "That gives only the output two buffers. Which of the three blocks move?",
        },
        why="there are two buffers each of 1 MiB, 1 MiB and 256 KiB.",
        proof=_strips,
    ),
    "B": Predict(
        value=3584 * KI,
        unit=BYTES,
        near={
            4608 * KI: "That is the answer to A. Does the block of w still move?",
            2304 * KI: "That gives no block a second buffer, but the blocks of x and of the output move.",
            2560 * KI: "That gives the block of x a single buffer, as the block of w, but the block of x moves.",
            3328 * KI: "The output moves too, so it has two buffers.",
        },
        why="the block of w is the same at all steps, so it needs one buffer.",
        proof=lambda: _strips(still=True),
    ),
    "C": Predict(
        value=4736 * KI,
        unit=BYTES,
        near={
            4609 * KI: "A column of (256, 1) takes more than its elements, because VMEM has rows of 128 lanes.",
            4864 * KI: "Scratch has no second buffer, because nothing is copied into it while it is used.",
            128 * KI: "That is the scratch alone. The blocks still take as much as in A, and the scratch comes on top.",
            4608 * KI: "That is the answer to A. The scratch takes room as well.",
            4672 * KI: "The scratch is float32, so it takes four bytes for each lane of its 256 rows of 128 lanes.",
        },
        why="the scratch adds 256 rows of 128 lanes of 4 bytes, once.",
        proof=lambda: _strips(scratch=(pltpu.VMEM((256, 1), jnp.float32),)),
    ),
    "D": Predict(
        value=2048,
        unit="",
        near={
            4096: "Two buffers each of x and of w with that bk take 16 MiB, and the output needs room too.",
            1024: "That fits. Does the next size that divides 8192 fit as well?",
            3840: "The output has two buffers, not one, and bk has to divide 8192.",
            3584: "There is room for that much, but bk has to divide 8192.",
            8192: "With that bk, two buffers of a single operand take 16 MiB alone.",
        },
        why="x and w take 4 KiB per unit of bk, and the output takes 2 MiB.",
        proof=_largest_bk,
        stands_above="as the depth of strips, the length of other axes",
    ),
}

EXERCISE = Exercise(
    id="05.4",
    title="Predict: VMEM to the byte",
    kind="several",
    defines="vmem",
    asks=Several(parts=PARTS, why="blocks that move count twice, the rest once, in rows of 128 lanes."),
    hints=(
        "Each operand takes rows x columns x bytes of an element, times the number of its buffers. Which blocks move?",
        "A block that never moves has one buffer, and scratch counts once too. A row of float32 in VMEM takes 128 "
        "lanes, however few elements it has.",
        "A: x takes 2 x 256 x 2048 x 2 bytes, w as much, and the output 2 x 256 x 256 x 4. D: x and w together take "
        "2 x 2 x 512 x 2 bytes per unit of bk.",
    ),
    points=2,
)
