"""Which of a block's three sizes controls what, in words."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.explain import Explain

EXERCISE = Exercise(
    id="07.8",
    title="Explain: which block size, and why",
    kind="explain",
    defines="why",
    asks=Explain(
        model="bn should be larger: while K is cut, all of x is copied N / bn times and all of y M / bm times, and bk "
        "is in neither count. So a longer bk, less than K, does not change the bytes. It makes fewer steps, and each "
        "step has an overhead of 300 to 500 cycles. (All of K in one block would help as well, because then x is "
        "copied once.) VMEM limits both: it holds two buffers for each of the three blocks, and the accumulator.",
        look_for=(
            "that all of x is copied N / bn times, and all of y M / bm times",
            "that bk decides the number of steps, but not the bytes",
            "that VMEM holds two buffers of each block, and the accumulator",
        ),
    ),
    hints=(
        "How often is all of x copied? Which of the three block sizes is in that count?",
        "The kernel waits for HBM. What does bk change, if not the bytes?",
        "Write one sentence on bytes, one on steps, and one on VMEM.",
    ),
    points=0,
)
