"""A benchmark to repair, on a simulated machine whose times are known."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.compute import Compute, Formula
from course_lib.lessons.lesson_09.machine import CACHED, ROUNDS, Machine, one_call, outside

TOLERANCE = 0.03
_MACHINES = (
    (Machine(_layer_s=1.2e-3, _kernel_s=1.5e-3, _eager_s=2.1e-3),),
    (Machine(_layer_s=0.9e-3, _kernel_s=0.7e-3, _eager_s=1.9e-3, _dispatch_s=3e-4),),
    (Machine(_layer_s=2.4e-3, _kernel_s=1.3e-3, _eager_s=3.3e-3, _compile_s=3.0),),
)
_COLD = f"The first call compiles, and your time for one call contains 1/{ROUNDS} of that compilation."
_SENT = "That is how long the host takes to dispatch a call. Who waits for the device?"
_WAITS = (
    "Your time contains a dispatch. You wait for each call before the next one is dispatched, and meanwhile the "
    "device is idle."
)
_SUM = "That is the time of a hundred calls. How long does one take?"
_TAKEN_OFF = (
    "You took off 0.1 ms for the dispatch, but on this machine it takes longer. Measure so that the time contains no "
    "dispatch, and take off nothing."
)
_AGAIN = f"You use the same batch again and again. It is in the cache, so a call takes only {CACHED:.0%} of the time."


def _slips(of: str) -> dict[str, str]:
    """Return expressions for what the usual mistakes give, for one of the two programs."""
    compiles = f"machine._compile_s / {ROUNDS}"
    return {
        "machine._dispatch_s": _SENT,
        f"machine._dispatch_s + {compiles}": _SENT,
        f"{of} + machine._dispatch_s - 1e-4": _TAKEN_OFF,
        f"{of} * {ROUNDS}": _SUM,
        f"{of} * {ROUNDS} + machine._dispatch_s": _SUM,
        f"{of} * {CACHED}": _AGAIN,
        f"{of} + machine._dispatch_s": _WAITS,
        f"{of} * {CACHED} + machine._dispatch_s": _AGAIN,
        f"{of} + {compiles}": _COLD,
        f"{of} * {CACHED} + {compiles}": _COLD,
        f"{of} + machine._dispatch_s + {compiles}": _COLD,
        f"{of} * {CACHED} + machine._dispatch_s + {compiles}": _COLD,
    }


_EAGER = "That is the layer without jit, which is three operations with round trips through HBM between them."

EXERCISE = Exercise(
    id="09.7",
    title="Repair a benchmark",
    kind="compute",
    defines="times",
    asks=Compute(
        takes=("machine",),
        results=(
            Formula(
                name="the time of the layer",
                unit="s",
                formula="machine._layer_s",
                proof=lambda machine: one_call(machine, "layer"),
                near={
                    "machine._eager_s": _EAGER,
                    f"machine._eager_s * {CACHED}": _EAGER,
                    "machine._eager_s + 3 * machine._dispatch_s": _EAGER,
                    f"machine._eager_s * {CACHED} + 3 * machine._dispatch_s": _EAGER,
                    "3 * machine._dispatch_s": "That is how long the host takes to dispatch three operations. Who "
                    "waits for the device?",
                    **_slips("machine._layer_s"),
                },
                tolerance=TOLERANCE,
            ),
            Formula(
                name="the time of the kernel",
                unit="s",
                formula="machine._kernel_s",
                proof=lambda machine: one_call(machine, "kernel"),
                near=_slips("machine._kernel_s"),
                tolerance=TOLERANCE,
            ),
        ),
        cases=_MACHINES,
        hands=outside,
        why="your times contain no compilation, no dispatch and no cached batch.",
    ),
    hints=(
        "Four things are wrong. How much of a call does the clock see if the call returns at once? What happens in the "
        "first call? Are both programs jitted? Which batch is in the cache?",
        "Before the clock starts, jit both programs, call each once and wait. In the loop, use another batch than in "
        "the previous call. After the loop, wait once before you read the clock.",
        "Jit with machine.jit(machine.layer), and warm up with fn(batches[-1]).block_until_ready(). In the loop, take "
        "y = fn(batches[n % 4]), and after it call y.block_until_ready() once, because calls finish in order.",
    ),
    points=2,
)
