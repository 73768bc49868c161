"""A thread block on an SM of a Hopper: its memories, who copies and multiplies beside its threads, and who waits."""

from course_lib import chips, text
from course_lib.chips.gpu_target import MOST_REGISTERS, THREADS_OF_A_WARP
from course_lib.viz.common import draw
from course_lib.viz.common.picture import Picture
from course_lib.viz.pictures import machine

_LEFT, _WIDE = 14, 200  # left edge and width of TMA and of the threads
_MIDDLE, _RIGHT = 300, draw.INNER - 14  # edges of shared memory
_CORES = 494  # left edge of the Tensor Cores
_THREADS_OF_A_WARPGROUP = 4 * THREADS_OF_A_WARP
_WAITS = (  # what a thread may have to wait for, and the call that waits
    ("a copy in, until its block has arrived", "barrier_wait(barrier)"),
    ("wgmma, until it has read its blocks", "wgmma_wait(n)"),
    ("their own writes, until TMA can see them", "commit_smem()"),
    ("a copy out, until TMA has read its block", "wait_smem_to_gmem(n)"),
)


def sm_picture(*, gpu: str = "h100") -> Picture:
    """Draw an SM with one thread block: GPU memory, TMA, shared memory, warpgroups, registers, Tensor Cores.

    Four numbers mark what the threads may have to wait for, and four lines below say by which call. Sizes come
    from ``chips.gpu``, which has the "h100" and the "h200". Raises ValueError for another name.
    """
    of, target = chips.gpu(gpu), chips.gpu_target(gpu)
    title = f"A thread block on one of the {of.sms} SMs of an {gpu.upper()}"
    panel = draw.Panel("".join([*_units(of, target), *_flows(of), *_waits()]), 576)
    drawn = draw.stacked([draw.paragraph(title, size=machine.BIG, bold=True), panel], gap=8)
    words = as_text(of, target, title)
    return Picture(svg=draw.card(drawn, title, words), text=words)


def as_text(of: chips.Gpu, target: chips.GpuTarget, title: str) -> str:
    """Return the picture in words, line by line."""
    lines = (
        f"{title}.",
        f"GPU memory: {_gb(of.hbm_bytes)}, at {text.byte_rate(of.hbm_bandwidth)} for all SMs together. An L2 cache of "
        f"{text.size(of.l2_bytes)} lies between it and the SMs.",
        "TMA copies between GPU memory and shared memory, in the background.",
        f"Shared memory: {text.size(of.sm_shared_bytes)} of an SM, of which a block may have "
        f"{text.size(target.shared_bytes)}. Barriers lie there, too.",
        f"Threads: warpgroups of {_THREADS_OF_A_WARPGROUP}, which are 4 warps of {THREADS_OF_A_WARP}. An SM "
        f"has room for {target.sm_threads:,} threads.",
        f"Registers: {text.size(of.sm_register_bytes)} of an SM; a thread has up to {MOST_REGISTERS}.",
        "Tensor Cores: wgmma reads two blocks from shared memory and adds to registers, in the background.",
        "The threads wait for:",
        *(f"{n}. {what}: {call}" for n, (what, call) in enumerate(_WAITS, 1)),
    )
    return "\n".join(lines)


def _gb(size: int) -> str:
    return f"{size / 1e9:.0f} GB"


def _units(of: chips.Gpu, target: chips.GpuTarget) -> list[str]:
    above = f"behind an L2 cache of {text.size(of.l2_bytes)}, which all SMs share"
    shared = (f"a block may have {text.size(target.shared_bytes)}:", "blocks of arrays, and barriers")
    threads = (f"{_THREADS_OF_A_WARPGROUP} threads: 4", f"warps of {THREADS_OF_A_WARP}. A block", "has one or more")
    registers = (f"{text.size(of.sm_register_bytes)};", "at most", f"{MOST_REGISTERS} a thread")
    return [
        machine.unit(0, 4, draw.INNER, 62, machine.OUTSIDE, f"GPU memory {_gb(of.hbm_bytes)}", above),
        draw.box(0, 118, draw.INNER, 308, draw.PAPER, stroke=draw.MUTED, radius=8),
        machine.unit(_LEFT, 136, _WIDE, 96, machine.UNIT, "TMA", "copies blocks in the", "background"),
        machine.unit(
            _MIDDLE, 136, _RIGHT - _MIDDLE, 96, machine.MEMORY,
            f"Shared memory {text.size(of.sm_shared_bytes)}", *shared,
        ),
        machine.unit(_LEFT, 304, _WIDE, 108, machine.CONTROL, "Warpgroup", *threads),
        machine.unit(_MIDDLE, 304, 148, 108, machine.MEMORY, "Registers", *registers),
        machine.unit(_CORES, 304, _RIGHT - _CORES, 108, machine.UNIT, "Tensor Cores", "wgmma: multiply", "two blocks"),
    ]  # fmt: skip


def _flows(of: chips.Gpu) -> list[str]:
    """Draw the arrows, and the numbers of those for which somebody waits."""
    edge, tma = _LEFT + _WIDE, _LEFT + _WIDE / 2
    loads, stores, blocks = _MIDDLE + 36, _MIDDLE + 112, (_CORES + _RIGHT) / 2
    return [
        machine.arrow(tma, 66, tma, 136, both=True, thick=6),
        draw.label(
            tma + 18, 96, f"{text.byte_rate(of.hbm_bandwidth)} for all SMs together", size=machine.PLAIN, bold=True
        ),
        machine.arrow(edge, 164, _MIDDLE, 164),
        machine.mark((edge + _MIDDLE) / 2 - 4, 164, 1),
        machine.arrow(_MIDDLE, 206, edge, 206),
        machine.mark((edge + _MIDDLE) / 2 + 4, 206, 4),
        machine.arrow(loads, 232, loads, 304),
        machine.arrow(stores, 304, stores, 232),
        machine.mark(stores, 270, 3),
        machine.arrow(blocks, 232, blocks, 304),
        machine.mark(blocks, 264, 2),
        machine.arrow(_CORES, 358, _MIDDLE + 148, 358),
        machine.arrow(edge, 358, _MIDDLE, 358, both=True),
    ]


def _waits() -> list[str]:
    found = [draw.label(0, 456, "The threads wait for", size=machine.PLAIN, bold=True)]
    for n, (what, call) in enumerate(_WAITS, 1):
        y = 456 + 28 * n
        found += [
            machine.mark(14, y - 6, n),
            draw.label(36, y, what, 400, size=machine.PLAIN),
            draw.label(450, y, call, draw.INNER - 450, size=machine.PLAIN),
        ]
    return found
