"""One row per op of what the compiler says: its entry in XLA's list, its simulated cycles, and the bytes it moves."""

from course_lib import chips, cost, grid
from course_lib.compiler import around
from course_lib.compiler.dumps import hlo
from course_lib.compiler.report import Op
from course_lib.compiler.simulating import estimate


def rows(module: hlo.Module, cycles: dict[str, int], walk: grid.Walk | None, chip: chips.Chip) -> tuple[Op, ...]:
    """Return one row for each op that takes time or moves bytes, in program order.

    ``cycles``: op -> simulated cycles of one run, identical ops together. A kernel's bytes are those that its grid
    moves, except what XLA keeps in VMEM between two ops; another op's are counted from its shapes.
    """
    found = [_row(op, cycles.get(op.name), _bytes(op, walk), chip) for op in module.ops]
    known = {op.name for op in module.ops}
    strangers = [Op(name=name, kind="other", cycles=n) for name, n in cycles.items() if name not in known]
    return tuple(op for op in found if op.cycles or op.hbm_bytes or op.kind == hlo.KERNEL) + tuple(strangers)


def seconds(ops: tuple[Op, ...], chip: chips.Chip) -> float | None:
    """Return the predicted time of all ops, one after another, but no less than all their bytes take at full speed.

    XLA copies some arrays to VMEM while other ops run (``copy-start``). Such a copy has no time of its own, but its
    bytes count in the total.
    """
    times = [op.seconds for op in ops if op.seconds is not None]
    if not times or any(op.cycles is None and op.kind == hlo.KERNEL for op in ops):
        return None
    return max(sum(times), sum(op.hbm_bytes or 0 for op in ops) / chip.program_bandwidth)


def cycles(ops: tuple[Op, ...]) -> int | None:
    """Return the cycles of all ops together; None if a kernel's cycles are not known."""
    known = [op.cycles for op in ops if op.cycles is not None]
    return sum(known) if known and not any(op.cycles is None and op.kind == hlo.KERNEL for op in ops) else None


def hbm_bytes(ops: tuple[Op, ...]) -> int | None:
    """Return the bytes that all ops together move to and from HBM; None if those of any op are not known."""
    return None if any(op.hbm_bytes is None for op in ops) else sum(op.hbm_bytes for op in ops)


def _row(op: hlo.HloOp, cycles: int | None, moved: int | None, chip: chips.Chip) -> Op:
    if op.times is None:
        cycles = moved = None
    times = op.times or 1
    cycles = None if cycles is None else cycles * times
    moved = None if moved is None else moved * times
    took = None
    if cycles is not None and chip.clock_hz:
        took = max(cycles / chip.clock_hz, (moved or 0) / chip.program_bandwidth)
    return Op(name=op.name, kind=op.kind, cycles=cycles, hbm_bytes=moved, seconds=took)


def _bytes(op: hlo.HloOp, walk: grid.Walk | None) -> int | None:
    """Return the bytes of one run; None for a kernel whose copies cannot be counted."""
    if op.kind != hlo.KERNEL:
        return op.hbm_bytes
    if walk is None or op.call is None or op.call >= len(walk.calls):
        return None
    call = estimate.once(walk.calls[op.call])
    try:
        moved = cost.traffic(grid.Walk(calls=(call,), jaxpr=walk.jaxpr))
    except grid.UnreadableCall:
        return None
    kept = around.kept_in_vmem(op, call)
    return sum(row.bytes for row in moved if row.name not in kept)
