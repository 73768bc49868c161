"""Loops that are unrolled by a factor that does not divide their number of iterations."""

from course_lib import grid
from course_lib.errors import Explanation


def uneven(walk: grid.Walk) -> Explanation | None:
    """Explain a crash of the compiler by the first such loop in a kernel: libtpu 0.0.48 ends with SIGSEGV on each."""
    for eqn in (eqn for call in walk.calls for eqn in grid.equations(call.kernel)):
        if eqn.primitive.name != "scan" or not (rest := eqn.params["length"] % eqn.params["unroll"]):
            continue
        turns, unroll = eqn.params["length"], eqn.params["unroll"]
        left = "1 iteration" if rest == 1 else f"{rest} iterations"
        divisors = [str(n) for n in range(1, turns) if turns % n == 0]
        return Explanation(
            name="uneven-unroll",
            what=f"The compiler crashed on this kernel. A loop in it has {turns} iterations and unroll={unroll}, which "
            f"leaves {left} over, and the compiler crashes on such loops.",
            next=f"choose an unroll that divides {turns}: {', '.join(divisors)}; or replace the loop with one "
            "operation on all rows.",
        )
    return None
