"""The share of an SM that GPU kernels take: registers and shared memory against their limits, and warps."""

from collections.abc import Sequence

from course_lib import chips, text
from course_lib.chips.gpu_target import MOST_REGISTERS
from course_lib.compiler.gpu_kernel import GpuKernel
from course_lib.viz.common import draw

_ROW, _NAME, _BAR, _MOST = 21, 150, 260, 4
_MEANING = "against what a thread, a block and an SM may have"


def panel(kernels: Sequence[GpuKernel], chip: str) -> draw.Panel:
    """Draw bars for each kernel, Pallas kernels first; of many, only the first few."""
    shown = sorted(kernels, key=lambda kernel: kernel.kind != "kernel")[:_MOST]
    rows = [_row(*bar) for kernel in shown for bar in _bars(kernel, chip, named=len(kernels) > 1)]
    return draw.stacked([draw.heading("An SM", _MEANING), *rows])


def sentence(kernels: Sequence[GpuKernel], chip: str) -> str:
    """Return the bars in words."""
    said = [
        ", ".join(f"{name} {words}" for name, _, words, _ in _bars(kernel, chip, named=len(kernels) > 1))
        for kernel in kernels
    ]
    return f"{'; '.join(said)}."


def _bars(kernel: GpuKernel, chip: str, *, named: bool) -> list[tuple[str, float, str, str]]:
    """Return (name, share, figure, colour) of each bar; unknown figures have none."""
    whose, gpu = f"{kernel.name}: " if named else "", chips.gpu_target(chip)
    spilled = kernel.spill_stores or kernel.spill_loads
    registers = f"{kernel.registers} of {MOST_REGISTERS}" + (", and spills" if spilled else "")
    bars = [(f"{whose}registers", kernel.registers / MOST_REGISTERS, registers, draw.RED if spilled else draw.BLUE)]
    if kernel.shared_bytes is not None:
        words = f"{text.size(kernel.shared_bytes)} of {text.size(gpu.shared_bytes)}"
        bars.append((f"{whose}shared memory", kernel.shared_bytes / gpu.shared_bytes, words, draw.ORANGE))
    if (share := kernel.occupancy(chip)) is not None:
        words = f"{text.percent(share)}, {text.counted(kernel.blocks_on(chip), 'block')}"
        bars.append((f"{whose}warps of the SM", share, words, draw.GREEN))
    return bars


def _row(name: str, share: float, words: str, fill: str) -> draw.Panel:
    middle, filled = _ROW - 7, _BAR * min(max(share, 0), 1)
    return draw.Panel(
        draw.label(0, middle, name, _NAME - 8)
        + draw.box(_NAME, 3, _BAR, 14, draw.TRACK, radius=2)
        + draw.box(_NAME, 3, max(filled, 1), 14, fill, title=f"{name} {words}")
        + draw.label(_NAME + _BAR + 16, middle, words, draw.INNER - _NAME - _BAR - 16),
        _ROW,
    )
