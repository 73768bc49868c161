"""A maximum with two mistakes that no positive number shows."""

from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_11.largest import reference

EXERCISE = Exercise(
    id="11.2",
    title="Repair: the test was green",
    kind="repair",
    defines="mended",
    inputs=("x: f32[M,N]",),
    sizes=({"M": 8, "N": 256}, {"M": 16, "N": 130}, {"M": 5, "N": 300}),
    within=(-4, -1),
    reference=reference,
    hints=(
        "Which numbers does the test draw? Which has it never seen?",
        "What is the largest of three negative numbers and 0? Where does a 0 come from?",
        "Two zeros: one is where the maximum begins, one stands for the columns that do not exist. What is "
        "smaller than every "
        "number?",
    ),
    points=2,
)
