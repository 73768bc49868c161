"""Why four judges, in words."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.explain import Explain

EXERCISE = Exercise(
    id="01.9",
    title="Explain: why four judges?",
    kind="explain",
    defines="why",
    asks=Explain(
        model="Each judge looks at something the others cannot see. The numbers come out right in the plain "
        "interpreter even where a block is illegal or an output block is lost on its way; the simulator and the "
        "two cores see order and memory, and know no rules of the hardware; the compiler knows those rules, and "
        "never looks at a number. So a kernel is right only if all of them agree.",
        look_for=(
            "right numbers do not prove that a chip takes the kernel (a block of 100)",
            "a kernel that compiles may compute nonsense (an index map that counts elements)",
            "an example from the lesson that one judge misses and another sees",
        ),
    ),
    hints=(
        "Think of the kernel at the top of the lesson: who had no objection to it?",
        "Now the other way round: which kernel did the compiler take, though its numbers were wrong?",
        "One sentence on what each judge looks at, and one on what it cannot see.",
    ),
    points=0,
)
