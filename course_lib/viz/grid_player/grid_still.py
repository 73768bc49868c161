"""One step of a grid as a still picture: every operand in HBM, and its block in VMEM."""

import numpy as np

from course_lib import text
from course_lib.viz.common import draw
from course_lib.viz.grid_player import grid_accumulator, grid_step
from course_lib.viz.grid_player.grid_still_plane import AGAIN, COMPLETE, FILL, LOST, NOW, PARTLY, SEEN, plane

_LEFT, _GAP = 58, 18  # pixels: for the words HBM and VMEM; between operands
_MOST = 4  # operands side by side
_SLOT = 26
_BOXES = 100  # in all planes together
_HBM, _VMEM = "#eef1f5", "#fdf3d8"
_WORDS = {
    NOW: "in use",
    SEEN: "seen before",
    PARTLY: "some of these blocks seen",
    COMPLETE: "complete",
    AGAIN: "written back, but comes again",
    LOST: "visited again, not copied in",
}


def still(kernel: dict, step: int) -> str:
    """Draw the step as a card."""
    said, words = grid_step.problems(kernel, step), grid_step.caption(kernel, step)
    operands = kernel["operands"]
    rows = [operands[n : n + _MOST] for n in range(0, len(operands), _MOST)]
    states = set()
    panels = [draw.heading(kernel["title"], f"grid {tuple(kernel['grid'])}, {text.counted(kernel['steps'], 'step')}")]
    panels += [_row(kernel, row, step, states) for row in rows]
    panels += [_carried(kernel["accumulators"], step)] if kernel["accumulators"] else []
    panels += [_legend(states, any(_held_before(operand, step) for operand in operands))]
    panels += [draw.paragraph(sentence, size=13, bold=True, fill=draw.RED) for sentence in said]
    panels += [draw.paragraph(words, size=13)]
    return draw.card(draw.stacked(panels, gap=8), f"The grid of {kernel['title']}", " ".join([words, *said]))


