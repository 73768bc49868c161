"""The gradient of the matrices."""

import jax.numpy as jnp

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
    """Return the sums over all visits of x.T @ g over the rows of the tile that ``rows_of(group, row, bounds)`` marks.

    ``repeats``: how often the last visit is added once more.
    """
    group, tiles, bounds, count = lists
    visit, row = jnp.arange(len(group))[:, None], jnp.arange(len(x))[None]
    times = jnp.where(visit < count[0], 1, 0) + jnp.where(visit == count[0] - 1, repeats, 0)
    here = (row // of.TILE == tiles[:, None]) & rows_of(group[:, None], row, bounds)
    of_group = (group[:, None] == jnp.arange(len(bounds) - 1)).astype(jnp.float32)
    weight = jnp.einsum("ve,vt->et", of_group, (times * here).astype(jnp.float32), precision="highest")
    x, g = (jnp.where((weight > 0).any(axis=0)[:, None], a, 0) for a in (x, g))
    return jnp.einsum("et,tk,tn->ekn", weight, x, g, precision="highest")


def _own(e, row, bounds):
    return (row >= bounds[e]) & (row < bounds[e + 1])


def _whole_tiles(x, g, *lists):
    return _added(x, g, lists, lambda e, row, bounds: row >= 0)


def _one_row_more(x, g, *lists):
    return _added(x, g, lists, lambda e, row, bounds: (row >= bounds[e]) & (row <= bounds[e + 1]))


def _one_row_less(x, g, *lists):
    return _added(x, g, lists, lambda e, row, bounds: (row > bounds[e]) & (row < bounds[e + 1]))


def _rows_of_tile_0(x, g, *lists):
    return _added(x, g, lists, lambda e, row, bounds: _own(e, row % of.TILE, bounds))


def _last_left_out(x, g, *lists):
    return _added(x, g, lists, _own, repeats=-1)


def _last_again(x, g, *lists):
    """Return it where the steps past the end add the last visit again and again."""
    return _added(x, g, lists, _own, repeats=len(lists[0]) - lists[3][0])


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
            means="the sum of one group goes on in the next group",
            value=_running,
            next="clear the accumulator if the group differs from that of the previous visit.",
        ),
        judges.Slip(
            means="all rows of a tile count, also those of other groups",
            value=_whole_tiles,
            next="replace the rows of other groups with 0 in x and g: bounds_ref[e] <= row < bounds_ref[e + 1].",
        ),
        judges.Slip(
            means="the first row of the next group counts, too",
            value=_one_row_more,
            next="a group ends before bounds_ref[e + 1], so demand row < bounds_ref[e + 1].",
        ),
        judges.Slip(
            means="the first row of each group is left out",
            value=_one_row_less,
            next="a group begins with bounds_ref[e], so demand row >= bounds_ref[e].",
        ),
        judges.Slip(
            means="the rows of each tile are counted from 0",
            value=_rows_of_tile_0,
            next="visit v has tile tile_ref[v], whose first row is tile_ref[v] * TILE.",
        ),
        judges.Slip(
            means="the last visit that counts is not added",
            value=_last_left_out,
            next="visits 0 to count_ref[0] - 1 count, so add while v < count_ref[0].",
        ),
        judges.Slip(
            means="steps past the end add the last visit once more",
            value=_last_again,
            next="add only while v < count_ref[0]; the last visit that counts is count_ref[0] - 1, not the last step.",
        ),
    ),
    hints=(
        "Which of the refs stays in VMEM during the visits of a group, and when is its sum complete?",
        "0 * NaN is NaN, so rows of other groups have to be replaced with 0 in both x and g, before the matmul.",
        "Clear acc_ref at the first visit of a group and store it at the last, which you find if you compare "
        "group_ref[v] with its neighbors. Past the last visit the list repeats its group, so the group does not change "
        "after v == count_ref[0] - 1: store there as well. Steps from count_ref[0] on must add nothing.",
    ),
    points=3,
)
