"""Two reasons for the order of a grid, in words."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.explain import Explain

EXERCISE = Exercise(
    id="04.10",
    title="Explain: two reasons for an order",
    kind="explain",
    defines="why",
    asks=Explain(
        model="To be right: all steps that visit one output block must follow one another, because a block that "
        "is left goes back to HBM and is not fetched again. So the axes that choose the output block come first "
        "and the reduction comes last. To be fast: a block whose index does not change is not copied again. So the "
        "axes that the most expensive operand does not use come last, as far as the first rule leaves a choice.",
        look_for=(
            "consecutive visits of an output block, and that a block that was left is not fetched again",
            "the skipped copy of an input whose index stands still",
            "that the first is about right and wrong, the second about bytes",
        ),
    ),
    hints=(
        "One reason has to do with outputs, the other with inputs.",
        "What happens to an output block when the grid moves on? And to an input block when it does not?",
        "One sentence on the reduction axis, one on the operand that costs most, one on which rule comes first.",
    ),
    points=0,
)
