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
    """Return rows too large for the VMEM: of large numbers, of numbers far below 0, and falling ones; 512 divides."""
    sizes = ({"M": 16, "N": 2048}, {"M": 8, "N": 4096}, {"M": 24, "N": 1536})
    cases = arguments(("x: f32[M,N]",), sizes, (), (82, 87))  # exp is finite, and that of a whole row is not
    falls = cases[1][0] - 100 * (np.arange(2048) // 512)  # by more than the largest exponent of a float32
    return [*cases, (far_from_zero((8, 4096), -1e30),), (falls.astype(jnp.float32),)]


def _from(least: float):
    """Return a softmax whose maximum begins with ``least``."""

    def value(x):
        e = jnp.exp(x - jnp.maximum(jnp.max(x, axis=1, keepdims=True), least))
        return e / jnp.sum(e, axis=1, keepdims=True)

    return value


def _largest_of_each_block(x, block: int = 512):
    """Return a softmax whose maximum is that of the block, and no running one."""
    total, before = 0.0, jnp.full_like(x[:, :1], -jnp.inf)
    for start in range(0, x.shape[1], block):
        part = x[:, start : start + block]
        largest = jnp.max(part, axis=1, keepdims=True)
        total = total * jnp.exp(before - largest) + jnp.sum(jnp.exp(part - largest), axis=1, keepdims=True)
        before = largest
    return jnp.exp(x - before) / total


def _without_the_largest(x):
    return jnp.exp(x) / jnp.sum(jnp.exp(x - jnp.max(x, axis=1, keepdims=True)), axis=1, keepdims=True)


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
            "A block of the result left VMEM, and the grid came back to it later. In the first pass the block is "
            "written back although nothing has been written to it.",
            "in the first pass keep the block at (i, 0), where the second pass begins.",
            headline="a block of the result is left and revisited.",
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
        judges.Probe(
            scratch=name,
            place=place,
            after=after,
            grid=(2, 2, 4),
            expect=expect,
            means=f"{means}{', which the second pass needs' if after[1] else ''}",
            next="set it only in the first step of the first pass, where both indices are 0." if after[1] else next,
        )
        for after in ((0, 0, 3), (0, 1, 0))
        for place, (name, expect, means, next) in enumerate(
            (
                ("max_ref", _largest, "the largest element of each row", "begin with -inf, and keep the larger value."),
                (
                    "sum_ref",
                    _total,
                    "the sum of exp(x - largest) of each row",
                    "when the maximum grows, multiply the old sum by exp(old - new).",
                ),
            )
        )
    ),
    slips=(
        judges.Slip(
            means="the maximum begins with a finite number, and all elements of a row can be smaller",
            value=_from(-1e30),
            next="begin with -jnp.inf, which is smaller than every element.",
        ),
        judges.Slip(
            means="the maximum begins with 0, and all elements of a row can be smaller",
            value=_from(0.0),
            next="begin with -jnp.inf, which is smaller than every element.",
        ),
        judges.Slip(
            means="the maximum is that of the last block instead of the largest so far, so exponents are above 0",
            value=_largest_of_each_block,
            next="keep the larger of the old maximum and that of this block, with jnp.maximum(max_ref[...], ...).",
        ),
        judges.Slip(
            means="the first pass subtracts the maximum, but the second does not",
            value=_without_the_largest,
            next="write jnp.exp(x - largest) / sum in the second pass, too.",
        ),
        judges.Slip(
            means="the result is the logarithm of the softmax",
            value=lambda x: jax.nn.log_softmax(x, axis=-1),
            next="write jnp.exp(x - largest) / sum.",
        ),
    ),
    hints=(
        "During a pass you know the largest element so far, and the sum of exp(x - largest so far). When a larger one "
        "comes, by what must the old sum be multiplied?",
        "By exp(old largest - new largest). The grid is (rows, 2, columns): for each block of rows, the first pass "
        "over its columns collects both values in two scratch refs of (8, 1), and the second pass writes.",
        "The result's map is lambda i, second, j: (i, second * j). In the first pass its block stays at (i, 0), where "
        "the second pass begins, so it is not written back too early. The maximum begins at -inf, and the sum at 0.",
    ),
    points=4,
)
