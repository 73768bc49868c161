"""Golf: the same rows in as few cycles as possible, including the copies."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.kinds.golf import CYCLES, Golf
from course_lib.lessons.lesson_02.gate import SLIPS, accepted


def _rows() -> list[tuple]:
    """Return sizes that blocks of many rows divide, because this exercise is about cycles, not edges."""
    sizes = ({"M": 512, "N": 256}, {"M": 256, "N": 128})
    return arguments(("x: f32[M,N]",), sizes, within=(-4, 4))


EXERCISE = Exercise(
    id="02.11",
    title="Golf: the same rows in the fewest cycles",
    kind="golf",
    defines="gated",
    cases=_rows,
    reference=accepted,
    slips=SLIPS,
    golf=Golf(unit=CYCLES, par=3_700),
    hints=(
        "With one block, the first copy, the work and the last copy follow one after another. What if there are two?",
        "A grid lets the copy of one block run beside the work on another. With too many blocks, each copy's latency "
        "counts again. Try 2, 4 and 8.",
        "Use rsqrt once a row, tanh for the rest as in 02.10, and blocks of half of the rows or a quarter.",
    ),
    points=3,
)
