"""``pl.multiple_of``: a promise that the compiler does not check, so it is checked here."""

from course_lib import grid
from course_lib.judges.verdict import Complaint


def complaint(walk: grid.Walk) -> Complaint | None:
    """Report the first false promise; None if every one holds whose value is known before a run.

    Grid indices, loop counters and prefetched integers are known; values in arrays are not. libtpu's program shows the
    effect of a false promise: ``12 * i``, promised to be a multiple of 8, is shifted right by three bits, and whole
    registers are loaded from there.
    """
    for call in walk.calls:
        try:
            broken = grid.broken_promise(call)
        except grid.UnreadableCall:
            continue
        if broken:
            at = f"At step {call.step(broken.step)} start" if call.steps > 1 else "Here start"
            return Complaint(
                f"pl.multiple_of(start, {broken.multiple}) is a promise that the compiler trusts. {at} is "
                f"{broken.value}, so on a chip the access may begin at "
                f"{broken.value - broken.value % broken.multiple} instead.",
                f"promise only what holds at every step. A start of {broken.multiple} * i needs no promise; otherwise "
                "read a larger part from an aligned start, and take the rows out of that value with pltpu.roll.",
            )
    return None
