"""A lower bound on a function's time, which no chip can beat, whatever a measurement says.

    bound = max(FLOPs of matmuls / peak of the MXUs or Tensor Cores, bytes / HBM bandwidth)

The peaks are those of the data sheet (``chips``), not those that programs reach. The bytes are those that no program
can avoid: every result is written once, and every argument that is used whole is read once. Elementwise work is not
counted. The bound is therefore never too long, and often too short.
"""

import dataclasses
import math
from collections.abc import Callable

import jax.extend.core
import numpy as np

from course_lib import chips, cost, grid, text, vocabulary

_ROUNDED = 0.02  # the registry rounds its peaks: 820 GB/s for a v5e, where other sources give 819
_ANY_TPU = "v5e"  # plain JAX traces the same for every chip
_READS_A_PART = {"slice", "dynamic_slice", "gather", "ragged_dot", "ragged_dot_general", "while", "cond"}


class Impossible(ValueError):
    """A time shorter than the chip allows, so the timed call cannot have finished this function's work."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bound:
    """The shortest time a chip allows for a function: seconds, FLOPs of matmuls, bytes of HBM traffic."""

    chip: str
    flops: int
    hbm_bytes: int
    compute_s: float
    memory_s: float

    @property
    def seconds(self) -> float:
        return max(self.compute_s, self.memory_s)

    @property
    def by(self) -> str:
        """Which of the two times is the longer: "compute", "HBM", or "both" (``course_lib.vocabulary``)."""
        return vocabulary.bound_of_roofs(self.compute_s, self.memory_s)

    def __str__(self) -> str:
        longer = self.compute_s >= self.memory_s
        what = f"{self.flops / 1e9:,.1f} GFLOPs of matmuls" if longer else f"{self.hbm_bytes:,} bytes"
        return f"{what} take a {self.chip} at least {text.duration(self.seconds)}"


def bound(fn: Callable, *args, chip: str = "v5e") -> Bound:
    """Return the shortest time ``chip`` needs for ``fn(*args)``, without compiling or running it.

    ``args`` are arrays or ShapeDtypeStructs. ``chip`` is a TPU or a GPU (``chips.NAMES``, ``chips.GPU_TARGETS``). To
    bound a GPU's time, ``fn`` must be plain JAX, or a TPU kernel that computes the same. On a chip whose cores run one
    program together (v5p), the time is that of all cores together. Raises ValueError for an unknown chip, and whatever
    tracing ``fn`` raises.
    """
    peaks = _of_gpu(chip) if chip in chips.GPU_TARGETS else _of_tpu(chip)
    walk = grid.walk(fn, *args, chip=chip if chip in chips.NAMES else _ANY_TPU)
    flops, moved = _products(walk), _bytes(walk)
    return Bound(
        chip=chip,
        flops=flops,
        hbm_bytes=moved,
        compute_s=flops / (peaks.int8_ops if _multiplies_int8(walk) else peaks.bf16_flops),
        memory_s=moved / peaks.bandwidth,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Peaks:
    """Peak rates per second, summed over the cores that run one program together."""

    bf16_flops: float
    int8_ops: float
    bandwidth: float  # bytes


def _of_tpu(name: str) -> _Peaks:
    chip = chips.chip(name)
    return _Peaks(
        bf16_flops=chip.bf16_flops * chip.cores,
        int8_ops=max(chip.bf16_flops, chip.int8_ops or 0) * chip.cores,
        bandwidth=chip.program_bandwidth,
    )


def _of_gpu(name: str) -> _Peaks:
    gpu = chips.gpu_target(name)
    return _Peaks(bf16_flops=gpu.bf16_flops, int8_ops=gpu.int8_ops, bandwidth=gpu.memory_bandwidth)


def refuse_the_impossible(name: str, seconds: float, least: Bound | None) -> None:
    """Raise Impossible for a time below the bound, or not positive and finite; skip the bound if ``least`` is None."""
    if not math.isfinite(seconds) or seconds <= 0:
        raise Impossible(f"{name}: the clock says {seconds:.3g} s, which is not a valid duration. Time more rounds.")
    if least is not None and seconds < (1 - _ROUNDED) * least.seconds:
        raise Impossible(
            f"{name}: {text.duration(seconds)} is {text.significant(least.seconds / seconds, 3)} times faster than "
            f"the chip can be: {least}. Was its result waited for? Did the compiler drop work whose result nobody uses?"
        )


def _products(walk: grid.Walk) -> int:
    """Return the FLOPs of matmuls; 0 if they cannot be counted, or only bounded from above."""
    try:
        work = cost.flops(walk)
    except grid.UnreadableCall:
        return 0
    return 0 if work.doubt else work.mxu


def _bytes(walk: grid.Walk) -> int:
    """Return the bytes that must cross HBM: every result, plus the arguments if each is read in full."""
    jaxpr = walk.jaxpr.jaxpr
    written = sum(_size(v) for v in {id(v): v for v in jaxpr.outvars}.values() if v not in jaxpr.invars)
    if any(eqn.primitive.name in _READS_A_PART for eqn in grid.equations(jaxpr)) or not _kernels_read_all(walk):
        return written
    used = {id(v) for eqn in jaxpr.eqns for v in eqn.invars}
    return written + sum(_size(v) for v in jaxpr.invars if id(v) in used)


def _kernels_read_all(walk: grid.Walk) -> bool:
    """Whether the kernels copy at least as many bytes of every input as it holds; if not, they may read only parts."""
    return all(
        operand.pipelined
        and operand.block_payload[operand.fetched].sum() >= math.prod(operand.shape) * operand.dtype.itemsize
        for call in walk.calls
        for operand in call.operands
        if operand.role == "input"
    )


def _size(v) -> int:
    return v.aval.size * v.aval.dtype.itemsize if not isinstance(v, jax.extend.core.Literal) else 0


def _multiplies_int8(walk: grid.Walk) -> bool:
    """Whether any operand has 8-bit integers, which chips may multiply at a higher rate."""
    return any(
        np.issubdtype(v.aval.dtype, np.integer) and v.aval.dtype.itemsize == 1
        for eqn in grid.equations(walk.jaxpr.jaxpr)
        for v in eqn.invars
        if hasattr(getattr(v, "aval", None), "dtype") and hasattr(v.aval.dtype, "itemsize")
    )
