"""Three reports: what bounds each kernel, and what to change."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.several import Several
from course_lib.lessons.lesson_02 import patients

BINDS = ("the bandwidth of HBM", "the latency of copies", "the latency of the XLU", "instructions")
RIGHT = {
    "A": ("the bandwidth of HBM", "fewer bytes"),
    "B": ("the latency of copies", "larger blocks"),
    "C": ("the latency of the XLU", "more rows per iteration"),
}
# For each patient: a sentence for each wrong answer, first the bounds, then the cures.
WRONG = {
    "A": {
        "the latency of copies": "The core does wait for copies most of the time. But which takes longer: its cycles, "
        "or its bytes at full speed? Work out both.",
        "the latency of the XLU": "Only a tenth of the cycles wait for it, and the cycles do not even set the time.",
        "instructions": "Only a fifth of the cycles issue instructions, and the cycles do not even set the time.",
        "larger blocks": "They would move the same bytes with fewer waits. How long do those bytes take at full speed?",
        "more rows per iteration": "More rows would save cycles. What sets the time here?",
        "a cheaper operation": "That would save cycles. What sets the time here?",
    },
    "B": {
        "the bandwidth of HBM": "Divide its bytes by 820 GB/s. Is the result anywhere near its time?",
        "the latency of the XLU": "The core waits for the XLU in a part of its cycles. Which part is the largest?",
        "instructions": "Issuing them takes next to nothing. Look at the line *time goes*.",
        "fewer bytes": "A step moves few bytes already, and a copy takes over a thousand cycles even if it moves none.",
        "more rows per iteration": "A block has 16 rows, and an iteration takes 16. How many more can it take?",
        "a cheaper operation": "The core waits for three quarters of the time. What does it wait for?",
    },
    "C": {
        "the bandwidth of HBM": "Divide its bytes by 820 GB/s. Is the result anywhere near its time?",
        "the latency of copies": "The core waits for copies in a twentieth of its cycles. Which part is the largest?",
        "instructions": "Is the core busy, or does it wait? Look at the line *time goes* once more, and at the slots.",
        "larger blocks": "The core hardly waits for copies. What else does it wait for? Would larger blocks help?",
        "fewer bytes": "The core hardly waits for copies. What does it wait for?",
        "a cheaper operation": "The slots are nearly empty, so there is little work. What does the core do instead?",
    },
}
NEXT = "ask the lesson's four questions in their order, and answer each with figures from the report."


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
            why="that is what shortens the time.",
            proof=lambda: patients.best_cure(patient),
            next=NEXT,
        ),
    )


EXERCISE = Exercise(
    id="02.6",
    title="Read three reports",
    kind="several",
    defines="read",
    asks=Several(
        parts={patient: _pair(patient) for patient in RIGHT},
        why="one kernel was slow for three reasons, and each has a cure of its own.",
    ),
    hints=(
        "First compute two times: the cycles at 1.5 per nanosecond, and the bytes at 820 per nanosecond. If the cycles "
        "take longer, *time goes* says where they go.",
        "DMA wait means waiting for copies, and for their latency unless HBM binds. XLU means waiting for its results.",
        "Against bandwidth, only fewer bytes help; against the latency of copies, fewer and larger ones; against the "
        "latency of a unit, more work at a time.",
    ),
    points=3,
)
