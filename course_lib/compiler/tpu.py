"""Compile a function for a TPU that is not there, with the real compiler, and report what it says."""

import dataclasses
import functools
import importlib.metadata
import io
from collections.abc import Callable

import jax

from course_lib import chips, cost, errors, grid
from course_lib.compiler import service

# The VMEM one kernel may use on a v5e unless it asks for more; libtpu 0.0.42 to 0.0.51 accept 16.0 MiB and
# refuse 16.36 MiB ("Scoped allocation ... limit 16.00M").
_SCOPED_VMEM = {"v5e": 16 << 20}


class Unavailable(RuntimeError):
    """There is no TPU compiler on this machine, or it does not start. The message says why and what to do."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """What the compiler said. Figures are None where it said nothing, and ``notes`` tells why."""

    name: str
    chip: str
    ok: bool
    error: errors.Explanation | None = None
    cycles: int | None = None  # predicted by the compiler's own simulator, all kernels and fusions together
    seconds: float | None = None  # predicted: the larger of cycles / clock and HBM bytes / HBM bandwidth
    hbm_bytes: int | None = None  # moved between HBM and VMEM by the grid's automatic copies
    vmem_bytes: int | None = None  # allocated by the compiler
    vmem_limit: int | None = None
    bundles: int | None = None  # VLIW instruction words in the program
    slots: dict[str, float] = dataclasses.field(default_factory=dict)  # unit -> share of its slots filled, 0 to 1
    spills: int | None = None  # vector registers stored to VMEM for want of registers
    notes: tuple[str, ...] = ()
    versions: str = ""

    def __str__(self) -> str:
        if not self.ok:
            return f"{self.name} for {self.chip}: refused by the compiler.\n{self.error}"
        lines = [f"{self.name} for {self.chip}: compiles ({self.versions})."]
        if self.cycles is not None:
            lines.append(f"  predicted   {self.cycles:,} cycles{self._time}")
        if self.hbm_bytes is not None:
            lines.append(f"  HBM         {self.hbm_bytes:,} bytes moved")
        if self.vmem_bytes is not None:
            limit = f" (a kernel may use {_size(self.vmem_limit)})" if self.vmem_limit else ""
            lines.append(f"  VMEM        {_size(self.vmem_bytes)}{limit}")
        if self.bundles:
            lines.append(f"  program     {self.bundles:,} bundles, {self.spills} spills")
        return errors.folded("\n".join(lines + [f"  note        {note}" for note in self.notes]))

    @property
    def _time(self) -> str:
        if self.seconds is None:
            return ""
        by_traffic = self.seconds > 1.01 * self.cycles / chips.chip(self.chip).clock_hz
        return f", {_time(self.seconds)}" + (" (that is the HBM traffic at full speed)" if by_traffic else "")


def compile_tpu(
    fn: Callable,
    *args,
    chip: str = "v5e",
    simulate: bool = True,
    time_limit_s: float = service.TIME_LIMIT_S,
    memory_bytes: int = service.MEMORY_BYTES,
) -> Report:
    """Compile ``jit(fn)(*args)`` for a TPU with none attached, and simulate its cycles.

    ``args`` are arrays or ``jax.ShapeDtypeStruct``s; values do not matter. The compiler runs in a child process
    with a limit of ``time_limit_s`` seconds and ``memory_bytes`` bytes for each compile: if it crashes or hangs,
    the Report says so. A kernel that is refused gives ``ok=False`` and an explained ``error``, never an exception.
    Raises ValueError for an unknown chip, and Unavailable where libtpu is not installed or does not start.
    """
    target = chips.chip(chip)
    name = getattr(fn, "__name__", type(fn).__name__)
    refused = functools.partial(Report, name=name, chip=chip, ok=False, versions=versions())
    try:
        jaxpr = grid.trace(fn, *args, chip=chip)
        module = lower(jaxpr, *args, chip=target)
    except Exception as error:  # whatever tracing or lowering raises is the learner's to read, explained
        return refused(error=errors.explain(error))
    if libtpu_version() is None:
        raise Unavailable(missing_libtpu())
    try:
        answer, notes = _ask(target, module, simulate, time_limit_s, memory_bytes)
    except service.WorkerDied as error:
        return refused(error=errors.explain(error))
    if not answer["ok"] and answer["stage"] == "start":
        raise Unavailable(f"libtpu does not start on this machine: {answer['error']}")
    if not answer["ok"]:
        return refused(error=errors.explain(answer["error"]))
    return _report(name, target, jaxpr, answer, notes)


def lower(jaxpr, *args, chip: chips.Chip) -> bytes:
    """MLIR bytecode of a traced function, lowered for ``chip``. Needs no libtpu. Raises what Pallas raises."""
    with chip.target():
        lowered = jax.jit(functools.partial(grid.run, jaxpr, False)).trace(*args).lower(lowering_platforms=("tpu",))
    buffer = io.BytesIO()
    lowered.compiler_ir("stablehlo").operation.write_bytecode(buffer)
    return buffer.getvalue()


def libtpu_version() -> str | None:
    """The installed libtpu's version; None where it is missing (macOS, Arm: there is no build of it)."""
    try:
        return importlib.metadata.version("libtpu")
    except importlib.metadata.PackageNotFoundError:
        return None


