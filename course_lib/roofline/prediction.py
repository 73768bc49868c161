"""Three roofs: arithmetic, HBM and the cost of a grid step.

The TPU computes one grid step while it copies the blocks of the next, so a step takes the longer of the two:

    seconds = first copy + sum over steps of max(arithmetic + step_s, copies) + last write

Arithmetic is the longer of MXU and VPU work, which run side by side. ``step_s`` is what the scalar core needs to
work out the next blocks and to start and await their copies: small blocks pay it most. A block with one buffer
(``pl.Buffered(1)``) cannot be filled while it is in use: its copies are added. What XLA runs around the kernels takes
the longer of its arithmetic and its bytes.
"""

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from course_lib import chips, cost, grid, text, vocabulary
from course_lib.roofline import xla
from course_lib.roofline.constants import DISPATCH_S, FITTED, HELD_OUT, Fitted
from course_lib.roofline.load import Kernel, Load, of_walk

_UNTRIED = (
    "Most of this is no matrix product. No published timing of such work was at hand: how far off the prediction is, "
    "nobody has checked."
)
_ROOFS = {
    vocabulary.COMPUTE: "The arithmetic takes longest: fewer operations, or a narrower dtype, would help.",
    vocabulary.HBM: "The copies between HBM and VMEM take longest: move fewer bytes, by larger blocks or by fusing.",
    vocabulary.STEPS: "Neither arithmetic nor bandwidth: starting and ending grid steps takes longest. Fewer, larger "
    "blocks would help.",
    vocabulary.BOTH: "The copies take as long as the arithmetic and the grid steps together: less of one alone would "
    "not help.",
}


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Prediction:
    """A predicted time, and what it is made of. All times in seconds, on the device."""

    chip: str
    seconds: float
    compute_s: float  # arithmetic alone
    memory_s: float  # HBM traffic alone, at the bandwidth that copies reach
    steps_s: float  # what the grid steps cost, whatever they compute
    overhead_s: float  # the rest of seconds: steps, the first copy, the last write, steps where one waits for the other
    flops: int
    hbm_bytes: int
    steps: int  # grid steps of all kernels
    doubt: str = ""
    notes: tuple[str, ...] = ()  # operands of which most bytes are padding
    products: bool = True  # whether most of the arithmetic is matrix products, as in the timings it was fitted on

    @property
    def bound(self) -> str:
        """Which roof binds: "compute", "HBM", "grid steps", or "both" (``course_lib.vocabulary``)."""
        return vocabulary.bound_of_roofs(self.compute_s, self.memory_s, self.steps_s)

    @property
    def wall_s(self) -> float:
        """What ``timeit`` around a call would show: the host's dispatch comes on top."""
        return self.seconds + DISPATCH_S

    def __str__(self) -> str:
        lines = [
            f"{text.duration(self.seconds)} on a {self.chip}, {vocabulary.MODEL}, {vocabulary.bound_by(self.bound)}.",
            f"compute {text.duration(self.compute_s)} ({self.flops / 1e9:,.1f} GFLOPs), "
            f"HBM {text.duration(self.memory_s)} ({self.hbm_bytes / 1e6:,.1f} MB), "
            f"grid steps {text.duration(self.steps_s)} ({self.steps:,}).",
            f"overhead, all that is beyond the longer of compute and HBM: {text.duration(self.overhead_s)}.",
            _ROOFS[self.bound],
            _trust(self.chip) if self.products else _UNTRIED,
        ]
        lines += [f"Note: {note}" for note in self.notes]
        return text.folded("\n".join(lines + [f"Not sure: {self.doubt}."] * bool(self.doubt)))

    __repr__ = __str__


def predict(fn: Callable, *args, chip: str = "v5e") -> Prediction:
    """How long ``fn(*args)`` takes on one core of a chip that need not be there. Nothing is compiled or run.

    ``fn`` is any JAX function, with kernels or without; ``args`` are arrays or ShapeDtypeStructs.
    Raises ValueError for an unknown chip, grid.UnreadableCall where a kernel's copies depend on array values.
    """
    chips.chip(chip)
    walk = grid.walk(fn, *args, chip=chip)
    predicted = time_of(of_walk(walk, chip=chip), FITTED.get(chip, FITTED["v5e"]))
    work = cost.flops(walk)
    doubt = predicted.doubt or work.doubt or _too_large(walk, chip)
    products = 2 * work.mxu > work.total
    return dataclasses.replace(predicted, flops=work.total, doubt=doubt, notes=cost.padding(walk), products=products)


