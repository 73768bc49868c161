"""Golf: a grouped matmul of nearly even groups, in as few cycles as possible."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.golf import CYCLES, Golf
from course_lib.lessons.lesson_15 import e08_grouped_matmul as of

EXERCISE = Exercise(
    id="15.9",
    title="Golf: nearly even groups",
    kind="golf",
    defines="faster_matmul",
    cases=of.cases,
    reference=of.reference,
    slips=of.SLIPS,
    also=(of.own_kernel,),
    golf=Golf(unit=CYCLES, par=109_000, at=lambda: of.shapes(of.NEARLY_EVEN), floor=65_000),
    hints=(
        "Groups of about 512 rows end anywhere, so most visits have a few rows, or nearly all. How many rows does your "
        "kernel multiply in each visit, and in how many matmuls?",
        "A loop over chunks issues more instructions than one matmul for all rows that a group has in a tile. The size "
        "of that matmul has to be known at compile time.",
        "Use the sizes 128, 256, 384 and 512, each under a pl.when of its own. Round the first row down to a multiple "
        "of 16, and move it up if the rows would end past the tile. To go lower still, copy x by hand (lesson 5), from "
        "where a group begins.",
    ),
    points=4,
)