def missing_libtpu() -> str:
    """Why the compiler cannot run here, and what to do."""
    return (
        "libtpu, which holds the TPU compiler, is not installed. It exists for Linux on x86-64 only: "
        "there, `make setup` installs it; elsewhere, use Colab for this judge."
    )


def versions() -> str:
    """The versions a figure depends on."""
    return f"jax {jax.__version__}, libtpu {libtpu_version() or 'missing'}"


def _ask(chip: chips.Chip, module: bytes, simulate: bool, time_limit_s: float, memory_bytes: int):
    """The worker's answer, and notes. If the simulator brings the compiler down, compile once more without it."""
    ask = functools.partial(
        service.compile_module, chip.topology, module, time_limit_s=time_limit_s, memory_bytes=memory_bytes
    )
    if not simulate or chip.name == "v4":  # libtpu has no simulator for v4
        return ask(simulate=False), ("not simulated",)
    try:
        return ask(simulate=True), ()
    except service.WorkerDied as error:
        return ask(simulate=False), (f"no cycles: with the simulator on, {error}",)


def _report(name: str, chip: chips.Chip, jaxpr, answer: dict, notes: tuple[str, ...]) -> Report:
    cycles = sum(answer["cycles"].values()) if answer["cycles"] else None
    hbm_bytes = None
    try:
        walk = grid.read(jaxpr)
        hbm_bytes = cost.hbm_bytes(walk) if walk.calls else None
    except grid.UnreadableCall as error:
        notes += (f"HBM bytes not counted: {error}",)
    seconds = None
    if cycles is not None and chip.clock_hz:
        seconds = max(cycles / chip.clock_hz, (hbm_bytes or 0) / chip.hbm_bandwidth)
    bundles = answer["bundles"] or None
    return Report(
        name=name,
        chip=chip.name,
        ok=True,
        cycles=cycles,
        seconds=seconds,
        hbm_bytes=hbm_bytes,
        vmem_bytes=sum(size for _, size, _ in answer["vmem"]) if answer["vmem"] else None,
        vmem_limit=_SCOPED_VMEM.get(chip.name),
        bundles=bundles,
        slots={unit: used / (offered * bundles) for unit, (used, offered) in answer["slots"].items() if bundles},
        spills=answer["spills"] if bundles else None,
        notes=notes,
        versions=versions(),
    )


def _size(n: int) -> str:
    for unit, size in (("MiB", 2**20), ("KiB", 2**10)):
        if n >= size:
            return f"{n / size:.4g} {unit}"
    return f"{n} bytes"


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
