"""The list of visits, in JAX."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.checks.exercise import Exercise
from course_lib.checks.unfit import Unfit, described
from course_lib.lessons.lesson_15 import groups as of

_NAMES = ("group", "tiles", "bounds", "count")
_FORM = {
    "group": "give the list room for rows // tile + E - 1 visits, however many there are: jnp.repeat takes "
    "total_repeat_length.",
    "tiles": "give the list room for rows // tile + E - 1 visits, however many there are.",
    "bounds": "bounds begins with 0 and ends with the sum of all sizes: jnp.concatenate([jnp.zeros(1, jnp.int32), "
    "ends]).",
    "count": "make count an array with one element: count[None].",
}
_NEXT = {
    "bounds": "bounds[e] is the sum of the sizes before e, so bounds has one more entry than sizes.",
    "count": "a group from start to end has the tiles start // tile to (end - 1) // tile, and a group without rows has "
    "one visit. Add up the visits of all groups.",
    "group": "repeat the number of each group as often as it has visits, and past the end repeat the last visit.",
    "tiles": "take the first tile of the group, and one more for each visit of the group before this one. Past the "
    "end, repeat the last visit. A group without rows that begins past the last row visits the last tile.",
}


def _cases() -> list[tuple]:
    sizes = (10, 0, 22, 8, 24), (0, 32, 32, 0), (1, 1, 1, 13, 80)
    return [
        (of.values(seed, sum(each), 128), of.values(9 + seed, len(each), 128, 128), jnp.array(each, jnp.int32))
        for seed, each in enumerate(sizes)
    ]


def _grouped(x, w, sizes):
    return of.grouped(x, w, jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(sizes)]))


def _kernel(group_ref, tile_ref, bounds_ref, count_ref, x_ref, w_ref, o_ref):
    """Multiply the rows of a visit, and write those of its group."""
    v = pl.program_id(0)
    e = group_ref[v]
    row = tile_ref[v] * of.TILE + jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0)

    @pl.when(v < count_ref[0])
    def visit():
        o = jnp.dot(x_ref[...], w_ref[...], precision="highest", preferred_element_type=jnp.float32)
        o_ref[...] = jnp.where((row >= bounds_ref[e]) & (row < bounds_ref[e + 1]), o, o_ref[...])


def _with_lists(visits):
    """Return a grouped matmul that walks along the learner's lists. Raise Unfit for wrong ones."""
    _demand_right_lists(visits)

    def grouped(x, w, sizes):
        (rows, k), (_, _, n) = x.shape, w.shape
        found = visits(sizes, rows, of.TILE)

        def rows_map(v, group, tile, *_):
            return tile[v], 0

        return pl.pallas_call(
            _kernel,
            out_shape=jax.ShapeDtypeStruct((rows, n), x.dtype),
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=4,
                grid=found[0].shape,
                in_specs=[
                    pl.BlockSpec((of.TILE, k), rows_map),
                    pl.BlockSpec((None, k, n), lambda v, group, *_: (group[v], 0, 0)),
                ],
                out_specs=pl.BlockSpec((of.TILE, n), rows_map),
            ),
        )(*found, x, w)

    return grouped


def _demand_right_lists(visits) -> None:
    """Raise Unfit unless the lists are right for many sizes, each step by itself."""
    rng = np.random.default_rng(0)
    for tile, experts in ((8, 4), (16, 3), (8, 8)):
        for _ in range(4):
            rows = 8 * tile
            cuts = np.sort(rng.integers(0, rows + 1, experts - 1))
            if rng.integers(2):
                cuts = cuts // tile * tile
            sizes = np.diff([0, *cuts, rows]).astype(np.int32)
            found = visits(jnp.array(sizes), rows, tile)
            _demand_form(found, rows, tile, experts)
            wanted = of.lists(sizes, rows, empty=True, tile=tile)
            wanted, found = (dict(zip(_NAMES, map(np.asarray, each), strict=True)) for each in (wanted, found))
            for name in ("bounds", "count", "group", "tiles"):
                if not np.array_equal(found[name], wanted[name]):
                    raise Unfit(
                        f"For sizes {sizes.tolist()} and tiles of {tile}, {name} is {found[name].tolist()}; it should "
                        f"be {wanted[name].tolist()}.",
                        _next(name, found, wanted, sizes),
                        headline=f"{name} is wrong.",
                    )


def _next(name: str, found: dict, wanted: dict, sizes: np.ndarray) -> str:
    """Return what to try where a list is wrong, in the words of a likely mistake if it is one."""
    count = int(wanted["count"][0])
    if name == "count" and found["count"][0] == len(found["group"]):
        return "that is the length of the lists, but count says how many of their entries are visits."
    if name == "count" and found["count"][0] == count - (sizes == 0).sum():
        return "a group without rows has one visit as well: jnp.where(sizes > 0, ..., 1)."
    for other in {"group", "tiles"} - {name}:
        if name in ("group", "tiles") and np.array_equal(found[name], wanted[other]):
            return "this list belongs elsewhere in the result: return group, tiles, bounds, count."
    if name in ("group", "tiles") and np.array_equal(found[name][:count], wanted[name][:count]):
        return f"the {count} visits are right, but past them the list must repeat the last one: v = min(v, count - 1)."
    if name == "tiles" and not sizes[wanted["group"][found[name] != wanted[name]]].any():
        return (
            "a group without rows that begins past the last row visits the last tile: take jnp.minimum of the tile and "
            "rows // tile - 1."
        )
    return _NEXT[name]


def _demand_form(found, rows: int, tile: int, experts: int) -> None:
    """Raise Unfit unless these are four arrays of the right shapes and dtypes."""
    most = rows // tile + experts - 1
    if not isinstance(found, tuple | list) or len(found) != 4:
        raise Unfit(
            f"visits returns {described(found)}, but it should return four arrays.",
            "end with return group, tiles, bounds, count.",
        )
    for name, each, size in zip(_NAMES, found, (most, most, experts + 1, 1), strict=True):
        if getattr(each, "shape", None) != (size,) or each.dtype != jnp.int32:
            raise Unfit(
                f"For {rows} rows in tiles of {tile} and {experts} groups, {name} must be int32[{size}], but it is "
                f"{described(each)}.",
                _FORM[name]
                if getattr(each, "shape", None) != (size,)
                else "convert it with .astype(jnp.int32) at the end.",
            )


EXERCISE = Exercise(
    id="15.2",
    title="The list of visits",
    kind="write",
    defines="visits",
    build=_with_lists,
    cases=_cases,
    reference=_grouped,
    arithmetic_around=True,
    hints=(
        "Do the five steps one after another, and print each result for sizes [5, 0, 11, 4, 12] and tiles of 8.",
        "With first = starts // tile, a group with rows has (ends - 1) // tile - first + 1 visits, and one without "
        "rows has 1. jnp.repeat(..., total_repeat_length=most) makes the list of groups, and cumsum gives the number "
        "of each group's first visit.",
        "Let met be the visits of each group, and v = jnp.minimum(jnp.arange(most), count - 1). Then group is "
        "group[v], and tiles is first[group] + v - before[group], with first = jnp.minimum(starts // tile, rows // "
        "tile - 1) and before = jnp.cumsum(met) - met.",
    ),
    points=3,
)
