"""What a Mosaic GPU kernel multiplies, and copies for wgmma, read from its code.

It finds jnp.dot, arrays narrower than a unit that TMA copies, and loops whose next copies overwrite what wgmma still
reads. The simulator shows none of them: it runs jnp.dot, copies any array, and takes wgmma for something that is done
at once.
"""

from collections.abc import Iterator

import jax

from course_lib import compat, grid
from course_lib.grid import jaxprs
from course_lib.judges.verdict import Complaint

_UNIT_BYTES = 128  # of a row, in the layout that wgmma reads from shared memory


def by_dot(jaxpr: jax.extend.core.ClosedJaxpr) -> Complaint | None:
    """Report a matmul by jnp.dot, which Mosaic GPU has no instructions for."""
    for kernel in grid.pallas_calls(jaxpr.jaxpr):
        for eqn in (eqn for inner in jaxprs.inside(kernel) for eqn in jaxprs.equations(inner)):
            if eqn.primitive.name == "dot_general":
                return Complaint(
                    f"In {compat.line_of(eqn) or 'the kernel'}, jnp.dot or @ multiplies values in registers, and "
                    "Mosaic GPU has no such operation.",
                    "multiply with plgpu.wgmma: it adds to a plgpu.ACC, and takes the refs in shared memory as they "
                    "are.",
                )
    return None


def narrow(jaxpr: jax.extend.core.ClosedJaxpr) -> Complaint | None:
    """Report an array narrower than 128 bytes, and than the block, that TMA copies into memory which wgmma reads.

    JAX 0.11.2 lowers such a copy, the simulator finds it right, and an H100 computed wrong matmuls.
    """
    for kernel in grid.pallas_calls(jaxpr.jaxpr):
        equations = [eqn for inner in jaxprs.inside(kernel) for eqn in jaxprs.equations(inner)]
        operands = {_aval(v) for eqn in equations if eqn.primitive.name == "wgmma_ref" for v in eqn.invars[1:3]}
        for eqn in equations:
            if eqn.primitive.name != "copy_gmem_to_smem" or _aval(eqn.invars[1]) not in operands:
                continue
            (shape, dtype), (block, _) = map(_aval, eqn.invars[:2])
            if shape and shape[-1] < block[-1] and shape[-1] * dtype.itemsize < _UNIT_BYTES:
                columns = _UNIT_BYTES // dtype.itemsize
                return Complaint(
                    f"TMA copies an array of shape {shape} for wgmma, whose rows have {shape[-1]} elements of "
                    f"{dtype}. It copies units of {columns} columns; with a narrower array an H100 computed wrong "
                    "matmuls, which no simulator shows.",
                    f"pad the array to {columns} columns, or multiply it in plain JAX.",
                )
    return None


def overwritten(jaxpr: jax.extend.core.ClosedJaxpr) -> Complaint | None:
    """Report a loop that copies to shared memory from which wgmma multiplies, and does not wait for wgmma before."""
    for kernel in grid.pallas_calls(jaxpr.jaxpr):
        for body in (body for inner in jaxprs.inside(kernel) for body in _loop_bodies(inner)):
            waits = [_wait_between(body.eqns, read, copied) for copied, read in _reused(body.eqns)]
            if None in waits:
                return Complaint(
                    "The next step of a loop copies to shared memory that wgmma may still be reading: plgpu.wgmma only "
                    "starts the multiplication. The simulator finishes it at once, but a GPU may compute garbage.",
                    "call plgpu.wgmma_wait(0) behind plgpu.wgmma, before anything is copied there again.",
                )
            if most := max(waits, default=0):
                return Complaint(
                    "The next step of a loop copies to shared memory that wgmma may still be reading: "
                    f"plgpu.wgmma_wait({most}) allows {most} multiplications in flight, and there is only one buffer. "
                    "The simulator finishes them at once, but a GPU may compute garbage.",
                    "call plgpu.wgmma_wait(0), or give each multiplication in flight a buffer of its own.",
                )
    return None


def _reused(equations: list) -> Iterator[tuple[int, int]]:
    """Yield (place of a copy to shared memory, place of a wgmma that reads there), for those in one loop body."""
    for copied, copy in enumerate(equations):
        if copy.primitive.name == "copy_gmem_to_smem" and jaxprs.is_variable(copy.invars[1]):
            for read, eqn in enumerate(equations):
                if eqn.primitive.name == "wgmma_ref" and copy.invars[1] in eqn.invars[1:]:
                    yield copied, read


def _wait_between(equations: list, read: int, copied: int) -> int | None:
    """Return how many multiplications may still read a copy's target when the copy starts; None if nothing waits.

    The body runs again and again, so what comes after the wgmma at ``read`` and before the copy at ``copied`` may be in
    the next round. A wait for all but n lets this wgmma go on unless n others have started since. Where the copy goes
    to a slot of the buffer, any wait counts as enough.
    """
    before = equations[read + 1 : copied] if read < copied else equations[read + 1 :] + equations[:copied]
    started, least = 0, None
    slots = equations[copied].params["dst_transforms_treedef"].num_nodes > 1
    for eqn in before:
        started += eqn.primitive.name == "wgmma_ref"
        if eqn.primitive.name == "wgmma_accumulator_deref_p":
            return 0
        if eqn.primitive.name == "wgmma_wait":
            left = 0 if slots else max(0, eqn.params["n"] - started)
            least = left if least is None else min(least, left)
    return least


def _loop_bodies(jaxpr) -> Iterator:
    """Yield the bodies of all loops of a kernel."""
    for eqn in jaxprs.equations(jaxpr):
        if eqn.primitive.name in ("scan", "while"):
            yield from jaxprs.bodies(eqn)


def _aval(v) -> tuple:
    aval = getattr(v, "aval", None)
    return getattr(aval, "shape", ()), getattr(aval, "dtype", None)
