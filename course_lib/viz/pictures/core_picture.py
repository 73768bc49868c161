"""A TensorCore in one picture: its units and memories, what flows between them, and how much at once."""

from course_lib import chips, text
from course_lib.viz.common import draw
from course_lib.viz.common.picture import Picture
from course_lib.viz.pictures import machine

_LEFT, _WIDE = 14, 184  # left edge and width of the scalar side
_MIDDLE, _RIGHT = 236, draw.INNER - 14  # edges of the vector side
_EACH = (_RIGHT - _LEFT - 3 * 12) / 4  # width of a vector unit
_DOWN = _MIDDLE + 40  # x of most arrows
_BUS, _UNITS = 424, 470  # y of the line that feeds the units, and of their top


def core_picture(*, chip: str = "v5e") -> Picture:
    """Draw the core of a TPU: scalar unit and SMEM, VPU with its registers, MXU, XLU, EUP, VMEM, HBM, links.

    Sizes, registers and slots come from ``chips.chip``, links from ``chips.links``. Raises ValueError for an unknown
    chip.
    """
    of, out = chips.chip(chip), chips.links(chip)
    several = of.tensor_cores > 1
    title = f"One of the {of.tensor_cores} TensorCores of a {chip}" if several else f"The TensorCore of a {chip}"
    panel = draw.Panel("".join([*_outside(of, out), *_scalar(of), *_vector(of), *_flows(of)]), 640)
    drawn = draw.stacked([draw.paragraph(title, size=machine.BIG, bold=True), panel], gap=8)
    words = as_text(of, out, title)
    return Picture(svg=draw.card(drawn, title, words), text=words)


def as_text(of: chips.Chip, out: chips.Links, title: str) -> str:
    """Return the picture in words, line by line."""
    word, slots, rate = text.size(of.register_bytes), of.slots, text.byte_rate(of.hbm_bandwidth)
    both = f" for each of {of.tensor_cores} cores" if of.tensor_cores > 1 else ""
    lines = (
        f"{title}.",
        f"HBM: {machine.gib(of.hbm_bytes)}{both}. The DMA engines copy between it and VMEM at {rate}, "
        "in the background.",
        f"Links: to {out.neighbours} neighbouring chips, to which the DMA engines copy as well, and to the host.",
        f"SMEM: {text.size(of.smem_bytes)}. The scalar unit, which issues all bundles, reads 32-bit words from it.",
        f"VMEM: {text.size(of.vmem_bytes)}. A bundle loads up to {text.counted(slots['load'], 'register')} from it "
        f"and stores {slots['store']}, {word} each.",
        f"Vector registers: {of.registers} of {of.sublanes} sublanes x {of.lanes} lanes x 32 bits, {word} each.",
        f"VPU: up to {slots['VPU']} operations a bundle, each on {of.sublanes * of.lanes:,} elements.",
        f"EUP: {text.counted(slots['EUP'], 'operation')} a bundle: exp, tanh, 1/x.",
        f"XLU: {text.counted(slots['XLU'], 'unit')} that move data between lanes.",
        f"MXU: {of.mxus} units, each with {of.mxu_size} x {of.mxu_size} weights.",
        f"Results of MXU, XLU and EUP are popped into registers, {slots['pop']} a bundle.",
    )
    return "\n".join(lines)


def _outside(of: chips.Chip, out: chips.Links) -> list[str]:
    """Draw HBM and links at the top, and the frame of the core below them."""
    link = [] if out.link_bandwidth is None else [f"{text.byte_rate(out.link_bandwidth)} each way"]
    edge, words = _LEFT + _WIDE, "arrays live here; no unit reads it directly"
    return [
        machine.unit(_MIDDLE, 4, _RIGHT - _MIDDLE, 62, machine.OUTSIDE, f"HBM {machine.gib(of.hbm_bytes)}", words),
        machine.unit(0, 4, edge, 94, machine.OUTSIDE, "Links", f"{out.neighbours} other chips", *link, "the host"),
        machine.arrow(_DOWN, 82, edge, 82),  # the same engines copy to and from other chips
        draw.box(0, 128, draw.INNER, 508, draw.PAPER, stroke=draw.MUTED, radius=8),
    ]


