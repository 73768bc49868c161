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
_COLD = f"The first call compiles, and a share of that is in each of the {ROUNDS}."
_SENT = "That is how long the host takes to send a call off. Who waits for the device?"
_WAITS = (
    "A dispatch is in it: each call is waited for before the next is sent off, and the device stands still meanwhile."
)
_SUM = "That is a hundred calls. How long is one?"
_TAKEN_OFF = (
    "0.1 ms were taken off for the dispatch. This machine's takes longer: let none be in it, and take off nothing."
)
_AGAIN = f"The same batch again and again: the cache holds it, and the machine takes {CACHED:.0%} of the time."


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


_EAGER = "That is the layer without jit: three operations, and what lies between them goes to memory and back."

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
                    "3 * machine._dispatch_s": "That is how long the host takes to send three operations off. Who "
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
        why="no compilation is in it, no dispatch, and nothing that a cache knew.",
    ),
    hints=(
        "Four things are wrong. What does the clock see of a call that returns at once? What happens in the first "
        "call? Are both of them compiled? What does the cache know?",
        "Before the clock starts: jit both, call once, and wait. In the loop another batch than the call before. "
        "After the loop, and before the clock stops: wait.",
        "machine.jit(machine.layer); fn(batches[-1]).block_until_ready() as a warm-up; y = fn(batches[n % 4]) in the "
        "loop, and y.block_until_ready() once behind it: the last is finished when all are.",
    ),
    points=2,
)
