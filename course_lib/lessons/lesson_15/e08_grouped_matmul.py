"""A whole kernel from an empty cell: a grouped matmul of any sizes, nearly as fast as the library's."""

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import compiler, judges
from course_lib.checks import borrowed, cycle_limit
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_15 import groups as of

ROWS, K, N = 4096, 1024, 1024
POPULAR = (287, 1685, 394, 350, 318, 330, 381, 351)  # the sizes of the lesson's opening
NEARLY_EVEN = (500, 530, 490, 520, 515, 505, 525, 511)
LIMITS = {POPULAR: 112_000, NEARLY_EVEN: 117_000}  # sizes: the most cycles
# Groups that begin near a tile's end, that fill a tile, that all begin inside tiles; of few rows, and without any.
SIZES = (
    ((250, 0, 200, 306, 12), 768, 128),
    ((100, 1000, 20), 1152, 128),  # as many visits as there can be
    ((15, 128, 200, 169), 512, 256),
    ((0, 3, 0, 40, 0), 256, 128),
    ((0, 0), 128, 128),
)


def arrays(seed: int, sizes, rows: int, n: int) -> tuple:
    """Return rows, matrices and sizes; rows that no group has hold NaN."""
    x = of.values(seed, rows, 128).astype(jnp.bfloat16).at[sum(sizes) :].set(jnp.nan)
    w = of.values(9 + seed, len(sizes), 128, n).astype(jnp.bfloat16)
    return x, w, jnp.array(sizes, jnp.int32)


def cases() -> list[tuple]:
    """Return the groups of SIZES, and rows of nobody."""
    return [arrays(seed, *each) for seed, each in enumerate(SIZES)]


def reference(x, w, sizes):
    """Return the grouped matmul, accumulated in float32; zeros for the rows of no group."""
    bounds = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(sizes)])
    return of.grouped(x.astype(jnp.float32), w.astype(jnp.float32), bounds).astype(x.dtype)


def _garbage_kept(x, w, sizes):
    """Return it where the rows of nobody are multiplied by the last matrix."""
    there = jnp.arange(len(x))[:, None] < jnp.sum(sizes)
    last = jnp.dot(x, w[-1], preferred_element_type=jnp.float32).astype(x.dtype)
    return jnp.where(there, reference(x, w, sizes), last)


def _nobody_clears_all(x, w, sizes):
    """Return it where nobody's rows clear their whole tile."""
    tile, first = min(512, len(x)), jnp.sum(sizes)
    cleared = (jnp.arange(len(x))[:, None] >= first // tile * tile) & (first < len(x))
    return jnp.where(cleared, 0, reference(x, w, sizes)).astype(x.dtype)


SLIPS = (
    judges.Slip(
        means="nobody's visit clears the whole tile, and with it rows of the last expert",
        value=_nobody_clears_all,
        next="clear only nobody's rows, and keep what o_ref holds in all others.",
    ),
    judges.Slip(
        means="rows past the last group get the result of a matmul, not 0",
        value=_garbage_kept,
        next="make them a group of their own, nobody's, and write zeros there.",
    ),
)


def shapes(sizes: tuple[int, ...]) -> tuple:
    """Return the shapes of x and w at the size of the lesson, and the values of sizes."""
    x = jax.ShapeDtypeStruct((ROWS, K), jnp.bfloat16)
    return x, jax.ShapeDtypeStruct((len(sizes), K, N), jnp.bfloat16), np.array(sizes, np.int32)


def own_kernel(fn) -> tuple[str, str] | None:
    """Demand a kernel that is not the library's."""
    return borrowed.complaint(fn, *cases()[0], next="write it yourself: library is there for 15.6.")


def _fast_enough(ragged_matmul):
    """Demand the cycles of LIMITS, where a compiler is at hand."""
    for sizes, most in LIMITS.items():
        said = cycle_limit.exceeded(
            ragged_matmul, shapes(sizes), most, f"For groups of {', '.join(map(str, sizes))} rows", _advice
        )
        if said:
            return said
    return None


def _advice(report: compiler.Report) -> tuple[str, str]:
    waits = report.time_split.get("DMA wait", 0)
    return (
        f"The core waits for copies in {waits:,} of its cycles. One matrix for all rows takes about 75,000 in all.",
        "check that each matrix is copied once. Let steps without a visit do nothing, and repeat the last blocks."
        if waits > 30_000
        else "at a border multiply only the part of the tile with rows of the group, and elsewhere use large tiles.",
    )


EXERCISE = Exercise(
    id="15.8",
    title="From an empty cell: a grouped matmul",
    kind="write",
    defines="ragged_matmul",
    cases=cases,
    reference=reference,
    slips=SLIPS,
    also=(own_kernel, _fast_enough),
    also_at=lambda: [arrays(5, (100, 700, 30, 194), 1024, 128)],
    hints=(
        "You already have the lists of 15.2, without visits for empty groups but with one more group, nobody's, and "
        "the kernel and the call of 15.3. Make these work first, in tiles of 256 rows.",
        "Then save at the borders. A tile whose rows all belong to the group is multiplied as a whole. Otherwise only "
        "some chunks of 128 rows have rows of the group: a loop over those multiplies each and merges it.",
        "With start and end counted from the tile's first row, @pl.loop(start // 128, pl.cdiv(end, 128)) goes through "
        "the chunks, and chunk n is part = pl.ds(pl.multiple_of(128 * n, 128), 128). Tiles of 512 rows are the fastest "
        "then.",
    ),
    points=4,
)
