"""The assembly of a Report from what the compiler, its simulator and the traced function say."""

import dataclasses

from course_lib import chips, cost, grid
from course_lib.compiler import around, naming, ops
from course_lib.compiler.dumps import bundles, hlo
from course_lib.compiler.report import Op, Report
from course_lib.compiler.simulating import simulation
from course_lib.compiler.simulating.simulation import Simulation

_MUCH = 0.1  # of the cycles
_UNSURE_XLA = (
    "much of this is XLA's own code, most of it not a matmul. The simulator has not been checked against published "
    "times for such code, and for some of it, such as a layer norm on a v5p, it gives no cycles at all. A smaller "
    "figure does not mean that a kernel is faster."
)


def report(
    walk: grid.Walk | None, answer: dict, simulated: Simulation, chip: chips.Chip, *, jaxpr, notes: tuple, **facts
) -> Report:
    """Build the Report of a function that compiles. ``answer`` is the worker's; ``facts`` are name and versions."""
    said, module = answer["dump"], hlo.read(answer["hlo"])
    rows = ops.rows(module, simulated.cycles, walk, chip)
    names = naming.ops(module, jaxpr)
    pieces = naming.allocations(said.vmem, module, walk)
    flops, doubt = _flops(walk)
    doubt = (*doubt, *_unsure_xla(walk, rows))
    untimed = _untimed(module, simulated)
    return Report(
        chip=chip.name,
        ok=True,
        cycles=None if untimed else ops.cycles(rows),
        seconds=None if untimed else ops.seconds(rows, chip),
        hbm_bytes=ops.hbm_bytes(rows),
        flops=flops,
        vmem_bytes=_largest(said.vmem),
        vmem_limit=_vmem_limit(jaxpr, chip),
        vmem=_renamed(pieces, names, "op"),
        code_bytes=answer["code_bytes"],
        hlo=answer["hlo"],
        time_split={} if untimed else simulation.time_split(simulated, module),
        steps=None if untimed else _steps(walk, rows),
        ops=_renamed(rows, names, "name"),
        extrapolation=max(simulated.lines.values(), key=lambda line: line.cycles, default=None),
        notes=(
            *notes,
            *doubt,
            *_doubts(untimed, simulated, chip),
            *_lines(simulated),
            *_counted_once(module),
            *around.notes(module, rows, walk),
        ),
        **_program(said.programs, names),
        **facts,
    )


def vmem_wanted(walk: grid.Walk | None, jaxpr, chip: chips.Chip) -> dict:
    """Return the VMEM that a kernel that did not compile would need, by our own count; {} if it is within the limit."""
    limit, pieces = _vmem_limit(jaxpr, chip), tuple(cost.vmem(walk)) if walk is not None else ()
    wanted = _largest(pieces)
    if wanted is None or wanted <= limit:
        return {}
    return {"vmem": pieces, "vmem_bytes": wanted, "vmem_limit": limit}


def _flops(walk: grid.Walk | None) -> tuple[int | None, tuple[str, ...]]:
    """Return the operations of the whole function, and a note if they are an upper bound."""
    try:
        work = cost.flops(walk) if walk is not None else cost.Work()
    except grid.UnreadableCall as error:
        return None, (f"operations not counted: {error}",)
    return work.total or None, (f"operations: {work.doubt}.",) if work.doubt else ()


def _untimed(module: hlo.Module, simulated: Simulation) -> str:
    """Return why the program has no time: an op that runs a number of times not known, or one of 0 cycles; else ""."""
    endless = [op.name for op in module.ops if op.times is None and op.name in simulated.cycles]
    if endless:
        return f"the number of iterations of {', '.join(endless)} depends on data."
    silent = [op.name for op in module.ops if simulated.cycles.get(op.name) == 0 and op.hbm_bytes]
    return f"the simulator counts 0 for {', '.join(silent)}, which moves bytes." if silent else ""


