"""What a function demands of a chip: arithmetic and bytes for each grid step of each kernel, and XLA's fusions.

XLA is assumed to fuse everything around the kernels: an elementwise operation, a reduction or a reshape runs inside
whatever makes or uses its operands. Only these pass through HBM: the arguments, the results, what kernels read and
write, and the result of one matmul that another one reads.
"""

import collections
import dataclasses
from collections.abc import Callable

import numpy as np

from course_lib import chips, grid
from course_lib.cost import kernel_flops
from course_lib.roofline import xla
from course_lib.roofline.mxu import PRODUCTS, mxu_seconds

_VALUS = 4  # vector ALUs of a TensorCore, each processing a register of sublanes x lanes elements per cycle


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Kernel:
    """One kernel, over its S grid steps."""

    name: str
    times: int  # how often the function runs it
    mxu_s: np.ndarray  # float64[S]: seconds of matmuls at the MXU's peak
    vpu_s: float  # seconds of vector work in one step, on average
    reads: np.ndarray  # float64[S]: bytes that must be in VMEM before the step, and were not there yet
    writes: np.ndarray  # float64[S]: bytes that leave VMEM after the step
    alone: np.ndarray  # float64[S]: bytes of blocks with one buffer, copied while nothing else happens
    buffers: int = 2  # of each block that is read ahead, which is also the number of copies in flight
    of_first_core: np.ndarray | None = None  # bool[S]: steps of one of two cores that share the grid; None: it has all
    doubt: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Load:
    """A function's load on a chip: its kernels, and the operations that XLA runs around them."""

    chip: chips.Chip
    kernels: tuple[Kernel, ...]
    around: tuple[xla.Fusion, ...]

    @property
    def hbm_bytes(self) -> int:
        """Bytes between HBM and VMEM, both directions."""
        kernels = sum(k.times * (k.reads.sum() + k.writes.sum() + k.alone.sum()) for k in self.kernels)
        return round(kernels + sum(f.times * f.bytes for f in self.around))

    @property
    def steps(self) -> int:
        return sum(k.times * len(k.reads) for k in self.kernels)

    @property
    def doubt(self) -> str:
        """Why the load is not exactly known; "" if it is."""
        return next((part.doubt for part in (*self.kernels, *self.around) if part.doubt), "")


def load(fn: Callable, *args, chip: str = "v5e") -> Load:
    """Return the load of ``fn(*args)``; ``args`` are arrays or ShapeDtypeStructs.

    Raises ValueError for an unknown chip, and grid.UnreadableCall if a kernel's copies depend on array values.
    """
    return of_walk(grid.walk(fn, *args, chip=chip), chip=chip)


def of_walk(walk: grid.Walk, *, chip: str = "v5e") -> Load:
    """Return the load of a function that has already been walked."""
    made_of = chips.chip(chip)
    return Load(
        chip=made_of,
        kernels=tuple(_kernel(call, made_of) for call in walk.calls if call.steps),
        around=xla.fusions(walk.jaxpr, made_of),
    )


def _kernel(call: grid.Call, chip: chips.Chip) -> Kernel:
    followed = grid.body(call)
    reads, writes, alone = _automatic(call) if not grid.has_copies_by_hand(call) else _by_hand(call, followed)
    runs = [(times, mxu_seconds(eqn, chip)) for eqn, times in followed.runs if eqn.primitive.name in PRODUCTS]
    doubt = followed.doubt
    if call.times is None:
        doubt = f"how often {call.name} runs depends on data: counted once"
    return Kernel(
        name=call.name,
        times=call.times or 1,
        mxu_s=_over_steps(sum(t * s for t, s in runs), sum(t for t, _ in runs), reads + alone),
        vpu_s=_vpu_seconds(call, chip) / len(reads),
        reads=reads,
        writes=writes,
        alone=alone,
        buffers=_buffers(call),
        of_first_core=_of_first_core(call, chip, len(reads)),
        doubt=doubt,
    )


def _of_first_core(call: grid.Call, chip: chips.Chip, steps: int) -> np.ndarray | None:
    """Return which steps run on the first of two cores, which has as many as the other. None: one core has all."""
    if chip.cores < 2 or steps != call.steps:
        return None
    first, second = grid.cores(call.grid, call.parallel)
    return np.isin(np.arange(steps), first) if len(second) else None


def _over_steps(seconds: float, runs: int, reads: np.ndarray) -> np.ndarray:
    """Spread the matmuls over the steps: evenly, or, if some steps have none, over those that read most.

    The latter is a guess: a kernel that skips a matmul usually does not fetch its blocks either.
    """
    if runs >= len(reads):
        return np.full(len(reads), seconds / len(reads))
    busy = np.zeros(len(reads))
    busy[np.argsort(-reads, kind="stable")[:runs]] = seconds / max(runs, 1)
    return busy


def _vpu_seconds(call: grid.Call, chip: chips.Chip) -> float:
    """Return the seconds of all vector work: four results per cycle, or one transcendental; 0 if no clock is known."""
    if chip.clock_hz is None:
        return 0.0
    work, registers = kernel_flops(call), chip.sublanes * chip.lanes * chip.clock_hz
    return max(work.vector / (_VALUS * registers), work.transcendental / registers) / (call.times or 1)


def _automatic(call: grid.Call | grid.Pipeline) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the bytes the pipeline reads before each step, writes after it, and copies through a single buffer."""
    reads, writes, alone = np.zeros((3, call.steps))
    for operand in call.operands:
        if operand.pipelined:
            size = operand.block_bytes
            single = operand.buffers == 1 and operand.changes.sum() > 1
            (alone if single else reads)[:] += size * operand.fetched
            (alone if single else writes)[:] += size * operand.written
    return reads, writes, alone


def _buffers(call: grid.Call) -> int:
    """Return the buffers of blocks that are read ahead: the smallest number, because the other operands wait for it."""
    several = [o for c in (call, *_pipelines(call)) for o in c.operands if o.pipelined and o.buffers > 1]
    if all(operand.buffers == 2 for operand in several):
        return 2
    return min((operand.buffers for operand in several if operand.fetched.sum() > 1), default=2)


def _by_hand(call: grid.Call, followed: grid.Body) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the bytes of a kernel that copies by itself, in the steps of its emit_pipelines if it has any.

    Copies outside a pipeline are assumed to wait for nothing and to hide nothing; without a pipeline they are spread
    evenly over as many steps as the kernel starts copies.
    """
    if followed.hidden_copies:
        raise grid.UnreadableCall(
            f"the copies of {call.name} cannot be counted: {followed.hidden_copies}.", reason=grid.Reason.ARRAY_VALUES
        )
    into = sum(c.bytes.sum() for c in followed.copies if c.source_space == "hbm")
    out = sum(c.bytes.sum() for c in followed.copies if c.target_space == "hbm")
    reads, writes, alone = _automatic(call)
    if pipelines := _pipelines(call):
        steps = np.concatenate([_automatic(pipeline) for pipeline in pipelines], axis=1)
        everything = into + out + reads.sum() + writes.sum() + alone.sum()
        steps[2, 0] += max(0, everything - steps.sum())
        return tuple(steps)
    started = collections.Counter()
    for copy in followed.copies:
        started[copy.source, copy.target] += len(copy.steps)
    steps = max(call.steps, *started.values())
    even = np.full(steps, 1 / steps)
    return (reads.sum() + into) * even, (writes.sum() + out) * even, alone.sum() * even


def _pipelines(call: grid.Call) -> list[grid.Pipeline]:
    try:
        return grid.inner_pipelines(call)
    except grid.UnreadableCall:
        return []
