"""Golf: dx, dw and db in as few bytes as possible."""

import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.kinds.golf import BYTES, Golf
from course_lib.lessons.lesson_10 import layers


def _cases() -> list[tuple]:
    sizes = ({"M": 512, "K": 256, "N": 384}, {"M": 128, "K": 128, "N": 128})
    cases = []
    for x, w, y, g in arguments(("x: f32[M,K]", "w: f32[K,N]", "y: f32[M,N]", "g: f32[M,N]"), sizes, within=(-1, 1)):
        cases.append((x, w, jnp.maximum(y, 0), g))
    return cases


EXERCISE = Exercise(
    id="10.10",
    title="Golf: the whole backward pass",
    kind="golf",
    defines="all_back",
    cases=_cases,
    reference=lambda x, w, y, g: (layers.dx(w, y, g), layers.dw(x, y, g), layers.db(y, g)),
    budget=judges.Budget(vmem_bytes=3 * 2**20),
    golf=Golf(unit=BYTES, par=4_500_000),
    slips=(
        judges.Slip(
            means="db sums g without relu's slope",
            value=lambda x, w, y, g: g.sum(axis=0),
            next="sum dz instead of g.",
            output=2,
        ),
        *(
            judges.Slip(
                means=f"dw comes from the last {rows} rows alone, because each step overwrites it",
                value=lambda x, w, y, g, rows=rows: layers.dw(x[-rows:], y[-rows:], g[-rows:]),
                next="set dw_ref to zero at the first step only, and add to it at every step, as to db_ref.",
                output=1,
            )
            for rows in (64, 128, 256)
        ),
    ),
    hints=(
        "y and g are the largest arrays, and each of the three gradients needs them. How can you read them only once?",
        "Go over blocks of rows. dx is done block by block, while dw and db are sums over all blocks. What has "
        "to stay in VMEM meanwhile?",
        "Use one kernel with the grid (rows,). A step has 128 rows of x, y, g and dx, while w, dw and db are one "
        "block each, which stays.",
    ),
    points=3,
)