def _doubts(untimed: str, simulated: Simulation, chip: chips.Chip) -> list[str]:
    """Say which figures are missing, and why."""
    if untimed:
        return [f"no cycles: {untimed}"]
    if simulated.cycles and chip.clock_hz is None:
        return [f"no predicted time: no two sources agree on the clock of a {chip.name}."]
    return []


def _steps(walk: grid.Walk | None, rows: tuple[Op, ...]) -> int | None:
    """Return the grid steps, including those of emit_pipelines, if all cycles belong to one run of one kernel."""
    kernels = [row for row in rows if row.cycles]
    if walk is None or len(walk.calls) != 1 or len(kernels) != 1 or kernels[0].kind != hlo.KERNEL:
        return None
    (call,) = walk.calls
    try:
        inner = sum(pipeline.steps for pipeline in grid.inner_pipelines(call))
    except grid.UnreadableCall:
        return None
    steps = inner or call.steps
    return steps if steps > 1 and call.times == 1 else None


def _unsure_xla(walk: grid.Walk | None, rows: tuple[Op, ...]) -> list[str]:
    """Return a note if much of the time is XLA's own and most of XLA's work is not matmuls."""
    xlas = sum(row.cycles or 0 for row in rows if row.kind != hlo.KERNEL)
    if walk is None or xlas <= _MUCH * sum(row.cycles or 0 for row in rows):
        return []
    around = cost.flops(grid.Walk(calls=(), jaxpr=walk.jaxpr))
    return [] if 2 * around.mxu > around.total else [_UNSURE_XLA]


def _lines(simulated: Simulation) -> list[str]:
    """Return a note if several kernels are extrapolated but only one line is shown."""
    if len(simulated.lines) < 2:
        return []
    return [f"the cycles of {len(simulated.lines)} kernels come from such lines; the report shows that of the longest."]


def _counted_once(module: hlo.Module) -> list[str]:
    """Return a note if XLA may read an array more than once, and we cannot tell how often."""
    if not any(op.reads_again for op in module.ops):
        return []
    return ["HBM bytes of XLA's matmul: each array is counted once, but XLA may read some more often."]


def _renamed(rows: tuple, names: dict[str, str], field: str) -> tuple:
    """Replace the op's name in ``field`` of each row by the learner's name for it."""
    return tuple(
        dataclasses.replace(row, **{field: names[old]}) if (old := getattr(row, field)) in names else row
        for row in rows
    )


def _program(by_op: dict[str, bundles.Program], names: dict[str, str]) -> dict:
    """Return the fields of the Report that describe its VLIW code."""
    programs = by_op.values()
    listing = _renamed(tuple(bundle for program in programs for bundle in program.listing), names, "op")
    if not listing:
        return {}
    offered = {unit: n for program in programs for unit, n in program.offered.items()}
    used = {unit: sum(program.used.get(unit, 0) for program in programs) for unit in offered}
    return {
        "bundles": len(listing),
        "slots": {unit: used[unit] / (n * len(listing)) for unit, n in offered.items()},
        "spills": sum(program.spills for program in programs),
        "fills": sum(program.fills for program in programs),
        "listing": listing,
    }


def _largest(vmem: tuple[cost.Allocation, ...]) -> int | None:
    """Return the VMEM of the op that needs most; ops run one after another."""
    sizes: dict[str, int] = {}
    for piece in vmem:
        sizes[piece.op] = sizes.get(piece.op, 0) + piece.bytes
    return max(sizes.values(), default=None)


def _vmem_limit(jaxpr, chip: chips.Chip) -> int:
    """Return the VMEM that a kernel may use: the largest limit that a kernel asks for, else the chip's default."""
    asked = [getattr(e.params.get("compiler_params"), "vmem_limit_bytes", None) for e in grid.pallas_calls(jaxpr.jaxpr)]
    return max((min(n or chip.scoped_vmem_bytes, chip.vmem_bytes) for n in asked), default=chip.scoped_vmem_bytes)
