"""A rough estimate of the work of simulating a function, used only to choose what to simulate."""

import dataclasses

from course_lib import chips, cost, grid
from course_lib.compiler.simulating import rewrite

# Elements per cycle that plain kernels reach; the VPU and the EUP could do four times and twice that.
_VECTOR, _TRANSCENDENTAL = 1024, 512
_PER_STEP = 130  # bundles that the pipeline itself issues at each grid step


def kernel_bundles(call: grid.Call, chip: chips.Chip) -> int | None:
    """Estimate the bundles that one run of a kernel issues; None if unknown. Waiting costs the simulator nothing."""
    try:
        work = cost.kernel_flops(once(call))
    except grid.UnreadableCall:
        return None
    return round(_bundles(work, chip) + _PER_STEP * call.steps)


def once(call: grid.Call) -> grid.Call:
    """Return one run of a kernel that a loop may run often; the same object if possible, as it is a cache key."""
    return call if call.times == 1 else dataclasses.replace(call, times=1)


def other_bundles(walk: grid.Walk, chip: chips.Chip) -> int:
    """Estimate the bundles of everything around the kernels; the simulator runs the body of XLA's loops once."""
    around = grid.Walk(calls=(), jaxpr=_loops_once(walk.jaxpr))
    return round(_bundles(cost.flops(around), chip))


def _loops_once(jaxpr):
    def once(eqn):
        if eqn.primitive.name != "scan":
            return eqn if eqn.primitive.name in grid.KERNELS else None
        return eqn.replace(params=eqn.params | {"length": 1, "jaxpr": _loops_once(eqn.params["jaxpr"])})

    return rewrite.equations(jaxpr, once)


def _bundles(work: cost.Work, chip: chips.Chip) -> float:
    mxu = work.mxu / (chip.mxus * chip.mxu_size**2 * 2)
    return mxu + work.vector / _VECTOR + work.transcendental / _TRANSCENDENTAL
