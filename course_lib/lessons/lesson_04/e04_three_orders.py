"""The bytes that a matmul in blocks moves, for three orders of its grid."""

import math

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from course_lib import cost, grid
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several
from course_lib.lessons.lesson_04.kernels import product_kernel

# The number of blocks along each axis, and the bytes of a block of x, of w and of the output.
BLOCKS = {"b": 3, "i": 4, "j": 5}
X_BYTES, W_BYTES, O_BYTES = 64 * 384 * 2, 384 * 128 * 2, 64 * 128 * 4


def batched(order):
    """Return the matmul of 04.4 with the grid axes in this order."""
    b, i, j = (order.index(letter) for letter in "bij")

    def call(x, w):
        return pl.pallas_call(
            product_kernel,
            out_shape=jax.ShapeDtypeStruct((3, 256, 640), jnp.float32),
            grid=tuple(BLOCKS[letter] for letter in order),
            in_specs=[
                pl.BlockSpec((None, 64, 384), lambda *at: (at[b], at[i], 0)),
                pl.BlockSpec((384, 128), lambda *at: (0, at[j])),
            ],
            out_specs=pl.BlockSpec((None, 64, 128), lambda *at: (at[b], at[i], at[j])),
        )(x, w)

    return call


def _moved(order: str) -> int:
    x, w = (jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((3, 256, 384), (384, 640)))
    return cost.hbm_bytes(grid.walk(batched(order), x, w))


def _copies(order: str, uses: str) -> int:
    """Return how often a block that depends on these axes is copied: the product of the axes up to the last of them."""
    return math.prod(BLOCKS[letter] for letter in order[: max(map(order.index, uses)) + 1])


def _predict(order: str) -> Predict:
    steps = math.prod(BLOCKS.values())
    x, w = _copies(order, "bi"), _copies(order, "j")
    value = x * X_BYTES + w * W_BYTES + steps * O_BYTES
    near = {
        x * X_BYTES + w * W_BYTES: "You count only the bytes that come in. Where does the output go?",
        x + w + steps: "That is the number of blocks that are copied. How many bytes does each block have?",
        x * X_BYTES + w * W_BYTES + steps * O_BYTES // 2: "x and w are bfloat16. Which dtype does the output have?",
        2 * (x * X_BYTES + w * W_BYTES) + steps * O_BYTES: "The output is float32. Which dtype do x and w have?",
        steps
        * (X_BYTES + W_BYTES + O_BYTES): "That would be a copy of every block at every step. Which block stays the "
        "same from one step to the next?",
        12 * X_BYTES + 5 * W_BYTES + 60 * O_BYTES: "That counts every block once. A block that is left and needed "
        "again is copied again.",
    }
    each_once = {"x": 12 * X_BYTES + w * W_BYTES, "w": x * X_BYTES + 5 * W_BYTES}
    for operand, copies in (("x", 12), ("w", 5)):
        near[each_once[operand] + steps * O_BYTES] = (
            f'You count every block of {operand} once, which is {copies} copies. In "{order}", {order[2]} runs '
            f"fastest. Is a block of {operand} left in that order, and needed again?"
        )
    for other in ("bij", "jbi", "bji"):
        moved = _copies(other, "bi") * X_BYTES + _copies(other, "j") * W_BYTES + steps * O_BYTES
        near[moved] = f"That is the number of another order. {_asked_of(order, other)}"
    near.pop(value, None)
    return Predict(value=value, unit="bytes", near=near, why="counted on the grid.", proof=lambda: _moved(order))


def _asked_of(order: str, other: str) -> str:
    """Return a question that tells ``order`` from ``other``; if the fastest axis is the same, it is about the rest."""
    if order[2] == other[2]:
        return (
            f"In that order {order[2]} runs fastest as well, and x is copied as often. How often does j change when "
            f"{order[0]} comes first?"
        )
    return f'In "{order}", {order[2]} runs fastest. Which of x and w then gets a new block at every step?'


EXERCISE = Exercise(
    id="04.4",
    title="Predict: three orders, three numbers",
    kind="several",
    defines="moved",
    asks=Several(
        parts={order: _predict(order) for order in ("bij", "jbi", "bji")},
        why="an operand is copied once for each change of its block index.",
    ),
    hints=(
        "First compute the bytes of one block of x, of w and of the output. Then count how many blocks of each are "
        "copied in all. Multiply, then add.",
        "Multiply the lengths of the grid's axes from the first one to the last one that the index map uses. x uses b "
        "and i, w uses j, and the output uses all three.",
        'In "bij", x needs 3 * 4 = 12 copies of 49,152 bytes, w needs 3 * 4 * 5 = 60 of 98,304, and the output '
        "needs 60 of 32,768.",
    ),
    points=2,
)
