"""A ring all-gather, to the left."""

from collections.abc import Callable

from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_16 import rings


def _case() -> tuple:
    return (rings.values(0, 32, 128),)


def round_the_ring(one_device: Callable) -> tuple[str, str] | None:
    """Report the first copy that does not go to the left neighbor, or parts that the neighbor does not lack."""
    copies = rings.between(rings.events(one_device, rings.GATHERED, _case))
    for copy in copies:
        left = (copy.device - 1) % rings.DEVICES
        if copy.target.device != left:
            return (
                f"The values are right, but device {copy.device} copies to device {copy.target.device}; its left "
                f"neighbor is device {left}.",
                'copy only to device_id={"d": left}. Which rows does the right neighbor then send in each step?',
            )
    lacking = (rings.DEVICES - 1) * _case()[0].nbytes // rings.DEVICES
    if (sent := sum(copy.amount for copy in copies if copy.device == 0)) > lacking:
        return (
            f"The values are right, but device 0 sends {sent:,} bytes, and its neighbor lacks only {lacking:,}.",
            "stop after n - 1 steps: in one more, every device would send its neighbor that neighbor's own rows.",
        )
    return None


EXERCISE = Exercise(
    id="16.3",
    title="An all-gather",
    kind="write",
    defines="gathered",
    cases=lambda: [_case(), (rings.values(1, 64, 256),)],
    reference=lambda x: x,
    mesh=rings.GATHERED,
    also=(rings.own_kernel(rings.GATHERED, _case), round_the_ring),
    hints=(
        "Which rows does a device send in the first step, which in the second? Draw four devices, and what each has "
        "after each step.",
        "In step s a device passes on what it received in step s - 1: the rows of the device that is s places to its "
        "right. They go to the same place of the neighbor's result. Do the arrivals of two steps share a semaphore?",
        "part = o_ref.at[pl.ds(lax.rem(me + step, n) * rows, rows)] is both source and target. Copy your own rows "
        "there first, enter together, and give each step its own receive semaphore.",
    ),
    points=3,
)
