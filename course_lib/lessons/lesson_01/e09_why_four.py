"""Explain in words why there are four judges."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.explain import Explain

EXERCISE = Exercise(
    id="01.9",
    title="Explain: why four judges?",
    kind="explain",
    defines="why",
    asks=Explain(
        model="Each judge looks at something that the others cannot see. The plain interpreter gets the right numbers "
        "even if a block is illegal or an output block is lost on its way. The simulator and the two cores see order "
        "and memory, but they do not know the rules of the hardware. The compiler knows those rules, but it never "
        "looks at a number. So a kernel is right only if all of them agree.",
        look_for=(
            "right numbers do not prove that a chip accepts the kernel (a block of 100)",
            "a kernel that compiles may compute nonsense (an index map that counts elements)",
            "an example from the lesson that one judge misses and another catches",
        ),
    ),
    hints=(
        "Think of the kernel at the top of the lesson. Who had no objection to it?",
        "Then think of the opposite case. Which kernel did the compiler accept, although its numbers were wrong?",
        "Write one sentence on what each judge looks at, and one on what it cannot see.",
    ),
    points=0,
)
