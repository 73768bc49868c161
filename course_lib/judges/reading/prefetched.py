"""Reads of prefetched arrays below their first element, which the simulator takes from the end."""

from course_lib import grid
from course_lib.judges.verdict import Complaint


def complaint(walk: grid.Walk) -> Complaint | None:
    """Report the first read of a prefetched array at an index below 0; None if none is known before a run.

    NumPy counts such an index from the end, and so does JAX's simulator. A chip reads the memory before the array.
    """
    for call in walk.calls:
        try:
            found = grid.read_below_zero(call) if call.scalars else None
        except grid.UnreadableCall:
            continue
        if found:
            name, index = found
            return Complaint(
                f"The kernel reads {name}[{index}]. A negative index does not count from the end there: on a chip it "
                f"reads the memory before {name}.",
                f"keep the index at 0 or above, {name}[jnp.maximum(t - 1, 0)]: both sides of `|` and `&` are computed "
                "at every step.",
            )
    return None
