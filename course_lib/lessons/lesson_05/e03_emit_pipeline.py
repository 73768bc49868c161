"""The sum of 05.2 with emit_pipeline and three buffers."""

from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_05 import under_way
from course_lib.lessons.lesson_05.chunks import folded, in_chunks


def _three_under_way(piped):
    return next((said for (x,) in in_chunks() if (said := under_way.too_few(piped, x, wanted=3))), None)


EXERCISE = Exercise(
    id="05.3",
    title="Three under way, by emit_pipeline",
    kind="write",
    defines="piped_kernel",
    judged="piped",
    cases=in_chunks,
    reference=folded,
    also=(_three_under_way,),
    hints=(
        "Like pallas_call, emit_pipeline takes a body, a grid, in_specs and out_specs. It returns a function of the "
        "refs in HBM, which you have to call.",
        "There is one step for each chunk of 16 rows. Which block of x does each step see? The output's index map "
        "names the same block at every step. Two buffers are the default, and pipeline_mode requests another number.",
        "The spec of x is pl.BlockSpec((16, columns), lambda i: (i, 0), pipeline_mode=pl.Buffered(3)), and the index "
        "map of the output is lambda i: (0, 0).",
    ),
    points=2,
)
