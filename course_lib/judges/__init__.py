"""Four judges of a kernel: its values, the TPU simulator, two racing cores, the real v5e compiler.

No single judge sees every bug, so ``judge`` asks them in that order and stops at the first that refuses:

numbers     the plain interpreter beside the reference function: are the values right, does a kernel compute them,
            are the inputs left alone?
simulator   JAX's TPU simulator: memory that starts as NaN, the real grid order, blocks outside the array, output
            blocks that the grid leaves and revisits
races       the simulator with two cores and a race detector
compiler    libtpu for a v5e: legal blocks, enough VMEM, operations that the chip has

On request: ``budget_judge`` (what a kernel may cost) and ``device_judge`` (the chip itself, if there is one).

``judge_chips`` judges kernels that copy to other chips: their protocol, their values, whether they compile for a
topology, and a predicted (model) time. ``schedule_chips`` returns what that time consists of.

``judge_sparse_core`` judges kernels on SparseCores: their protocol, their values, whether they compile. It counts the
bytes that they move, as ``sparse_core_traffic`` does.

``judge_gpu`` asks three judges about a kernel for a GPU, and needs no GPU either.

Every judge takes ``(fn, reference, *args)`` with concrete arrays and returns one Verdict. ``JUDGES`` maps the names of
the four to functions of a ``Trial``, which computes what they share once.
"""

from course_lib.judges.block_map import BlockMap
from course_lib.judges.four_judges import JUDGES, NAMES, asked, judge
from course_lib.judges.gpu.judge_gpu import judge_gpu
from course_lib.judges.gradient import Gradient, judge_gradient
from course_lib.judges.many_chips.judge_chips import judge_chips
from course_lib.judges.many_chips.mesh import Mesh
from course_lib.judges.many_chips.schedule import Schedule, schedule_chips
from course_lib.judges.reading.around_kernels import arithmetic_around, arithmetic_in
from course_lib.judges.running.arguments import drawn
from course_lib.judges.slips.slip import Slip
from course_lib.judges.sparse_core.judge_sparse_core import judge_sparse_core, sparse_core_traffic
from course_lib.judges.sparse_core.traffic import Traffic
from course_lib.judges.tolerance.expected import Expected, close, expected, right
from course_lib.judges.tpu.budget import Budget, budget_judge, most_traffic
from course_lib.judges.tpu.compiling import compiler_judge
from course_lib.judges.tpu.device import device_judge
from course_lib.judges.tpu.numbers import numbers_judge
from course_lib.judges.tpu.races import races_judge
from course_lib.judges.tpu.simulator import simulator_judge
from course_lib.judges.trial import Trial
from course_lib.judges.verdict import Verdict
from course_lib.judges.wrong_outputs.probing import Probe

__all__ = [
    "JUDGES",
    "NAMES",
    "Gradient",
    "Probe",
    "Slip",
    "BlockMap",
    "Budget",
    "Expected",
    "Mesh",
    "Schedule",
    "Traffic",
    "Trial",
    "Verdict",
    "arithmetic_around",
    "arithmetic_in",
    "asked",
    "budget_judge",
    "close",
    "compiler_judge",
    "device_judge",
    "drawn",
    "expected",
    "judge",
    "judge_chips",
    "judge_gpu",
    "judge_gradient",
    "judge_sparse_core",
    "most_traffic",
    "numbers_judge",
    "races_judge",
    "right",
    "schedule_chips",
    "simulator_judge",
    "sparse_core_traffic",
]