def _row(kernel: dict, operands: list[dict], step: int, states: set[int]) -> draw.Panel:
    """Draw operands side by side, with a band for HBM and one for VMEM behind them."""
    room = (draw.INNER - _LEFT - _GAP * len(operands)) / max(len(operands), 1)
    most = max(6, _BOXES // len(kernel["operands"]))
    planes = [plane(operand, step, room, states, most) for operand in operands]
    high = max((drawn.height for drawn in planes), default=0) + 60
    top, below = high + 30, _SLOT + 16
    parts = [
        draw.box(0, 0, draw.INNER, high + 8, _HBM, radius=4) + draw.label(8, 20, "HBM", size=13, bold=True),
        draw.box(0, top, draw.INNER, below, _VMEM, radius=4) + draw.label(8, top + 26, "VMEM", size=13, bold=True),
    ]
    for n, (operand, drawn) in enumerate(zip(operands, planes, strict=True)):
        x = _LEFT + n * (room + _GAP)
        parts.append(draw.label(x, 18, operand["name"], room, size=13, bold=True))
        parts.append(draw.label(x, 34, f"{operand['dtype']}{operand['shape']}", room, fill=draw.MUTED))
        cut = "no BlockSpec copies it" if operand["space"] == "hbm" else f"block {tuple(operand['block'])}"
        parts.append(draw.label(x, 50, cut, room, fill=draw.MUTED))
        parts.append(draw.moved(drawn, x, 58))
        parts.append(_way(operand, step, x, high + 8, room))
        parts.append(_slots(operand, step, x, top + 8, room))
    return draw.Panel("".join(parts), top + below)


def _way(operand: dict, step: int, x: float, y: float, room: float) -> str:
    """Draw, between the bands, an arrow for a copy with its bytes, or say that there is none."""
    arrow, words = _move(operand, step)
    if not arrow:
        return draw.label(x, y + 15, words, room, fill=draw.MUTED)
    down = arrow == "down"
    tip, tail = (y + 21, y + 1) if down else (y + 1, y + 21)
    back = -7 if down else 7
    stroke = (
        f'<path d="M{draw.number(x + 6)} {draw.number(tail)}V{draw.number(tip)}m-5 {back}l5 {-back}l5 {back}" '
        f'fill="none" stroke="{draw.INK}" stroke-width="2.5"/>'
    )
    return stroke + draw.label(x + 18, y + 15, words, room - 18, bold=True)


def _move(operand: dict, step: int) -> tuple[str, str]:
    if operand["space"] == "hbm":
        return "", "copied by the kernel itself" if operand["byHand"] else "stays in HBM"
    if operand["role"] == "prefetch":
        return "", "there from the start"
    run, ends = grid_step.run_at(operand, step), np.cumsum(operand["lengths"])
    size = text.size(int(operand["bytes"][operand["visits"][run]]))
    if operand["role"] == "output":
        return ("up", f"written back, {size}") if step == ends[run] - 1 else ("", "stays: no copy")
    if step == ends[run] - operand["lengths"][run]:
        return "down", f"copied in, {size}"
    return "", "same block: no copy"


def _slots(operand: dict, step: int, x: float, y: float, room: float) -> str:
    """Draw the buffers of the operand, the one in use filled."""
    if operand["space"] == "hbm":
        return draw.label(x, y + 17, "no buffer of its own", room, fill=draw.MUTED)
    run, count = grid_step.run_at(operand, step), min(operand["buffers"], 3)
    wide = min((room - 4 * (count - 1)) / count, 90)
    parts = []
    for slot in range(count):
        at = run - (run - slot) % operand["buffers"]
        words = grid_step.block(operand, at).split(" ", 1)[1].removeprefix("at element ") if at >= 0 else "free"
        fill, ink = (draw.BLUE, draw.PAPER) if at == run else (draw.PAPER, draw.MUTED)
        left = x + slot * (wide + 4)
        parts.append(draw.box(left, y, wide, _SLOT, fill, stroke=draw.MUTED))
        parts.append(draw.label(left + wide / 2, y + 17, words, wide - 4, fill=ink, anchor="middle", bold=at == run))
    if operand["space"] == "smem":
        parts.append(draw.label(x + count * (wide + 4) + 4, y + 17, "in SMEM", room, fill=draw.MUTED))
    return "".join(parts)


def _carried(accumulators: list[dict], step: int) -> draw.Panel:
    """Draw the accumulators that VMEM keeps from step to step: a box for each part that they hold."""
    head, row = 24, 30
    body = draw.box(0, 0, draw.INNER, head + row * len(accumulators), _VMEM, radius=4)
    body += draw.label(8, 17, "Carried in VMEM from step to step", size=13, bold=True)
    for n, each in enumerate(accumulators):
        y, garbage = head + n * row, grid_accumulator.is_garbage(each, step)
        body += draw.label(8, y + 17, each["name"], 150, size=13, bold=True)
        body += _parts(each, step, _LEFT + 110, y + 3, garbage)
        said, ink = " → ".join(grid_accumulator.words(each, step)), draw.RED if garbage else draw.INK
        body += draw.label(_LEFT + 328, y + 17, said, draw.INNER - _LEFT - 332, size=13, bold=True, fill=ink)
    return draw.Panel(body, head + row * len(accumulators))


def _parts(each: dict, step: int, left: float, y: float, garbage: bool) -> str:
    body, parts, of = "", int(each["parts"][step]), int(each["of"][step])
    cells = min(of, grid_accumulator.MOST_CELLS)
    for cell, (x, wide) in enumerate(draw.columns(210, [1] * cells)):
        begins, ends = cell * of // cells, (cell + 1) * of // cells  # the parts in this cell
        now = begins < parts <= ends and grid_accumulator.adds(each, step)
        fill = FILL[AGAIN] if garbage else FILL[NOW] if now else FILL[SEEN] if parts >= ends else draw.PAPER
        body += draw.box(left + x, y, wide - 2, 18, fill, stroke=draw.MUTED)
        body += draw.hatch(left + x, y, wide - 2, 18, stroke=draw.RED, gap=5, lean=-1) if garbage else ""
    return body


def _held_before(operand: dict, step: int) -> bool:
    """Whether a buffer not in use still shows a block."""
    return operand["space"] != "hbm" and operand["buffers"] > 1 and grid_step.run_at(operand, step) > 0


def _legend(states: set[int], held_before: bool) -> draw.Panel:
    """Draw a legend of the fills that occur, and below it a note on what a second buffer shows."""
    body, x = "", 0.0
    for state, words in _WORDS.items():
        if state not in states:
            continue
        body += draw.box(x, 1, 14, 14, FILL[state], stroke=draw.MUTED)
        if state == COMPLETE:
            body += draw.hatch(x, 1, 14, 14, stroke=draw.GREEN, gap=6)
        if state in (AGAIN, LOST):
            body += draw.hatch(x, 1, 14, 14, stroke=draw.RED, gap=5, lean=-1)
        if state == LOST:
            body += draw.hatch(x, 1, 14, 14, stroke=draw.RED, gap=5)
        body += draw.label(x + 20, 13, words, draw.INNER - x)
        x += 38 + draw.width_of(words)
    if not held_before:
        return draw.Panel(body, 16)
    note = "In VMEM, the blue buffer is in use. Another that still shows a block is free for the next one."
    return draw.Panel(body + draw.label(0, 33, note, fill=draw.MUTED), 38)