def _scalar(of: chips.Chip) -> list[str]:
    does = ("issues a bundle", "each cycle; loops,", "addresses,", "starts copies")
    return [
        machine.unit(_LEFT, 146, _WIDE, 68, machine.CONTROL, f"SMEM {text.size(of.smem_bytes)}", "words of 32 bits"),
        machine.unit(_LEFT, 272, _WIDE, 116, machine.CONTROL, "Scalar unit", *does),
    ]


def _vector(of: chips.Chip) -> list[str]:
    wide, slots = _RIGHT - _MIDDLE, of.slots
    shape = f"{of.sublanes} sublanes x {of.lanes} lanes x 32 bits"
    units = [
        ("VPU", f"{slots['VPU']} operations", "a bundle: add,", "max, select"),
        ("EUP", text.counted(slots["EUP"], "operation"), "a bundle: exp,", "tanh, 1/x"),
        ("XLU", f"{text.counted(slots['XLU'], 'unit')}: move", "data between", "lanes; transpose"),
        ("MXU", f"{of.mxus} units of", f"{of.mxu_size} x {of.mxu_size}", "multiply-adds"),
    ]
    return [
        machine.unit(
            _MIDDLE,
            146,
            wide,
            68,
            machine.MEMORY,
            f"VMEM {text.size(of.vmem_bytes)}",
            "blocks, scratch, spilled registers",
        ),
        machine.unit(_MIDDLE, 272, wide, 88, machine.MEMORY, f"{of.registers} vector registers", shape, _each(of)),
        *(
            machine.unit(_LEFT + n * (_EACH + 12), _UNITS, _EACH, 108, machine.UNIT, *lines)
            for n, lines in enumerate(units)
        ),
    ]


def _each(of: chips.Chip) -> str:
    return f"= {text.size(of.register_bytes)} each"


def _flows(of: chips.Chip) -> list[str]:
    """Draw the arrows, and how much each carries at once."""
    word, slots, store = text.size(of.register_bytes), of.slots, _DOWN + 190
    middles = [_LEFT + n * (_EACH + 12) + _EACH / 2 for n in range(4)]
    arrows = [
        machine.arrow(_DOWN, 66, _DOWN, 146, both=True, thick=6),
        machine.arrow(_LEFT + 60, 214, _LEFT + 60, 272, both=True),
        machine.arrow(_DOWN, 214, _DOWN, 272, thick=5),
        machine.arrow(store, 272, store, 214),
        machine.arrow(_DOWN, _BUS, _DOWN, 360),
        draw.line(middles[0] - 1.5, _BUS, middles[-1] + 1.5, _BUS, draw.INK, width=3),
        *(machine.arrow(middle, _BUS, middle, _UNITS, both=False) for middle in middles),
    ]
    said = [
        (_DOWN + 20, 92, f"DMA engines: {text.byte_rate(of.hbm_bandwidth)},", draw.INK, True),
        (_DOWN + 20, 112, "in the background", draw.INK, False),
        (_LEFT + 76, 248, "one word", draw.INK, False),
        (_DOWN + 14, 248, f"{slots['load']} x {word}", draw.INK, True),
        (store + 14, 248, f"{slots['store']} x {word} a bundle", draw.INK, True),
        (_DOWN + 16, 386, f"operands down; {slots['pop']} results a bundle", draw.INK, False),
        (_DOWN + 16, 406, "popped from EUP, XLU and MXU", draw.INK, False),
        (_LEFT, 604, "In one cycle, a bundle tells every unit what to begin.", draw.MUTED, False),
        (_LEFT, 624, "Copies, MXU, XLU and EUP continue in the background.", draw.MUTED, False),
    ]
    return arrows + [
        draw.label(x, y, words, 660, size=machine.PLAIN, fill=fill, bold=bold) for x, y, words, fill, bold in said
    ]
