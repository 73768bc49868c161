"""The kernel of a visit, with rows that belong to nobody."""

import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_15 import groups as of

ROWS = 64
SIZES = ((10, 0, 22, 8, 20), (16, 32, 16), (0, 3, 0, 40), (64,), (5, 6, 1, 2))


def _cases() -> list[tuple]:
    """Return groups that end inside tiles and at their ends, or are empty; nobody's rows are NaN from case 1 on."""
    cases = []
    for seed, sizes in enumerate(SIZES):
        x, w = of.values(seed, ROWS, 128), of.values(9 + seed, len(sizes), 128, 256 if seed == 1 else 128)
        x = x.at[sum(sizes) :].set(jnp.nan if seed else 0.5)
        cases.append((x, w, *of.lists((*sizes, ROWS - sum(sizes)), ROWS)))
    return cases


def _grouped(x, w, group, tile, bounds, count):
    return of.grouped(x, w, bounds)


def _last_visit(x, w, group, tile, bounds, count):
    """Return it where each visit writes the whole tile."""
    last = jnp.array([jnp.max(jnp.where(tile == n, group, 0)) for n in range(ROWS // of.TILE)])
    chosen = jnp.repeat(last, of.TILE, total_repeat_length=ROWS)
    o = jnp.einsum("tk,tkn->tn", x, w[jnp.minimum(chosen, len(w) - 1)], precision="highest")
    return jnp.where(chosen[:, None] < len(w), o, 0)


def _from_visits(x, w, *lists, across=False):
    """Return it where the first row of a tile is counted as that of tile v, the number of the visit."""
    return of.from_visits(jnp.concatenate([of.by_each(x, w), jnp.zeros((1, ROWS, w.shape[2]))]), *lists, across=across)


def _last_expert_cleared(x, w, group, tile, bounds, count):
    """Return it where the last expert is taken for nobody, and nobody for an expert."""
    row = jnp.arange(ROWS)[:, None]
    last = jnp.dot(x, w[-1], precision="highest")
    return jnp.where(row < bounds[len(w) - 1], of.grouped(x, w, bounds), jnp.where(row < bounds[len(w)], 0, last))


def _nobody_clears_all(x, w, group, tile, bounds, count):
    """Return it where nobody's visit clears its whole tile."""
    first = bounds[len(w)] // of.TILE * of.TILE
    cleared = (jnp.arange(ROWS)[:, None] >= first) & (bounds[len(w)] < ROWS)
    return jnp.where(cleared, 0, of.grouped(x, w, bounds))


def _nobody_multiplied(x, w, group, tile, bounds, count):
    """Return it where nobody's rows are multiplied by the matrix that the index map gives them."""
    there = jnp.arange(ROWS)[:, None] < bounds[len(w)]
    last = jnp.dot(jnp.where(there, 0, x), w[-1], precision="highest")
    return jnp.where(there, of.grouped(x, w, bounds), last)


EXERCISE = Exercise(
    id="15.3",
    title="A visit",
    kind="write",
    defines="visit_kernel",
    judged="grouped",
    cases=_cases,
    reference=_grouped,
    slips=(
        judges.Slip(
            means="each visit writes the whole tile, so only the rows of the last visit are right",
            value=_last_visit,
            next="keep the rows of other groups: jnp.where(mine, o, o_ref[...]).",
        ),
        judges.Slip(
            means="the first row of a tile is taken for row v * TILE, where v is the number of the visit",
            value=_from_visits,
            next="visit v has tile tile_ref[v], whose first row is tile_ref[v] * TILE.",
        ),
        judges.Slip(
            means="nobody's visit clears the whole tile, and with it rows of the last expert",
            value=_nobody_clears_all,
            next="clear only nobody's rows, and keep what o_ref holds in all others.",
        ),
        judges.Slip(
            means="the rows that belong to nobody are multiplied by the last matrix",
            value=_nobody_multiplied,
            next="write 0 to the rows of the visit if group_ref[v] is the number of experts.",
        ),
        judges.Slip(
            means="the rows of the last expert are 0, as if they were nobody's",
            value=_last_expert_cleared,
            next="experts are counted from 0, so nobody has the number E = bounds_ref.shape[0] - 2.",
        ),
        judges.Slip(
            means="the mask runs along the columns of o_ref, not along its rows",
            value=lambda *args: _from_visits(*args, across=True),
            next="number the rows with axis 0: jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0).",
        ),
    ),
    hints=(
        "Which rows of the array does the tile of visit v hold, and which of them are the group's?",
        "A row of the tile has the number tile_ref[v] * TILE + its row in the tile. It belongs to group e from "
        "bounds_ref[e] up to, but not including, bounds_ref[e + 1]. Keep what o_ref has in all other rows.",
        "Write jnp.where(mine, jnp.where(e == nobody, 0, o), o_ref[...]), where nobody = bounds_ref.shape[0] - 2 is "
        "the number of matrices.",
    ),
    points=3,
)
