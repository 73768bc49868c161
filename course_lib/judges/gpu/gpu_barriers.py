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
                "A barrier completes a second time, but the kernel has not waited for the first: "
                f"{_lines(copies)} copy to shared memory, and no plgpu.barrier_wait tells when the data is there. The "
                "next copies may overwrite what is still being read.",
                "call plgpu.barrier_wait on the copies' barrier before their data is read.",
            )
        for wait in (eqn for eqn in found if eqn.primitive.name == _WAIT):
            for_it = [eqn for eqn in copies if eqn.invars[_BARRIER] is wait.invars[0]]
            arrivals = wait.invars[0].aval.dtype.num_arrivals
            if for_it and len(for_it) > arrivals:
                return Complaint(
                    f"The barrier expects {arrivals} arrival{'s' if arrivals > 1 else ''}, but {len(for_it)} copies "
                    f"arrive on it ({_lines(for_it)}) before the kernel waits once. It completes when the first "
                    f"{'have' if arrivals > 1 else 'has'} arrived, and then again.",
                    "let num_arrivals be the number of copies that one plgpu.barrier_wait is for.",
                )
    return None


def _lines(copies: list) -> str:
    """Return "lines 14 and 15"."""
    places = [compat.place_of(eqn) for eqn in copies]
    lines = sorted({str(place[1]) for place in places if place}, key=int)
    return f"lines {' and '.join(lines)}" if lines else f"{len(copies)} lines"
