"""Two reasons for the order of a grid, in words."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.explain import Explain

EXERCISE = Exercise(
    id="04.10",
    title="Explain: two reasons for an order",
    kind="explain",
    defines="why",
    asks=Explain(
        model="The first reason is to be right: all steps that visit one output block must follow one another, because "
        "a block that is left goes back to HBM and is not fetched again. So the axes that choose the output block "
        "come first, and the reduction comes last. The second reason is to be fast: a block whose index does not "
        "change is not copied again. So the axes that the most expensive operand does not use come last, as far as "
        "the first rule leaves a choice.",
        look_for=(
            "that the steps of an output block are consecutive, because a block that was left is not fetched again",
            "that the copy of an input is skipped while its block index stays the same",
            "that the first reason is about right and wrong, and the second about bytes",
        ),
    ),
    hints=(
        "One reason concerns the outputs, the other the inputs.",
        "What happens to an output block when the grid moves on to another one? What happens to an input block while "
        "its index stays the same?",
        "Write one sentence about the reduction axis, one about the operand that costs most, and one about which rule "
        "comes first.",
    ),
    points=0,
)
