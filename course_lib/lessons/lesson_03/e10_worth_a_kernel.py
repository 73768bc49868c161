"""Whether an operation is worth a kernel, in words."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.explain import Explain

EXERCISE = Exercise(
    id="03.10",
    title="Explain: would you write this kernel?",
    kind="explain",
    defines="why",
    asks=Explain(
        model="Low usage alone says nothing, because an addition leaves the MXU idle on any chip, whoever writes the "
        "kernel. First work out the least time that the chip allows, which is the larger of FLOPs over the peak and "
        "bytes over the bandwidth. Then compare it with the time that the operation takes. If the two are close, no "
        "kernel for the same operation gains anything. Only moving fewer bytes does, for example by fusing the "
        "operation with its neighbors. If the gap is large, it is worth asking which roof is in the way.",
        look_for=(
            "that a low share of the peak may be all that the operation allows",
            "the least time from FLOPs and bytes, and the gap between it and the measured time",
            "that fewer bytes, or another algorithm, change the roofline itself",
        ),
    ),
    hints=(
        "What share of the peak does the addition of two vectors reach at best? Is that a reason to write a kernel?",
        "Which two times would you compare?",
        "Write one sentence on the least time, one on the gap, and one on what could make the least time shorter.",
    ),
    points=0,
)
