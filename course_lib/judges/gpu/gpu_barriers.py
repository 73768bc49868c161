"""Why a barrier of a Mosaic GPU kernel completes more often than the kernel waits for it, read from its code."""

import jax.extend.core

from course_lib import compat, grid
from course_lib.grid import jaxprs
from course_lib.judges.verdict import Complaint

_COPY, _WAIT = "copy_gmem_to_smem", "barrier_wait"
_BARRIER = 2  # the position of the barrier among a copy's inputs


def overrun(jaxpr: jax.extend.core.ClosedJaxpr) -> Complaint | None:
    """Report a kernel that never waits for a barrier, or one whose barrier expects fewer arrivals than copies come.

    Returns None if neither is what happened.
    """
    for kernel in grid.pallas_calls(jaxpr.jaxpr):
        found = [eqn for inner in jaxprs.inside(kernel) for eqn in jaxprs.equations(inner)]
        copies = [eqn for eqn in found if eqn.primitive.name == _COPY]
        if copies and not any(eqn.primitive.name == _WAIT for eqn in found):
            return Complaint(
                "A barrier completes a second time, but the kernel has not waited for the first: no plgpu.barrier_wait "
                f"is there for {_named(copies)}. The next ones may overwrite what is still being read.",
                "call plgpu.barrier_wait on the copies' barrier before their data is read.",
            )
        for wait in (eqn for eqn in found if eqn.primitive.name == _WAIT):
            for_it = [eqn for eqn in copies if eqn.invars[_BARRIER] is wait.invars[0]]
            arrivals = wait.invars[0].aval.dtype.num_arrivals
            if for_it and len(for_it) > arrivals:
                return Complaint(
                    f"The barrier expects {arrivals} arrival{'s' if arrivals > 1 else ''}, but {len(for_it)} arrive "
                    f"before the kernel waits once: {_named(for_it)}. It completes after the first "
                    f"{arrivals if arrivals > 1 else 'one'}, and the wait may end before the last has come.",
                    "let num_arrivals be the number of copies that one plgpu.barrier_wait is for.",
                )
    return None


def _named(copies: list) -> str:
    """Return "the copies of lines 14 and 15", without lines if nobody knows them."""
    lines = sorted({place[1] for place in map(compat.place_of, copies) if place})
    of = f" of line{'s' if len(lines) > 1 else ''} {' and '.join(map(str, lines))}" if lines else ""
    return f"the {'copies' if len(copies) > 1 else 'copy'}{of}"
