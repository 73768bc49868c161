"""Four judges for a kernel: its numbers, the TPU simulator, two racing cores, the real v5e compiler.

No single judge sees every bug, so ``judge`` asks them in that order and stops at the first that refuses:

numbers     the plain interpreter against the reference function: is the arithmetic right, has a kernel
            a part in it, are the inputs left alone?
simulator   JAX's TPU simulator: memory that starts as NaN, the real grid order, blocks outside the array, output
            blocks that are left and visited again
races       the simulator with two cores and a race detector
compiler    libtpu for a v5e: legal blocks, enough VMEM, operations the chip has

Beside them: ``budget_judge`` (what a kernel may cost) and ``device_judge`` (the chip itself, where there is one).

``judge_gpu`` asks three judges about a kernel for a GPU, likewise without one.

Every judge takes ``(fn, reference, *args)`` with concrete arrays and returns one Verdict. ``JUDGES`` are the four by
name; they take a ``Trial``, in which all that they share is found out once.
"""

from course_lib.judges.arguments import drawn
from course_lib.judges.around import arithmetic_around
from course_lib.judges.block_map import BlockMap
from course_lib.judges.budget import Budget, budget_judge, most_traffic
from course_lib.judges.compiling import compiler_judge
from course_lib.judges.device import device_judge
from course_lib.judges.gpu import judge_gpu
from course_lib.judges.gradient import Gradient, judge_gradient
from course_lib.judges.numbers import numbers_judge
from course_lib.judges.probing import Probe
from course_lib.judges.simulator import races_judge, simulator_judge
from course_lib.judges.sitting import JUDGES, NAMES, asked, judge
from course_lib.judges.slips import Slip
from course_lib.judges.tolerance import Expected, close, expected, right
from course_lib.judges.trial import Trial
from course_lib.judges.verdict import Verdict

__all__ = [
    "JUDGES",
    "NAMES",
    "Gradient",
    "Probe",
    "Slip",
    "BlockMap",
    "Budget",
    "Expected",
    "Trial",
    "Verdict",
    "arithmetic_around",
    "asked",
    "budget_judge",
    "close",
    "compiler_judge",
    "device_judge",
    "drawn",
    "expected",
    "judge",
    "judge_gpu",
    "judge_gradient",
    "most_traffic",
    "numbers_judge",
    "races_judge",
    "right",
    "simulator_judge",
]
