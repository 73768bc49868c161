"""The blocks of a matrix in reverse order."""

from jax.experimental import pallas as pl

from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.unfit import Unfit
from course_lib.lessons.lesson_04.kernels import copy_kernel
from course_lib.lessons.lesson_04.returned import in_order


def _reversible() -> list[tuple]:
    """Return arrays whose rows 8 divides, so that every block is whole when reversed; any number of columns."""
    return arguments(("x: f32[M,N]",), ({"M": 64, "N": 256}, {"M": 40, "N": 130}, {"M": 8, "N": 384}))


def _reverse(x):
    return x.reshape(-1, 8, x.shape[1])[::-1].reshape(x.shape)


def call_reverse(configure):
    for (x,) in _reversible():
        _, block, *_ = in_order(f"configure{x.shape}", configure(*x.shape), "grid", "block", "x_map", "o_map")
        _eight_rows(f"configure{x.shape}", x, block)

    def reverse(x):
        steps, block, x_map, o_map = configure(*x.shape)
        specs = [pl.BlockSpec(block, index_map) for index_map in (x_map, o_map)]
        return pl.pallas_call(copy_kernel, out_shape=x, grid=steps, in_specs=specs[:1], out_specs=specs[1])(x)

    return reverse


def _eight_rows(call: str, x: object, block: object) -> None:
    """Raise Unfit if blocks do not have the eight rows that stay together, for an x of more than eight rows."""
    rows = block[0] if isinstance(block, tuple | list) and block else None
    if isinstance(rows, int) and rows != 8 < x.shape[0]:
        raise Unfit(
            f"{call}: a block of {tuple(block)} has {rows} {'row' if rows == 1 else 'rows'}. Eight rows stay together.",
            "an index map moves whole blocks and keeps the order inside them. How many rows must a block have, then?",
        )


EXERCISE = Exercise(
    id="04.1",
    title="Configure only: the blocks in reverse",
    kind="configure",
    defines="configure",
    cases=_reversible,
    reference=_reverse,
    build=call_reverse,
    hints=(
        "Use one grid step for each eight rows. Step 0 writes the first output block. Which block of x does it read?",
        "Blocks are counted from 0, so the last of n blocks has number n - 1. A block of (8, columns) spans all "
        "columns, so it is legal for any number of columns.",
        "Return (rows // 8,), (8, columns), then lambda i: (rows // 8 - 1 - i, 0) for x and lambda i: (i, 0) for the "
        "output.",
    ),
    points=1,
)
