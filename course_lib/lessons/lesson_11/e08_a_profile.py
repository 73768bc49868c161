"""What a profile says, in words."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.explain import Explain

EXERCISE = Exercise(
    id="11.8",
    title="Explain: forty percent idle",
    kind="explain",
    defines="advice",
    asks=Explain(
        model="First find out what runs on the host during the gap. If it is a loader or a dispatch, no kernel makes "
        "the gap shorter. If loading and computing alternate, a faster kernel shortens the rest; if the loader works "
        "meanwhile and is the slower of the two, the gap grows by what is saved. As for the softmax, it is normal that "
        "it hardly uses the MXU, because HBM binds it. Its bytes divided by the bandwidth say how long it has to take, "
        "and only the distance to that can be won, which is at most 5 % of the step. That may still pay if the bill "
        "is large enough.",
        look_for=(
            "that in a gap the device waits, and that other lanes or a fuller recording show what it waits for",
            "that low usage may be the best possible, and that a roofline tells",
            "that a kernel can win only a part of its share of the step",
        ),
    ),
    hints=(
        "There are two findings. What does the device wait for, and how far is the softmax from the time it needs?",
        "Think of lesson 3: what binds a softmax, and how much of the MXU does it use at best?",
        "Write one sentence on the gap, one on the roofline, and one on the 5 %.",
    ),
    points=0,
)
