"""Three reports: what bounds each kernel, and what to change."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.several import Several
from course_lib.lessons.lesson_02 import patients

BINDS = ("the bandwidth of HBM", "the latency of copies", "the latency of the XLU", "instructions")
RIGHT = {
    "A": ("the bandwidth of HBM", "fewer bytes"),
    "B": ("the latency of copies", "larger blocks"),
    "C": ("the latency of the XLU", "more rows in a turn"),
}
# For each patient: a sentence for each wrong answer, first the bounds, then the cures.
WRONG = {
    "A": {
        "the latency of copies": "It waits for copies most of the time, true. But which takes longer: its cycles, "
        "or its bytes at full speed? Work out both.",
        "the latency of the XLU": "That is a tenth of its cycles, and its cycles do not even set the time.",
        "instructions": "To issue them is a fifth of its cycles, and its cycles do not even set the time.",
        "larger blocks": "They would make fewer waits of the same bytes. What do those bytes take at full speed?",
        "more rows in a turn": "They would save cycles. What sets the time here?",
        "a cheaper operation": "It would save cycles. What sets the time here?",
    },
    "B": {
        "the bandwidth of HBM": "Divide its bytes by 820 GB/s. Is that anywhere near its time?",
        "the latency of the XLU": "That is a part of its cycles. Which part is the largest?",
        "instructions": "To issue them takes next to nothing. Look at *time goes*.",
        "fewer bytes": "A step moves few bytes as it is, and a copy takes over a thousand cycles if it moves none.",
        "more rows in a turn": "A block has 16 rows, and a turn has 16. How many more can it take?",
        "a cheaper operation": "The core waits for three quarters of the time. What for?",
    },
    "C": {
        "the bandwidth of HBM": "Divide its bytes by 820 GB/s. Is that anywhere near its time?",
        "the latency of copies": "That is a twentieth of its cycles. Which part is the largest?",
        "instructions": "Is the core busy, or does it wait? Look at *time goes* once more, and at the slots.",
        "larger blocks": "It hardly waits for copies. What does it wait for, and does a block's size change that?",
        "fewer bytes": "It hardly waits for copies. What does it wait for?",
        "a cheaper operation": "The slots are nearly empty, so it has little to do. What does the core do meanwhile?",
    },
}
NEXT = "go through the lesson's four questions in their order, each with its figures."


def _pair(patient: str) -> tuple[Choose, Choose]:
    bound, cure = RIGHT[patient]
    said = WRONG[patient]
    return (
        Choose(
            options=BINDS,
            right=bound,
            wrong={option: said[option] for option in BINDS if option != bound},
            why="that is what it waits for.",
            proof=lambda: patients.binds(patient),
            next=NEXT,
        ),
        Choose(
            options=patients.CURES,
            right=cure,
            wrong={option: said[option] for option in patients.CURES if option != cure},
            why="that is what takes the wait away.",
            proof=lambda: patients.best_cure(patient),
            next=NEXT,
        ),
    )


EXERCISE = Exercise(
    id="02.6",
    title="Read three reports",
    kind="several",
    defines="read",
    asks=Several(parts={patient: _pair(patient) for patient in RIGHT}, why="one kernel, three reasons, three cures."),
    hints=(
        "First two times: the cycles at 1.5 in a nanosecond, the bytes at 820. If the cycles are longer, *time goes* "
        "says where they go.",
        "DMA wait is waiting for copies: of their latency, unless HBM binds. XLU is waiting for the XLU's answers.",
        "Bandwidth: only fewer bytes help. Latency of copies: fewer, larger ones. Latency of a unit: more at a time.",
    ),
    points=3,
)
