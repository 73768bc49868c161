"""A whole kernel from an empty cell: softmax of rows that do not fit into VMEM, with two reads of x."""

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import cost, grid, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments, far_from_zero
from course_lib.checks.unfit import Unfit

MOST_VMEM = 128 * 2**10


def _long_rows() -> list[tuple]:
    """Return rows larger than the allowed VMEM whose exponentials overflow, or that lie far below 0; 512 divides."""
    sizes = ({"M": 16, "N": 2048}, {"M": 8, "N": 4096}, {"M": 24, "N": 1536})
    return [*arguments(("x: f32[M,N]",), sizes, (), (90, 95)), (far_from_zero((8, 4096), -1e30),)]


def _from_a_finite_number(x):
    e = jnp.exp(x - jnp.maximum(jnp.max(x, axis=1, keepdims=True), -1e30))
    return e / jnp.sum(e, axis=1, keepdims=True)


def _twice_and_once(x) -> int:
    return 3 * cost.stored_bytes(x)


def _largest(x):
    return jnp.max(x[:8], axis=1, keepdims=True)


def _total(x):
    return jnp.sum(jnp.exp(x[:8] - _largest(x)), axis=1, keepdims=True)


def _result_comes_home_once(softmax):
    """Return the function. Raise Unfit if a block of its result is left and revisited."""
    try:
        calls = grid.walk(softmax, _long_rows()[0][0]).calls
        results = [o for call in calls for o in call.operands if o.role == "output" and o.pipelined]
    except Exception:  # the judges report any error when they run it
        return softmax
    if any(o.changes.sum() > len(np.unique(o.indices, axis=0)) for o in results):
        raise Unfit(
            "A block of the result left VMEM, and the grid came back to it: in the first pass it is copied home "
            "though nothing has been written to it.",
            "in the first pass keep it at (i, 0), where the second begins.",
        )
    return softmax


EXERCISE = Exercise(
    id="09.8",
    title="From an empty cell: softmax of rows that do not fit",
    kind="write",
    defines="softmax",
    cases=_long_rows,
    reference=lambda x: jax.nn.softmax(x, axis=-1),
    build=_result_comes_home_once,
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
    slips=(
        judges.Slip(
            means="the maximum begins with a finite number, and below it lie all of the numbers",
            value=_from_a_finite_number,
            next="begin with -jnp.inf, which is smaller than every number.",
        ),
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
