"""A whole kernel from an empty cell: softmax of rows that do not fit into VMEM, with two reads of x."""

import jax
import jax.numpy as jnp

from course_lib import cost, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments

MOST_VMEM = 128 * 2**10


def _long_rows() -> list[tuple]:
    """Rows that take more than the VMEM there is, with numbers whose exponentials overflow; 512 divides them."""
    sizes = ({"M": 16, "N": 2048}, {"M": 8, "N": 4096}, {"M": 24, "N": 1536})
    return arguments(("x: f32[M,N]",), sizes, (), (90, 95))


def _twice_and_once(x) -> int:
    return 3 * cost.stored_bytes(x)


def _largest(x):
    return jnp.max(x[:8], axis=1, keepdims=True)


def _total(x):
    return jnp.sum(jnp.exp(x[:8] - _largest(x)), axis=1, keepdims=True)


EXERCISE = Exercise(
    id="09.8",
    title="From an empty cell: softmax of rows that do not fit",
    kind="write",
    defines="softmax",
    cases=_long_rows,
    reference=lambda x: jax.nn.softmax(x, axis=-1),
    budget=judges.Budget(hbm_bytes=_twice_and_once, vmem_bytes=MOST_VMEM),
    probes=tuple(
        judges.Probe(scratch=name, place=place, after=(0, 0, 3), grid=(2, 2, 4), expect=expect, means=means, next=next)
        for place, (name, expect, means, next) in enumerate(
            (
                ("max_ref", _largest, "the largest number of each row", "begin with -inf, and keep the larger one."),
                (
                    "sum_ref",
                    _total,
                    "the sum of exp(x - largest) of each row",
                    "when a larger maximum comes, multiply the old sum by exp(old - new).",
                ),
            )
        )
    ),
    hints=(
        "In one pass you know the largest number so far, and the sum of exp(x - largest so far). When a larger one "
        "comes, what must the old sum be multiplied by?",
        "By exp(old largest - new largest). The grid is (rows, 2, columns): for each block of rows a first pass over "
        "its columns that collects in two scratch refs of (8, 1), and a second that writes.",
        "The result's map: lambda i, second, j: (i, second * j). In the first pass it stays at (i, 0), where the "
        "second begins, so nothing is copied home before it is written. The maximum begins as -inf, the sum as 0.",
    ),
    points=4,
)
