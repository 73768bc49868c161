"""Which of a block's three sizes controls what, in words."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.explain import Explain

EXERCISE = Exercise(
    id="07.8",
    title="Explain: which number, and why",
    kind="explain",
    defines="why",
    asks=Explain(
        model="bn should be larger: while K is cut, all of x is copied N / bn times and y M / bm times, and bk is in "
        "neither. So a longer bk, less than K, leaves the bytes as they are; it makes fewer steps, and each step costs "
        "300 to 500 cycles beside its products. (All of K in one block would cure it as well: then x is copied once.) "
        "Both end with VMEM: two buffers for each of the three blocks, and the sum.",
        look_for=(
            "that x is copied N / bn times, and y M / bm times",
            "that bk decides the number of steps and no bytes",
            "that VMEM holds two buffers of each block and the sum",
        ),
    ),
    hints=(
        "How often is all of x copied? Which of the three numbers is in that?",
        "The kernel waits for HBM. What does bk change, if not the bytes?",
        "One sentence on bytes, one on steps, one on VMEM.",
    ),
    points=0,
)