def _too_large(walk: grid.Walk, chip: str) -> str:
    """That a kernel's blocks do not fit into VMEM, if they do not."""
    needs, has = cost.vmem_bytes(walk), chips.chip(chip).vmem_bytes
    if needs <= has:
        return ""
    return f"a kernel needs {text.size(needs)} of VMEM and a {chip} has {text.size(has)}, so it cannot run"


def time_of(load: Load, fitted: Fitted) -> Prediction:
    """The prediction for a load, with given constants; its ``flops`` are 0."""
    parts = [_kernel_times(k, load.chip, fitted) for k in load.kernels]
    parts += [_fusion_times(f, load.chip, fitted) for f in load.around]
    seconds, compute, memory = np.sum(parts, axis=0) if parts else np.zeros(3)
    return Prediction(
        chip=load.chip.name,
        seconds=float(seconds),
        compute_s=float(compute),
        memory_s=float(memory),
        steps_s=load.steps * fitted.step_s,
        overhead_s=_rest(float(seconds), float(max(compute, memory))),
        flops=0,
        hbm_bytes=load.hbm_bytes,
        steps=load.steps,
        doubt=load.doubt,
    )


def _rest(seconds: float, roof: float) -> float:
    """What the larger roof leaves unexplained; what rounding leaves of nothing is nothing."""
    rest = seconds - roof
    return rest if rest > 1e-9 * seconds else 0.0


def ridge_point(*, chip: str = "v5e", dtype="bfloat16") -> float:
    """FLOPs per byte of HBM traffic above which a chip's peak, and not its bandwidth, is the roof.

    From the data sheet: peak over bandwidth. Raises ValueError for an unknown chip, and for a dtype whose products
    the MXU has no rate for.
    """
    made_of, kind = chips.chip(chip), _dtype_name(dtype)
    rates = {"bfloat16": made_of.bf16_flops, "float32": made_of.bf16_flops, "int8": made_of.int8_ops}
    if not rates.get(kind):
        known = ", ".join(name for name, rate in rates.items() if rate)
        raise ValueError(f"dtype={kind!r} has no MXU rate on {chip}. Choose one of: {known}.")
    return rates[kind] / made_of.hbm_bandwidth


def _dtype_name(dtype) -> str:
    try:
        return jnp.dtype(dtype).name
    except TypeError:
        return str(dtype)


def intensity(fn: Callable, *args, chip: str = "v5e") -> float:
    """FLOPs of ``fn(*args)`` per byte it moves between HBM and VMEM; inf if it moves none."""
    predicted = predict(fn, *args, chip=chip)
    return predicted.flops / predicted.hbm_bytes if predicted.hbm_bytes else float("inf")


def _kernel_times(kernel: Kernel, chip: chips.Chip, fitted: Fitted) -> np.ndarray:
    """(seconds, compute, memory) of one kernel."""
    bandwidth = chip.hbm_bandwidth * fitted.hbm
    compute = np.maximum(kernel.mxu_s, kernel.vpu_s)
    reads, writes, alone = kernel.reads / bandwidth, kernel.writes / bandwidth, kernel.alone.sum() / bandwidth
    copies = np.append(reads[1:], 0) + np.append(0, writes[:-1])  # for the next step, and from the one before
    seconds = reads[0] + np.maximum(compute + fitted.step_s, copies).sum() + writes[-1] + alone
    return kernel.times * np.array([seconds, compute.sum(), reads.sum() + writes.sum() + alone])


def _fusion_times(fusion: xla.Fusion, chip: chips.Chip, fitted: Fitted) -> np.ndarray:
    """(seconds, compute, memory) of what XLA runs as one."""
    compute, memory = fusion.mxu_s / fitted.xla, fusion.bytes / (chip.hbm_bandwidth * fitted.hbm)
    return fusion.times * np.array([max(compute, memory), compute, memory])


def _trust(chip: str) -> str:
    if chip not in HELD_OUT:
        return f"No published timing of a {chip} was at hand: these are the constants of a v5e."
    rows, median, worst = HELD_OUT[chip]
    return (
        f"On {rows} published timings of a {chip} that the constants were not fitted on, such predictions were off by "
        f"{100 * median:.0f} % in the middle and {100 * worst:.0f} % at worst."
    )
