"""The order of a grid that moves a quarter of the bytes."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from course_lib import cost, grid, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.lessons.lesson_04.kernels import product_kernel
from course_lib.lessons.lesson_04.returned import in_order


def _product_sizes() -> list[tuple]:
    """Return rows that 8 divides and columns that 128 divides: the blocks are given, and 04.8 handles edges.

    There are enough rows for the other order to move a quarter of the bytes at each size.
    """
    sizes = (
        {"M": 64, "K": 256, "N": 1280},
        {"M": 96, "K": 130, "N": 640},
        {"M": 128, "K": 256, "N": 256},
    )
    return arguments(("x: f32[M,K]", "w: f32[K,N]"), sizes)


def _call_strips(order):
    in_order("order(8, 10)", order(8, 10), "grid", "x_map", "w_map", "o_map")

    def strips(x, w):
        down, across = x.shape[0] // 8, w.shape[1] // 128
        steps, x_map, w_map, o_map = order(down, across)
        return pl.pallas_call(
            product_kernel,
            out_shape=jax.ShapeDtypeStruct((x.shape[0], w.shape[1]), jnp.float32),
            grid=steps,
            in_specs=[pl.BlockSpec((8, x.shape[1]), x_map), pl.BlockSpec((w.shape[0], 128), w_map)],
            out_specs=pl.BlockSpec((8, 128), o_map),
        )(x, w)

    return strips


def _given_order(down, across):
    return (down, across), lambda i, j: (i, 0), lambda i, j: (0, j), lambda i, j: (i, j)


def _quarter(x, w) -> int:
    return cost.hbm_bytes(grid.walk(_call_strips(_given_order), x, w)) // 4


EXERCISE = Exercise(
    id="04.5",
    title="Reorder: a quarter of the traffic",
    kind="configure",
    defines="order",
    cases=_product_sizes,
    reference=lambda x, w: jnp.dot(x, w, preferred_element_type=jnp.float32),
    build=_call_strips,
    budget=judges.Budget(hbm_bytes=_quarter),
    hints=(
        "Which operand is fetched again and again? Which of the two would be cheaper to fetch so often?",
        "A block stays in VMEM while the last axis runs, if its index map does not use that axis. Which of i and j "
        "does the map of w not use?",
        "Let j come first: the grid is (across, down), and every index map begins with lambda j, i: and returns the "
        "same as before.",
    ),
    points=1,
)
