"""Six slices: free, more expensive, or refused."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.several import Several
from course_lib.lessons.lesson_06.slices import EXPENSIVE, FREE, REFUSED, verdict

RIGHT = {"A": FREE, "B": EXPENSIVE, "C": REFUSED, "D": FREE, "E": REFUSED, "F": EXPENSIVE}
WRONG = {
    "A": {
        EXPENSIVE: "In a float32 ref that is 128 wide, each row directly follows the one before. Does a load of 8 rows "
        "care where it begins?",
        REFUSED: "5 is written in the program, so nothing has to be proved.",
    },
    "B": {
        FREE: "Element 100 lies in lane 100 and has to get to lane 0. Which unit moves it?",
        REFUSED: "100 is written in the program, so the compiler knows how far to rotate.",
    },
    "C": {
        FREE: "i may be odd, and two bfloat16 rows share a sublane. What can the compiler prove about i?",
        EXPENSIVE: "It would be if the compiler knew i. What can it prove about i?",
    },
    "D": {
        EXPENSIVE: "Whatever i is, 128 * i is a multiple of the number at which registers begin. Which number is that?",
        REFUSED: "128 * i is written in a way that proves it to be a multiple of 128.",
    },
    "E": {
        FREE: "4 * i is a multiple of 4, but is it always a multiple of 8? The ref is 256 wide.",
        EXPENSIVE: "The compiler does not write two versions of one load. What can it prove about 4 * i?",
    },
    "F": {
        FREE: "Four int8 rows share a sublane. Is row 3 the first of four?",
        REFUSED: "3 is written in the program, so nothing has to be proved.",
    },
}


def _asked(name: str) -> Choose:
    return Choose(
        options=(FREE, EXPENSIVE, REFUSED),
        right=RIGHT[name],
        wrong=WRONG[name],
        why="that is the compiler's verdict.",
        proof=lambda: verdict(name),
        next="check whether the slice begins where a tile begins and, if not, whether its start is known at all.",
    )


EXERCISE = Exercise(
    id="06.3",
    title="Choose: where a slice may begin",
    kind="several",
    defines="slices",
    asks=Several(parts={name: _asked(name) for name in RIGHT}, why="these are the compiler's verdicts."),
    hints=(
        "The compiler only refuses a start that it does not know and about which it cannot prove enough.",
        "In memory a tile of float32 or bfloat16 has 8 rows, and one of int8 has 32. A bfloat16 register holds two "
        "such tiles, and a load may begin at either. Along the lanes, tiles begin at multiples of 128.",
        "In a float32 ref that is 128 wide, each row directly follows the one before. And is 4 * i a multiple of 8?",
    ),
    points=1,
)
