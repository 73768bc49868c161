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
            means="the copies overlap, for they start at rows 0, 1, 2 and so on",
            value=_from_row_i,
            next="pl.ds counts rows, where an index map counts blocks: chunk i begins at row 16 i.",
        ),
    ),
    hints=(
        "Write a function fetch(i) that describes the copy of chunk i: into buffer i mod 2, on semaphore i mod 2. Then "
        "fetch(i).start() and fetch(i).wait() cannot disagree.",
        "The prologue starts chunk 0. A turn starts chunk i + 1, if there is one (pl.when), then waits for chunk i, "
        "then adds it. jax.lax.rem(i, 2) is i mod 2; @pl.loop(0, chunks) makes the turns.",
        "o_ref[...] = jnp.zeros_like(o_ref); fetch(0).start(); in the loop: under pl.when(i + 1 < chunks) "
        "fetch(i + 1).start(), then fetch(i).wait(), then o_ref[...] += in_ref[jax.lax.rem(i, 2)].",
    ),
    points=3,
)
