"""A reduce-scatter whose halves travel both ways, from an empty cell."""

from collections.abc import Callable

import jax
from jax.sharding import PartitionSpec as P

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_16 import rings

MESH = judges.Mesh(in_specs=(P(None, "d"),), out_specs=P("d"))
SHARE, SHARD = 0.6, 4 * rings.MI
SUM = 16 * 128 * 4  # bytes of the sum that a device keeps of _scored()


def _scored() -> tuple:
    return (rings.values(2, 64, 512),)


def _own_rows(x: jax.Array) -> jax.Array:
    """Return the sum of what the devices have, x [n * M, n * K], in which each has K columns."""
    return x.reshape(x.shape[0], rings.DEVICES, -1).sum(axis=1)


def two_buffers(one_device: Callable) -> tuple[str, str] | None:
    """Report a direction whose copies arrive at device 0 in more room than two halves of a sum take."""
    copies = rings.between(rings.events(one_device, MESH, _scored))
    for sender in (rings.DEVICES - 1, 1):
        arriving = [copy for copy in copies if (copy.device, copy.target.device) == (sender, 0)]
        taken = sum({(copy.target, repr(copy.target_part)): copy.amount for copy in arriving}.values())
        if taken > SUM:
            return (
                f"The values are right, but device 0 receives from device {sender} in {taken:,} bytes of VMEM; two "
                f"receive buffers have {SUM:,}.",
                "alternate between two buffers per direction, and make sure that a buffer is free before anybody sends "
                "to it.",
            )
    return None


EXERCISE = Exercise(
    id="16.9",
    title="A reduce-scatter, both ways",
    kind="write",
    defines="scattered",
    cases=lambda: [(rings.values(0, 64, 512),), (rings.values(1, 128, 1024),)],
    reference=_own_rows,
    mesh=MESH,
    also=(rings.own_kernel(MESH, _scored), rings.at_most(SHARE, SHARD, MESH, _scored, SUM), two_buffers),
    hints=(
        "Follow one sum. It begins at the neighbor after its owner, passes every device, each of which adds its rows "
        "for that owner, and ends at the owner. In which step does device me add the rows of which owner?",
        "Write it one way first, with the lesson's signals for a free buffer. On the way to the right, step s adds the "
        "rows for lax.rem(me + (s + 1) * (n - 1), n), and to the left those for lax.rem(me + s + 1, n).",
        "Each way has a sum, two buffers and semaphores of its own. In each step start both copies, and then wait for "
        "both. Then you need no signal for a free buffer, because what has arrived from a neighbor in step s - 1 was "
        "sent after that neighbor had read its buffers of step s - 2.",
    ),
    points=5,
)
