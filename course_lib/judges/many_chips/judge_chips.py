"""Four judges of kernels that talk to other chips: the protocol, the numbers, the real compiler, and the clock."""

from collections.abc import Callable, Sequence

import jax
import numpy as np
from jax.sharding import PartitionSpec

from course_lib import chips, compiler, errors
from course_lib.judges.many_chips import protocol, values
from course_lib.judges.many_chips.record import Record, recorded
from course_lib.judges.many_chips.schedule import schedule
from course_lib.judges.tolerance.expected import Expected, expected
from course_lib.judges.verdict import Verdict, complained, refused, skipped


def judge_chips(
    fn: Callable,
    reference: Callable,
    *args,
    mesh: Sequence[int] = (4,),
    axes: Sequence[str] = ("d",),
    in_specs: Sequence[PartitionSpec] | None = None,
    topology: str = "v5e:2x2",
    ring: Sequence[int] | None = None,
) -> list[Verdict]:
    """Return the verdicts on a function whose kernels copy to other devices, up to the first that refuses.

    ``fn(*args)`` calls ``jax.shard_map`` once, without ``mesh=``, over the axes ``axes`` of a mesh of shape ``mesh``,
    and runs one kernel there. ``reference(*args)`` returns the same arrays in plain JAX. ``args`` are concrete arrays
    of the whole mesh; ``in_specs``, as in the shard_map, say how they lie on the chips of ``topology``, which has as
    many devices as the mesh. ``ring``: the numbers of the devices in the order in which links join them, for the
    schedule. The judges:

    protocol    whether in every run all devices have entered before anybody copies to them, every wait ends, nothing
                is read while it is written, and all semaphores end at zero: decided on one simulated run
    numbers     the values, in the simulator, with copies made when they are waited for and when they are started
    compiler    libtpu for the topology
    schedule    the predicted (model) time, with links of the published bandwidth; it refuses nothing

    Needs as many CPU devices as the mesh: ``jax.config.update("jax_num_cpu_devices", 8)`` before the first array is
    made. With fewer, protocol and numbers are skipped. Raises ValueError for a mesh whose axes have no names, an
    unknown chip, a ring that is not all devices, and a reference that does not run.
    """
    mesh, axes, chip = tuple(mesh), tuple(axes), topology.partition(":")[0]
    if len(mesh) != len(axes) or not all(isinstance(n, int) and n > 0 for n in mesh):
        raise ValueError(f"mesh is {mesh} and axes is {axes}; they must be sizes, 1 or more, and one name for each.")
    target = chips.chip(chip)
    devices = int(np.prod(mesh))
    if ring is not None and sorted(ring) != list(range(devices)):
        raise ValueError(
            f"ring is {ring}; it must be the numbers 0 to {devices - 1} in the order in which the devices are linked."
        )
    try:
        want = expected(reference, args)
    except Exception as error:
        raise ValueError(f"The reference does not run: {type(error).__name__}: {error}") from error
    verdicts, seen = _run(fn, args, want, mesh, axes, target)
    if verdicts[-1].passed is not False:
        verdicts.append(_compiled(fn, args, mesh, axes, in_specs, topology))
    if seen is not None and verdicts[-1].passed is not False:
        verdicts.append(_timed(seen, chip, ring))
    return verdicts


def _run(fn, args: tuple, want: list[Expected], mesh, axes, chip) -> tuple[list[Verdict], Record | None]:
    """Return the verdicts on the protocol and the numbers, and the record if both pass."""
    devices, there = int(np.prod(mesh)), len(jax.devices("cpu"))
    if there < devices:
        why = f"The mesh has {devices} devices, but this process has {there} CPU devices."
        next = f'jax.config.update("jax_num_cpu_devices", {max(8, devices)}) before the first array is made.'
        return [skipped("protocol", why, next), skipped("numbers", why, next)], None
    try:
        seen = recorded(fn, args, mesh, axes, chip, "on_wait")
    except Exception as error:
        return [refused("protocol", errors.explain(error), ran=False)], None
    # A device that stops at such an error leaves others waiting, which would only hide it.
    if seen.error is not None and (not seen.waiting() or "Out-of-bounds" in str(seen.error)):
        return [refused("protocol", errors.explain(seen.error))], None
    if complaint := protocol.complaint(seen):
        return [complained("protocol", complaint)], None
    passed = Verdict(judge="protocol", passed=True)
    if complaint := values.difference(jax.tree.leaves(seen.result), want):
        return [passed, complained("numbers", complaint)], None
    eager = recorded(fn, args, mesh, axes, chip, "eager")
    if eager.error is not None:
        return [passed, refused("numbers", errors.explain(eager.error))], None
    if complaint := values.difference(jax.tree.leaves(eager.result), want):
        what = f"If each copy happens as soon as it is started: {complaint.what}"
        return [passed, complained("numbers", complaint._replace(what=what))], None
    return [passed, Verdict(judge="numbers", passed=True)], seen


def _compiled(fn, args: tuple, mesh, axes, in_specs, topology: str) -> Verdict:
    try:
        report = compiler.compile_chips(fn, *args, mesh=mesh, axes=axes, in_specs=in_specs, topology=topology)
    except compiler.Unavailable as error:
        return skipped("compiler", str(error))
    if not report.ok:
        return refused("compiler", report.error)
    return Verdict(judge="compiler", passed=True, message=f"Assumes {topology}.", report=report)


def _timed(seen: Record, chip: str, ring: Sequence[int] | None) -> Verdict:
    if chips.links(chip).link_bandwidth is None:
        return skipped("schedule", f"The bandwidth of one link of a {chip} is not published.")
    found = schedule(seen, chip, ring)
    lane, share = found.busiest()
    if not lane:
        return Verdict(judge="schedule", passed=True, message="Nothing is copied between devices.")
    text = f"{found.seconds * 1e6:.2f} us, predicted (model); the busiest is {lane}, {share:.0%} of the time."
    return Verdict(judge="schedule", passed=True, message=text)
