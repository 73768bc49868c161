"""Golf: some blocks of a matmul, in any order, with as few bytes as possible."""

import jax.numpy as jnp
import numpy as np

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.golf import BYTES, Golf
from course_lib.lessons.lesson_12.lists import SIDE, bfloat16, drawn, int32

MOST_VMEM = 7 * 2**18


def _cases() -> list[tuple]:
    cases = []
    for n, (count, side, k) in enumerate(((24, (8, 8), 512), (5, (2, 4), 256), (1, (1, 2), 128))):
        order = np.random.default_rng(n).permutation(count)
        rows, cols = (int32(*at[order]) for at in drawn(count, side, n))
        cases.append((bfloat16(n, side[0] * SIDE, k), bfloat16(10 + n, k, side[1] * SIDE), rows, cols))
    return cases


def _blocks(a, b, rows, cols):
    x = a.astype(jnp.float32).reshape(-1, SIDE, a.shape[1])[rows]
    y = b.astype(jnp.float32).reshape(b.shape[0], -1, SIDE).swapaxes(0, 1)[cols]
    return jnp.einsum("zik,zkn->zin", x, y, precision="highest").astype(a.dtype)


def _sorted_blocks(a, b, rows, cols):
    order = jnp.argsort(rows)
    return _blocks(a, b, rows[order], cols[order])


EXERCISE = Exercise(
    id="12.10",
    title="Golf: blocks of a product, wherever they are",
    kind="golf",
    defines="sampled",
    cases=_cases,
    reference=_blocks,
    arithmetic_around=True,
    budget=judges.Budget(vmem_bytes=MOST_VMEM),
    slips=(
        judges.Slip(
            means="the blocks are right, but stand in the order in which they were computed",
            value=_sorted_blocks,
            next="let the index map of the result look up where block t of the sorted list belongs.",
        ),
    ),
    golf=Golf(unit=BYTES, par=3_500_000),
    hints=(
        "The kernel moves rows of a, columns of b and blocks of the result. Each block of the result has to move "
        "once. How often do the other two have to move?",
        "You may choose the order of the steps. If you sort by row with jnp.argsort, outside the kernel, a block of "
        "rows of a stays while its row lasts. The place of a block in the result comes from the list as well.",
        "All of b fits into VMEM, so give it an index map that never changes, and take the columns of a step with "
        "pl.ds. The index map of a looks up rows at the place that the sorted list names.",
    ),
    points=3,
)
