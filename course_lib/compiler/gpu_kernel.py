"""One kernel of a GPU program: the resources it needs of an SM, and therefore how many blocks an SM holds at once."""

import dataclasses

from course_lib import chips, text
from course_lib.chips.gpu_target import REGISTERS, THREADS_OF_A_WARP

# How an SM allocates its resources, from compute capability 8.0 on: "CUDA Occupancy Calculator".
_REGISTER_UNIT = 256  # a warp's registers are rounded up to a multiple of this
_WARP_UNIT = 4  # an SM has four parts, and each holds a quarter of its warps
_SHARED_UNIT, _SHARED_OF_THE_SYSTEM = 128, 1024  # bytes per block: rounding, and CUDA's own share


@dataclasses.dataclass(frozen=True, kw_only=True)
class GpuKernel:
    """The figures of one kernel, per thread or per block; None if the compiler did not say."""

    name: str
    kind: str  # "kernel" for a Pallas kernel, else "fusion": XLA's own
    registers: int  # per thread, at most 255
    spill_stores: int  # bytes per thread that go to memory because registers run out
    spill_loads: int
    shared_bytes: int | None  # per block
    threads: int | None  # per block
    grid: tuple[int, ...] | None
    instructions: dict[str, int]  # "wgmma", "TMA loads", ...: counts in the program text, a loop's body once
    remarks: tuple[str, ...] = ()  # from ptxas, about speed
    ptx: str = dataclasses.field(default="", repr=False)  # its program as ptxas was given it

    @property
    def serialized(self) -> bool:
        """Whether ptxas made each wgmma wait for the one before it."""
        return any("wgmma" in remark and "serialized" in remark for remark in self.remarks)

    def blocks_on(self, chip: str) -> int | None:
        """Return how many of its blocks an SM of ``chip`` holds at once; None if that is not known."""
        if self.threads is None or self.shared_bytes is None:
            return None
        gpu = chips.gpu_target(chip)
        warps = -(-self.threads // THREADS_OF_A_WARP)
        of_a_warp = _up(self.registers * THREADS_OF_A_WARP, _REGISTER_UNIT)
        warps_by_registers = REGISTERS // of_a_warp // _WARP_UNIT * _WARP_UNIT
        shared = _up(self.shared_bytes, _SHARED_UNIT) + _SHARED_OF_THE_SYSTEM
        limits = (
            gpu.sm_blocks,
            gpu.sm_threads // THREADS_OF_A_WARP // warps,
            warps_by_registers // warps,
            gpu.sm_shared_bytes // shared,
        )
        return min(limits)

    def occupancy(self, chip: str) -> float | None:
        """Return the share of an SM's warps that its blocks fill, 0 to 1; None if that is not known."""
        blocks = self.blocks_on(chip)
        if blocks is None:
            return None
        warps = blocks * -(-self.threads // THREADS_OF_A_WARP)
        return warps / (chips.gpu_target(chip).sm_threads // THREADS_OF_A_WARP)

    def rows(self, chip: str) -> list[tuple[str, str]]:
        """Return (label, text) for each line of a Report."""
        spills = f"{self.spill_stores:,} bytes spilled" if self.spill_stores or self.spill_loads else "no spills"
        return [
            ("registers", f"{self.registers} of each thread, {spills}"),
            ("shared", _shared(self, chip)),
            ("an SM holds", _held(self, chip)),
            ("program", ", ".join(f"{count:,} {name}" for name, count in self.instructions.items())),
            ("ptxas says", "; ".join(self.remarks)),
        ]


def _up(n: int, unit: int) -> int:
    return -(-n // unit) * unit


def _shared(kernel: GpuKernel, chip: str) -> str:
    if kernel.shared_bytes is None:
        return ""
    return f"{text.size(kernel.shared_bytes)} of each block (limit {text.size(chips.gpu_target(chip).shared_bytes)})"


def _held(kernel: GpuKernel, chip: str) -> str:
    blocks = kernel.blocks_on(chip)
    if blocks is None:
        return ""
    share = text.percent(kernel.occupancy(chip))
    return f"{text.counted(blocks, 'block')} of {kernel.threads} threads at once: {share} of its warps"
