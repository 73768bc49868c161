"""Three roofs: arithmetic, HBM and the cost of grid steps.

A kernel's step fetches the blocks of a later step, waits for its own, computes, and writes (``pipeline``). The core
works while copies run, but a copy takes its latency however small it is, and with two buffers only two copies are in
flight. A step takes the longest of

    its work     (latency + its bytes + its work) / buffers     its bytes at the bandwidth that copies reach

where its work is arithmetic plus ``issue_s``: issuing its code, starting and awaiting copies. Arithmetic takes the
longer of MXU and VPU work, which overlap. The third roof is what remains without arithmetic and bytes: (latency +
issue) / buffers per step. Published timings cannot separate latency from issue (``constants``); the compiler can. A
block with one buffer (``pl.Buffered(1)``) cannot be filled while it is in use, so its copies are added. What XLA runs
around the kernels takes the longer of its arithmetic and its bytes.
"""

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from course_lib import chips, cost, grid, text, vocabulary
from course_lib.roofline import pipeline, xla
from course_lib.roofline.constants import DISPATCH_S, FITTED, HELD_OUT, Fitted
from course_lib.roofline.load import Kernel, Load, of_walk

_UNTRIED = (
    "Most of this is not matmul. No published timings of such work were available, so nobody has checked how accurate "
    "the prediction is."
)
_ROOFS = {
    vocabulary.COMPUTE: "The arithmetic takes longest: fewer operations, or a narrower dtype, would help.",
    vocabulary.HBM: "The copies between HBM and VMEM take longest: move fewer bytes, by larger blocks or by fusing.",
    vocabulary.STEPS: "Neither arithmetic nor bandwidth binds: every step starts copies, and waits for earlier ones "
    f"that were requested too late to arrive in time, however small they are. {vocabulary.AGAINST_WAITING}.",
    vocabulary.BOTH: "The copies take as long as the arithmetic and the grid steps together: reducing only one would "
    "not help.",
}


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Prediction:
    """A predicted time and its parts. All times are in seconds, on the device."""

    chip: str
    seconds: float
    compute_s: float  # arithmetic alone
    memory_s: float  # HBM traffic alone, at the bandwidth that copies reach
    steps_s: float  # what the grid steps cost, whatever they compute: latency and issue
    latency_s: float = 0.0  # the part of steps_s that waits for copies the buffers do not hide
    overhead_s: float  # the rest of seconds: steps, first copy, last write, steps where one roof waits for another
    flops: int
    hbm_bytes: int
    steps: int  # grid steps of all kernels
    doubt: str = ""
    notes: tuple[str, ...] = ()  # operands whose bytes are mostly padding
    products: bool = True  # whether most of the arithmetic is matmuls, as in the timings behind the constants

    @property
    def bound(self) -> str:
        """The roof that binds: "compute", "HBM", "grid steps", or "both" (``course_lib.vocabulary``)."""
        return vocabulary.bound_of_roofs(self.compute_s, self.memory_s, self.steps_s)

    @property
    def wall_s(self) -> float:
        """The time that ``timeit`` around a call would show, including the host's dispatch."""
        return self.seconds + DISPATCH_S

    def __str__(self) -> str:
        lines = [
            f"{text.duration(self.seconds)} on a {self.chip}, {vocabulary.MODEL}, {vocabulary.bound_by(self.bound)}.",
            f"compute {text.duration(self.compute_s)} ({self.flops / 1e9:,.1f} GFLOPs), "
            f"HBM {text.duration(self.memory_s)} ({self.hbm_bytes / 1e6:,.1f} MB), "
            f"grid steps {text.duration(self.steps_s)} ({self.steps:,}){self._of_it()}.",
            f"overhead, the time beyond the longer of compute and HBM: {text.duration(self.overhead_s)}.",
            _ROOFS[self.bound],
            _trust(self.chip) if self.products else _UNTRIED,
        ]
        lines += [f"Note: {note}" for note in self.notes]
        return text.folded("\n".join(lines + [f"Uncertain: {self.doubt}."] * bool(self.doubt)))

    __repr__ = __str__

    def _of_it(self) -> str:
        return f", of which copy latency {text.duration(self.latency_s)}" if self.latency_s else ""


def predict(fn: Callable, *args, chip: str = "v5e") -> Prediction:
    """Predict how long ``fn(*args)`` takes on one device of a chip, attached or not. Nothing is compiled or run.

    If two TensorCores form one device (v4, v5p), they share the HBM and the first grid axis that is marked "parallel".
    A kernel without such an axis runs on one of them, which has all of the HBM. Links between devices do not count.

    ``fn`` is any JAX function, with or without kernels; ``args`` are arrays or ShapeDtypeStructs. Raises ValueError for
    an unknown chip, and grid.UnreadableCall if a kernel's copies depend on array values.
    """
    chips.chip(chip)
    walk = grid.walk(fn, *args, chip=chip)
    predicted = time_of(of_walk(walk, chip=chip), FITTED.get(chip, FITTED["v5e"]))
    work = cost.flops(walk)
    doubt = _links(walk) or predicted.doubt or work.doubt or _too_large(walk, chip)
    products = 2 * work.mxu > work.total
    return dataclasses.replace(predicted, flops=work.total, doubt=doubt, notes=cost.padding(walk), products=products)


