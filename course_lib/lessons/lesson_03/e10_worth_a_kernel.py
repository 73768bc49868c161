"""Whether an operation is worth a kernel, in words."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.explain import Explain

EXERCISE = Exercise(
    id="03.10",
    title="Explain: would you write this kernel?",
    kind="explain",
    defines="why",
    asks=Explain(
        model="Low usage alone says nothing: an addition leaves the MXU idle on any chip, at any skill. First work "
        "out what the chip allows: FLOPs over the peak, bytes over the bandwidth, the larger of the two. Then "
        "compare with the time it takes. If the two are close there is nothing to win by a kernel of the same "
        "operation, only by moving fewer bytes, by fusing it with its neighbours say. If the gap is large, it is "
        "worth asking which roof is in the way.",
        look_for=(
            "a low share of the peak may be all that the operation allows",
            "the least time from FLOPs and bytes, and the gap between it and the time that is measured",
            "that fewer bytes, or another algorithm, change the roofline itself",
        ),
    ),
    hints=(
        "What share of the peak does adding two vectors reach at best? Is that a reason to write a kernel?",
        "Which two times would you compare?",
        "One sentence on the least time, one on the gap, one on what could make the least time smaller.",
    ),
    points=0,
)
