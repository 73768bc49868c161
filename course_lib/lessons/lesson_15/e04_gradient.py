"""The gradient of the matrices."""

import jax.numpy as jnp
import numpy as np

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_15 import groups as of

ROWS = 64
SIZES = ((10, 0, 22, 8, 20), (16, 32, 16), (0, 3, 0, 40), (64,), (0, 0, 12, 0))


def _cases() -> list[tuple]:
    """Return groups with and without rows, and rows of nobody: NaN from the second case on."""
    cases = []
    for seed, sizes in enumerate(SIZES):
        garbage = jnp.nan if seed else 0.5
        widths = ((0, 128), (50, 256 if seed == 1 else 128))
        x, g = (of.values(n + seed, ROWS, width).at[sum(sizes) :].set(garbage) for n, width in widths)
        cases.append((x, g, *of.lists(sizes, ROWS, empty=True)))
    return cases


def _gradient(x, g, group, tile, bounds, count):
    return of.gradient(x, g, bounds)


def _running(x, g, group, tile, bounds, count):
    """Return it where the accumulator is cleared at the first step only."""
    return jnp.cumsum(_gradient(x, g, group, tile, bounds, count), axis=0)


def _added(x, g, lists, rows_of, repeats=0):
    """Return the sums over all visits of x.T @ g over the rows of the tile that ``rows_of(group, row)`` marks.

    ``repeats``: how often the last visit is added once more.
    """
    group, tiles, bounds, count = map(np.asarray, lists)
    total = np.zeros((len(bounds) - 1, x.shape[1], g.shape[1]), np.float32)
    visits = [*range(count[0]), *[count[0] - 1] * repeats]
    for v in visits:
        rows = of.TILE * tiles[v] + np.arange(of.TILE)
        rows = rows[rows_of(group[v], rows, bounds)]
        total[group[v]] += np.asarray(x)[rows].T @ np.asarray(g)[rows]
    return jnp.array(total)


def _own(e, row, bounds):
    return (row >= bounds[e]) & (row < bounds[e + 1])


def _whole_tiles(x, g, *lists):
    return _added(x, g, lists, lambda e, row, bounds: row >= 0)


def _one_row_more(x, g, *lists):
    return _added(x, g, lists, lambda e, row, bounds: (row >= bounds[e]) & (row <= bounds[e + 1]))


def _last_again(x, g, *lists):
    """Return it where the steps past the end add the last visit again and again."""
    return _added(x, g, lists, _own, repeats=len(lists[0]) - int(lists[3][0]))


EXERCISE = Exercise(
    id="15.4",
    title="The gradient of the matrices",
    kind="write",
    defines="dw_kernel",
    judged="dw",
    cases=_cases,
    reference=_gradient,
    slips=(
        judges.Slip(
            means="the sum of one group goes on in the next",
            value=_running,
            next="clear the accumulator where the group differs from that of the visit before.",
        ),
        judges.Slip(
            means="all rows of a tile count, whosever they are",
            value=_whole_tiles,
            next="replace the rows of other groups with 0 in x and g: bounds_ref[e] <= row < bounds_ref[e + 1].",
        ),
        judges.Slip(
            means="the first row of the next group counts, too",
            value=_one_row_more,
            next="a group ends before bounds_ref[e + 1]: row < bounds_ref[e + 1].",
        ),
        judges.Slip(
            means="steps past the end add the last visit once more",
            value=_last_again,
            next="add only while v < count_ref[0]; the last visit that counts is count_ref[0] - 1, not the last step.",
        ),
    ),
    hints=(
        "Which of the refs stays in VMEM while the visits of a group go by? When is its sum complete?",
        "0 * NaN is NaN, so rows of other groups have to be replaced with 0 in both x and g, before the matmul.",
        "Clear acc_ref at the first visit of a group, and store it at the last: compare group_ref[v] with its "
        "neighbors. Behind the last visit the list repeats its group, so there is no change at v == count_ref[0] - 1: "
        "store there as well. Steps from count_ref[0] on must add nothing.",
    ),
    points=3,
)