def _links(walk: grid.Walk) -> str:
    """Return a note that several devices run the function, or "" if one does."""
    meshes = [eqn.params["mesh"] for eqn in grid.equations(walk.jaxpr) if eqn.primitive.name == "shard_map"]
    if all(mesh.size == 1 for mesh in meshes):
        return ""
    return "what travels between devices is not counted (judges.judge_chips predicts it)"


def _too_large(walk: grid.Walk, chip: str) -> str:
    """Return a note that a kernel's blocks do not fit into VMEM, or "" if they do fit."""
    needs, has = cost.vmem_bytes(walk), chips.chip(chip).vmem_bytes
    if needs <= has:
        return ""
    return f"a kernel needs {text.size(needs)} of VMEM and a {chip} has {text.size(has)}, so it cannot run"


def time_of(load: Load, fitted: Fitted) -> Prediction:
    """Return the prediction for a load with the given constants; its ``flops`` are 0."""
    parts = [_kernel_times(k, load.chip, fitted) for k in load.kernels]
    parts += [_fusion_times(f, load.chip, fitted) for f in load.around]
    seconds, compute, memory, steps, issue = np.sum(parts, axis=0) if parts else np.zeros(5)
    return Prediction(
        chip=load.chip.name,
        seconds=float(seconds),
        compute_s=float(compute),
        memory_s=float(memory),
        steps_s=float(steps),
        latency_s=_rest(float(steps), float(issue)),
        overhead_s=_rest(float(seconds), float(max(compute, memory))),
        flops=0,
        hbm_bytes=load.hbm_bytes,
        steps=load.steps,
        doubt=load.doubt,
    )


def _rest(seconds: float, roof: float) -> float:
    """Return the time that the larger roof leaves unexplained; a rounding error counts as 0."""
    rest = seconds - roof
    return rest if rest > 1e-9 * seconds else 0.0


def ridge_point(*, chip: str = "v5e", dtype="bfloat16") -> float:
    """Return the FLOPs per byte of HBM traffic above which a chip's peak, not its bandwidth, is the limit.

    This is the data sheet's peak over its bandwidth, the same for one TensorCore and for all of the chip's. Raises
    ValueError for an unknown chip, and for a dtype that has no MXU rate.
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
    """Return the FLOPs of ``fn(*args)`` per byte it moves between HBM and VMEM; inf if it moves none."""
    predicted = predict(fn, *args, chip=chip)
    return predicted.flops / predicted.hbm_bytes if predicted.hbm_bytes else float("inf")


def _kernel_times(kernel: Kernel, chip: chips.Chip, fitted: Fitted) -> np.ndarray:
    """Return (seconds, compute, memory, steps, issue) of one kernel; of the first core if two share it, and the HBM."""
    bandwidth = chip.program_bandwidth * fitted.hbm
    if (first := kernel.of_first_core) is not None:
        own = {name: getattr(kernel, name)[first] for name in ("mxu_s", "reads", "writes", "alone")}
        kernel, bandwidth = dataclasses.replace(kernel, **own, of_first_core=None), bandwidth / 2
    reads, writes, alone = kernel.reads / bandwidth, kernel.writes / bandwidth, kernel.alone / bandwidth
    seconds = pipeline.seconds(
        np.maximum(kernel.mxu_s / fitted.mxu, kernel.vpu_s) + fitted.issue_s,
        reads,
        writes,
        alone,
        read_s=fitted.read_s,
        write_s=fitted.write_s,
        buffers=kernel.buffers,
    )
    compute, memory = np.maximum(kernel.mxu_s, kernel.vpu_s).sum(), (reads + writes + alone).sum()
    issue = len(reads) * fitted.issue_s
    return kernel.times * np.array([seconds, compute, memory, _steps_seconds(kernel, fitted), issue])


def _steps_seconds(kernel: Kernel, fitted: Fitted) -> float:
    """Return the cost of the steps besides arithmetic and bytes; a step without copies costs only the core's part."""
    each = np.where(kernel.reads > 0, fitted.least_step_s(kernel.buffers), fitted.issue_s)
    each = np.where(kernel.writes > 0, np.maximum(each, (fitted.write_s + fitted.issue_s) / 2), each)
    return float((each + np.where(kernel.alone > 0, fitted.read_s, 0)).sum())


def _fusion_times(fusion: xla.Fusion, chip: chips.Chip, fitted: Fitted) -> np.ndarray:
    """Return (seconds, compute, memory, steps, issue) of one fusion."""
    compute, memory = fusion.mxu_s / fitted.mxu, fusion.bytes / (chip.program_bandwidth * fitted.hbm)
    return fusion.times * np.array([max(compute, memory), compute, memory, 0.0, 0.0])


def _trust(chip: str) -> str:
    if chip not in HELD_OUT:
        return f"No published timings of a {chip} were available, so the constants are those of a v5e."
    rows, median, worst = HELD_OUT[chip]
    return (
        f"On {rows} published timings of a {chip} that the constants were not fitted to, such predictions were off by "
        f"{100 * median:.0f} % (median) and {100 * worst:.0f} % at worst."
    )
