"""The same sum with emit_pipeline, and three buffers."""

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
        "emit_pipeline takes what pallas_call takes: a body, a grid, in_specs, out_specs. It returns a function of the "
        "refs in HBM; call it.",
        "One step for each chunk of 16 rows: which block does each see, and which block of the output? The output's "
        "map names one block in every step. Two buffers are the default: how does a BlockSpec ask for another number?",
        "pl.BlockSpec((16, columns), lambda i: (i, 0), pipeline_mode=pl.Buffered(3)) for x, and lambda i: (0, 0) for "
        "the output.",
    ),
    points=2,
)
