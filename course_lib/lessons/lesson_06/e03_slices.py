"""Six slices: free, more expensive, or refused."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.several import Several
from course_lib.lessons.lesson_06.slices import DEARER, FREE, REFUSED, verdict

RIGHT = {"A": FREE, "B": DEARER, "C": REFUSED, "D": FREE, "E": REFUSED, "F": DEARER}
WRONG = {
    "A": {
        DEARER: "In a float32 Ref that is 128 wide each row lies right behind the one before. Does a load of 8 rows "
        "care where it begins?",
        REFUSED: "5 is written in the program: nothing has to be proved.",
    },
    "B": {
        FREE: "Number 100 lies in lane 100, and has to get to lane 0. Which unit moves it?",
        REFUSED: "100 is written in the program: the compiler knows what to rotate.",
    },
    "C": {
        FREE: "i may be odd, and two rows of bfloat16 share each lane. What can the compiler prove of i?",
        DEARER: "It would be, if the compiler knew i. What can it prove of i?",
    },
    "D": {
        DEARER: "Of which number is 128 * i a multiple, whatever i is? That is where registers begin.",
        REFUSED: "128 * i is proved to be a multiple of 128 by the way it is written.",
    },
    "E": {
        FREE: "4 * i is a multiple of 4. Of 8 as well, whatever i is? The Ref is 256 wide.",
        DEARER: "The compiler does not write both ways for one load. What can it prove of 4 * i?",
    },
    "F": {
        FREE: "Four rows of int8 share each lane. Is row 3 the first of four?",
        REFUSED: "3 is written in the program: nothing has to be proved.",
    },
}


def _asked(name: str) -> Choose:
    return Choose(
        options=(FREE, DEARER, REFUSED),
        right=RIGHT[name],
        wrong=WRONG[name],
        why="so the compiler says.",
        proof=lambda: verdict(name),
        next="does it begin where a tile begins? If not, is the start known at all?",
    )


EXERCISE = Exercise(
    id="06.3",
    title="Choose: where a slice may begin",
    kind="several",
    defines="slices",
    asks=Several(parts={name: _asked(name) for name in RIGHT}, why="as the compiler has it."),
    hints=(
        "Refused are only starts that the compiler does not know and of which it cannot prove enough.",
        "In memory a tile of float32 or bfloat16 has 8 rows, and one of int8 has 32. A register of bfloat16 holds two "
        "such tiles, and a load may begin at either. Lanes begin at multiples of 128.",
        "A float32 Ref that is 128 wide has each row right behind the one before. And is 4 * i a multiple of 8?",
    ),
    points=1,
)
