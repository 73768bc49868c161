"""Manual write-backs to repair: a buffer is reused too early, and one copy is never waited for."""

from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_05 import under_way
from course_lib.lessons.lesson_05.chunks import in_chunks


def _overlaps(tripled):
    return next((said for (x,) in in_chunks() if (said := under_way.nothing_leaving(tripled, x))), None)


EXERCISE = Exercise(
    id="05.7",
    title="Repair: results on their way home",
    kind="repair",
    defines="tripled",
    cases=in_chunks,
    reference=lambda x: 3 * x,
    also=(_overlaps,),
    hints=(
        "Write down, step by step, what lies in out_ref and which copy is under way. Who still reads it when it is "
        "written?",
        "Two buffers and two semaphores, block n in number n mod 2. Before step i writes its buffer, block i - 2 must "
        "be home. After the last step two are left, or one, if there was one step only.",
        "scratch: pltpu.VMEM((2, 16, columns), ...) and pltpu.SemaphoreType.DMA((2,)). Under pl.when(i >= 2) "
        "send(i - 2).wait(), before the write. In the last step wait for i - 1, if there is one, and for i.",
    ),
    points=2,
)
