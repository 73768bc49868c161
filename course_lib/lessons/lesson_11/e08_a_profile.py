"""What a profile says, in words."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.explain import Explain

EXERCISE = Exercise(
    id="11.8",
    title="Explain: forty percent idle",
    kind="explain",
    defines="advice",
    asks=Explain(
        model="First the gap: what runs on the host meanwhile? If it is a loader or a dispatch, no kernel makes that "
        "gap shorter. If loading and computing take turns, a faster kernel shortens the rest; if the loader works "
        "meanwhile and is the slower, the gap grows by what is saved. Then the softmax: that it hardly uses the MXU is "
        "normal for what is bound by HBM. Its bytes over the bandwidth say how long it has to take. Only the distance "
        "to that can be won: of 5 % at most 5 %. That may still pay, if the bill is large enough.",
        look_for=(
            "that a gap is somebody else's time, and that other lanes, or a fuller record, tell whose",
            "that low usage may be the best there is, and that a roofline tells",
            "that what can be won is a share of the share of the step",
        ),
    ),
    hints=(
        "Two findings, two questions: who does the device wait for, and how far is the softmax from what it must take?",
        "Lesson 3: what binds a softmax? How much of the MXU does it use at best?",
        "One sentence on the gaps, one on the roofline, one on 5 %.",
    ),
    points=0,
)
