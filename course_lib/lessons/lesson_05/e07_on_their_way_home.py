"""Manual write-backs to repair: a buffer is overwritten too early, and one copy is never waited for."""

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
        "Write down, step by step, which block out_ref holds and which copies are in flight. Which copy still reads "
        "out_ref when a step writes to it?",
        "Use two buffers and two semaphores, and put block n into buffer n mod 2. Before step i writes to its buffer, "
        "the copy of block i - 2 must be over. In the last step two copies remain, or one if there is only one step.",
        "The scratch is pltpu.VMEM((2, 16, columns), ...) and pltpu.SemaphoreType.DMA((2,)). Before the write comes "
        "send(i - 2).wait() under pl.when(i >= 2). The last step waits for i - 1, if there is one, and for i.",
    ),
    points=2,
)
