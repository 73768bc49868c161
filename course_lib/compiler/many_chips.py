"""The compilation of a function whose kernels talk to other chips, for a topology that is not attached."""

import functools
import io
from collections.abc import Callable, Sequence

import jax
import numpy as np
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import AbstractDevice, AbstractMesh, AxisType, NamedSharding, PartitionSpec

from course_lib import chips, compat
from course_lib.compiler import blame, progress
from course_lib.compiler.child import service
from course_lib.compiler.report import Report
from course_lib.compiler.simulating import answers
from course_lib.compiler.tpu import Unavailable, libtpu_version, missing_libtpu, name_of, versions

_NO_CYCLES = "no cycles: the compiler's simulator does not count copies to other chips."


def compile_chips(
    fn: Callable,
    *args,
    mesh: Sequence[int],
    axes: Sequence[str],
    in_specs: Sequence[PartitionSpec] | None = None,
    topology: str = "v5e:2x2",
    time_limit_s: float | None = None,
) -> Report:
    """Compile ``jit(fn)(*args)`` for the chips of a topology with none attached, and say yes or no.

    ``fn`` calls ``jax.shard_map`` without ``mesh=``: it takes the mesh of its context, here one of shape ``mesh`` with
    the names ``axes``. ``args`` are arrays or ``jax.ShapeDtypeStruct``s, sharded by ``in_specs``; without these each
    chip has all of each. ``topology``: "v5e:2x2", "v5p:2x2x1" ..., with as many devices as the mesh. The report's
    ``hlo`` has XLA's own collectives, and there are no cycles. Raises ValueError for an unknown chip or topology, and
    Unavailable if libtpu is not installed or does not start.
    """
    chip = chips.chip(topology.partition(":")[0])
    partitions = int(np.prod(mesh))
    facts = {"name": name_of(fn), "versions": versions(), "chip": chip.name}
    try:
        module = _lowered(fn, args, tuple(mesh), tuple(axes), in_specs, chip)
    except Exception as error:  # the learner should see any error of tracing or lowering, explained
        return Report(ok=False, stage="trace", error=blame.explained(error, None), **facts)
    if libtpu_version() is None:
        raise Unavailable(missing_libtpu())
    limits = answers.Limits(seconds=time_limit_s).of(0)
    try:
        with progress.shown(f"compiling {facts['name']} for {topology}"):
            answer = service.compile_module(topology, module, simulate=False, partitions=partitions, **limits)
    except service.WorkerDied as error:
        return Report(ok=False, stage="no answer", error=blame.explained(error, None), **facts)
    if not answer["ok"] and answer["stage"] == "start" and "opology" in str(answer["error"]):
        raise ValueError(
            f'topology is {topology!r}; it must be a chip and the shape of a slice that exists. Try "v5e:2x2", '
            f'"v5e:2x4", "v6e:2x2" or "v5p:2x2x1". libtpu says: {str(answer["error"]).rpartition("ARGUMENT: ")[2]}'
        )
    if not answer["ok"] and answer["stage"] == "start":
        raise Unavailable(f"libtpu does not start on this machine: {answer['error']}")
    if not answer["ok"]:
        return Report(ok=False, stage="compile", error=blame.explained(answer["error"], None), **facts)
    return Report(ok=True, hlo=answer["hlo"], code_bytes=answer["code_bytes"], notes=(_NO_CYCLES,), **facts)


def _lowered(fn: Callable, args: tuple, mesh: tuple, axes: tuple, in_specs, chip: chips.Chip) -> bytes:
    """Return the MLIR bytecode of a function for a mesh of chips. Needs no libtpu."""
    device = AbstractDevice(device_kind=chip.device_kind, num_cores=chip.cores, platform="tpu")
    chips_of = AbstractMesh(mesh, axes, axis_types=(AxisType.Auto,) * len(axes), abstract_device=device)
    specs = in_specs or (PartitionSpec(),) * len(args)
    sharded = [
        jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=NamedSharding(chips_of, spec))
        for a, spec in zip(args, specs, strict=True)
    ]
    at_once = functools.partial(fn)  # of its own, so that nothing traced for the CPU's mesh is found again
    with (
        jax.sharding.use_abstract_mesh(chips_of),
        compat.attached(device),
        pltpu.force_tpu_interpret_mode(False),
    ):
        lowered = jax.jit(at_once).trace(*sharded).lower(lowering_platforms=("tpu",))
    buffer = io.BytesIO()
    lowered.compiler_ir("stablehlo").operation.write_bytecode(buffer)
    return buffer.getvalue()
