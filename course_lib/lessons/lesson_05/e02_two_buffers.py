"""A loop with two buffers that prefetches the next chunk while it works on the current one."""

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_05 import under_way
from course_lib.lessons.lesson_05.chunks import folded, in_chunks


def _overlaps(fold):
    return next((said for (x,) in in_chunks() if (said := under_way.too_few(fold, x, wanted=2))), None)


def _from_row_i(x):
    return sum(x[i : i + 16] for i in range(x.shape[0] // 16))


EXERCISE = Exercise(
    id="05.2",
    title="Two buffers, by hand",
    kind="write",
    defines="folded_kernel",
    judged="folded",
    cases=in_chunks,
    reference=folded,
    also=(_overlaps,),
    slips=(
        judges.Slip(
            means="the chunks overlap, because their copies begin at rows 0, 1, 2 and so on",
            value=_from_row_i,
            next="begin chunk i at row 16 * i, because pl.ds counts rows, while an index map counts blocks.",
        ),
    ),
    hints=(
        "Write a function fetch(i) that describes the copy of chunk i into buffer i mod 2, on semaphore i mod 2. Then "
        "fetch(i).start() and fetch(i).wait() cannot disagree.",
        "The prologue starts chunk 0. Each iteration starts chunk i + 1 if there is one (pl.when), then waits for "
        "chunk i, and then adds it. jax.lax.rem(i, 2) is i mod 2, and @pl.loop(0, chunks) makes the loop.",
        "Before the loop come o_ref[...] = jnp.zeros_like(o_ref) and fetch(0).start(). In the loop comes "
        "fetch(i + 1).start() under pl.when(i + 1 < chunks), then fetch(i).wait(), and then "
        "o_ref[...] += in_ref[jax.lax.rem(i, 2)].",
    ),
    points=3,
)
