"""One operand's array as a still picture: the plane of its last two axes, block by block, at one step of a grid."""

import math

import numpy as np

from course_lib.viz.common import draw
from course_lib.viz.grid_player import grid_step

_HIGH, _CELL = 120, (40, 24)  # most pixels: height of a plane; width and height of a block
_LEAST = 4  # pixels of a block; smaller ones are drawn together
NEVER, SEEN, PARTLY, COMPLETE, AGAIN, LOST, NOW = range(7)
FILL = {
    NEVER: draw.PAPER,
    SEEN: "#cfe3f1",
    PARTLY: "#e6eff6",
    COMPLETE: "#bfe5d8",
    AGAIN: "#fbe3c0",
    LOST: "#f9d3c0",
    NOW: draw.BLUE,
}


def plane(operand: dict, step: int, room: float, states: set[int], most: int) -> draw.Panel:
    """Draw the array in ``room`` pixels: blocks seen, the one in use, padding.

    Adds the states that occur to ``states``. Draws about ``most`` boxes at most, so that the picture stays small.
    """
    if operand["space"] == "hbm":
        return draw.Panel(draw.box(0, 0, min(room, 140), 70, FILL[NEVER], stroke=draw.INK), 72)
    run = grid_step.run_at(operand, step)
    sides = [_side(operand, axis, limit) for axis, limit in ((-2, (_HIGH, _CELL[1])), (-1, (room, _CELL[0])))]
    rows_px = sides[0][1]
    note = leading_words(operand, operand["starts"][operand["visits"][run]])
    if any(operand["element"]):
        body = _windows(operand, run, sides, states, most)
    else:
        body = _cells(operand, run, sides, states, most)
    body += _edge(operand, sides) + _wrong(operand, step, sides)
    if note:
        body += draw.label(0, rows_px + 15, note, room, fill=draw.MUTED)
    return draw.Panel(body, rows_px + (20 if note else 2))


def _side(operand: dict, axis: int, limit: tuple[float, float]) -> tuple[int, float, float]:
    """Return an axis as (first element drawn, pixels, pixels per element); blocks outside the array widen it a bit."""
    room, most = limit
    if len(operand["shape"]) < -axis:
        return 0, min(room, most), min(room, most)
    size, block = operand["shape"][axis], operand["block"][axis] or 1
    starts = operand["starts"][:, axis]
    low = min(0, max(int(starts.min()), -2 * block))
    high = max(size, min(int(starts.max()) + block, -(-size // block) * block + 2 * block))
    pixels = min(room, most * (high - low) / block)
    return low, pixels, pixels / max(high - low, 1)


def leading_words(operand: dict, start: np.ndarray) -> str:
    """Name the slice of the leading axes in which a block at ``start`` lies: "slice [2, 0:4] of [8, 8]"."""
    leading = list(zip(operand["shape"], operand["block"], start.tolist(), strict=True))[:-2]
    if not any(n > b for n, b, _ in leading):
        return ""
    at = ", ".join(str(s) if b == 1 else f"{s}:{s + b}" for _, b, s in leading)
    return f"slice [{at}] of {[n for n, _, _ in leading]}"


def _in_slice(operand: dict, run: int) -> np.ndarray:
    """Return the numbers of the blocks in the same slice as the run's block."""
    leading = operand["starts"][:, : max(len(operand["shape"]) - 2, 0)]
    return np.flatnonzero((leading == leading[operand["visits"][run]]).all(axis=1))


def _cells(operand: dict, run: int, sides: list, states: set[int], most: int) -> str:
    """Draw blocks side by side, neighbours of one state as one box, and lines between them."""
    found, bins = _coarse_states(operand, run, sides, most)
    shape = found.shape
    states.update(np.unique(found).tolist())
    high, wide = bins[0] * sides[0][2], bins[1] * sides[1][2]
    bottom, right = sides[0][1], sides[1][1]
    parts = [draw.box(0, 0, right, bottom, FILL[NEVER])]
    for top, left, tall, broad, state in _rectangles(found):
        x, y = left * wide, top * high
        box = (x, y, min(broad * wide, right - x), min(tall * high, bottom - y))
        parts.append(draw.box(*box, FILL[state]))
        if state == COMPLETE:
            parts.append(draw.hatch(*box, stroke=draw.GREEN, gap=9))
        if state in (AGAIN, LOST):
            parts.append(draw.hatch(*box, stroke=draw.RED, gap=6, lean=-1))
        if state == LOST:
            parts.append(draw.hatch(*box, stroke=draw.RED, gap=6))
    rules = [f"M{draw.number(n * wide)} 0V{draw.number(bottom)}" for n in range(1, shape[1])]
    rules += [f"M0 {draw.number(n * high)}H{draw.number(right)}" for n in range(1, shape[0])]
    if rules:
        parts.append(f'<path d="{"".join(rules)}" stroke="{draw.LINE}" fill="none"/>')
    for row, column in np.argwhere(found == NOW).tolist():
        at = (column * wide, row * high, min(wide, right - column * wide), min(high, bottom - row * high))
        parts.append(draw.box(*at, draw.BLUE, stroke=draw.INK))
    return "".join(parts)


def _wrong(operand: dict, step: int, sides: list) -> str:
    """Draw a red edge and a cross on the block of this step if something goes wrong with it."""
    run = grid_step.run_at(operand, step)
    if not grid_step.goes_wrong(operand)[run]:
        return ""
    start, spans = operand["starts"][operand["visits"][run]], []
    for axis, (low, pixels, scale) in zip((-2, -1), sides, strict=True):
        if len(start) < -axis:
            spans.append((0, pixels))
            continue
        begin = max(0, min(pixels - _LEAST, (start[axis] - low) * scale))
        spans.append((begin, max(_LEAST, min(pixels, (start[axis] + operand["block"][axis] - low) * scale) - begin)))
    (y, high), (x, wide) = spans
    half, x_mid, y_mid = min(8, wide / 2, high / 2), x + wide / 2, y + high / 2
    ends = [draw.number(v) for v in (x_mid - half, y_mid - half, 2 * half)]
    cross = f"M{ends[0]} {ends[1]}l{ends[2]} {ends[2]}m0 -{ends[2]}l-{ends[2]} {ends[2]}"
    edge = f"M{draw.number(x)} {draw.number(y)}h{draw.number(wide)}v{draw.number(high)}h{draw.number(-wide)}z"
    return (
        f'<path d="{cross}" fill="none" stroke="{draw.PAPER}" stroke-width="5"/>'
        f'<path d="{edge}{cross}" fill="none" stroke="{draw.RED}" stroke-width="2.5"/>'
    )


def _coarse_states(operand: dict, run: int, sides: list, most: int) -> tuple[np.ndarray, list[int]]:
    """Return the states of cells, and the size of a cell in elements: large enough to see, few enough boxes to draw."""
    least = _LEAST
    while True:
        low, bins, shape = [], [], []
        for axis, (first, pixels, scale) in zip((-2, -1), sides, strict=True):
            block = operand["block"][axis] if len(operand["shape"]) >= -axis else 1
            together = max(1, math.ceil(least / max(scale * block, 1e-9)))
            low.append(first)
            bins.append(together * block)
            shape.append(math.ceil(pixels / scale / block / together))
        found = _cell_states(operand, run, low, bins, shape)
        if len(_rectangles(found)) <= most or least > _HIGH:
            return found, bins
        least *= 2


def _cell_states(operand: dict, run: int, low: list, bins: list, shape: list) -> np.ndarray:
    """Return the state of each cell of the plane at a run: int[rows, columns]. A cell is ``bins`` elements large."""
    rank, here = len(operand["shape"]), _in_slice(operand, run)
    first, last, visits, again = _visits(operand, run)
    at = [
        (operand["starts"][here, axis] - start) // size if rank >= -axis else np.zeros(len(here), np.int64)
        for axis, start, size in zip((-2, -1), low, bins, strict=True)
    ]
    inside = (at[0] >= 0) & (at[0] < shape[0]) & (at[1] >= 0) & (at[1] < shape[1])
    here, cell = here[inside], (at[0] * shape[1] + at[1])[inside]

    def any_of(mask) -> np.ndarray:
        return np.bincount(cell[mask], minlength=shape[0] * shape[1]) > 0

    found = np.zeros(shape[0] * shape[1], int)
    seen = first[here] <= run
    found[any_of(seen)] = SEEN
    if operand["role"] == "output":
        found[any_of(seen & (last[here] < run))] = COMPLETE
        found[any_of(seen & (last[here] > run))] = AGAIN
    found[any_of(seen) & any_of(~seen)] = PARTLY
    found[any_of(again[here])] = LOST
    found[any_of(here == operand["visits"][run])] = NOW
    return found.reshape(shape)


def _visits(operand: dict, run: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return, for each block, its first and last run, how often it was visited so far, and whether it was lost."""
    block, count = operand["visits"].astype(np.int64), len(operand["starts"])
    first, last = np.full(count, len(block)), np.zeros(count, np.int64)
    np.minimum.at(first, block, np.arange(len(block)))
    np.maximum.at(last, block, np.arange(len(block)))
    visits = np.bincount(block[: run + 1], minlength=count)
    return first, last, visits, (visits > 1) & (operand["role"] == "output")


def _rectangles(states: np.ndarray) -> list[tuple[int, int, int, int, int]]:
    """Cover every seen cell with boxes of one state each: (top, left, height, width, state)."""
    found, open_boxes = [], {}
    for row, line in enumerate(states):
        edges = np.flatnonzero(np.diff(line, prepend=-1, append=-1))
        spans = {
            (int(a), int(b - a), int(line[a]))
            for a, b in zip(edges[:-1], edges[1:], strict=True)
            if line[a] not in (NEVER, NOW)
        }
        open_boxes = {span: open_boxes.get(span, row) for span in spans}
        below = states[row + 1] if row + 1 < len(states) else None
        for (left, wide, state), top in list(open_boxes.items()):
            if below is None or not _same_span(below, left, wide, state):
                found.append((top, left, row + 1 - top, wide, state))
                del open_boxes[left, wide, state]
    return found


def _same_span(line: np.ndarray, left: int, wide: int, state: int) -> bool:
    """Whether exactly these neighbours in a row have this state."""
    end = left + wide
    return bool(
        (line[left:end] == state).all()
        and (left == 0 or line[left - 1] != state)
        and (end == len(line) or line[end] != state)
    )


def _windows(operand: dict, run: int, sides: list, states: set[int], most: int) -> str:
    """Draw blocks that may overlap: the last few seen as outlines, the one in use filled."""
    (low_y, bottom, scale_y), (low_x, right, scale_x) = sides
    rank = len(operand["shape"])
    here = set(_in_slice(operand, run).tolist())
    order = list(dict.fromkeys(b for b in operand["visits"][: run + 1][::-1][: 4 * most].tolist() if b in here))
    states.update({NOW} | ({SEEN} if len(order) > 1 else set()))
    parts = [draw.box(0, 0, right, bottom, FILL[NEVER])]
    for place, number in reversed(list(enumerate(order[:most]))):
        start = operand["starts"][number]
        y, tall = ((start[-2] - low_y) * scale_y, operand["block"][-2] * scale_y) if rank >= 2 else (0, bottom)
        x, wide = (start[-1] - low_x) * scale_x, operand["block"][-1] * scale_x
        fill, edge = (draw.BLUE, draw.INK) if place == 0 else (FILL[SEEN], draw.GREY)
        parts.append(draw.box(x, y, wide, tall, fill, stroke=edge, opacity=0.7))
    return "".join(parts)


def _edge(operand: dict, sides: list) -> str:
    """Draw the edge of the array, and hatch the padding beyond it."""
    rank = len(operand["shape"])
    (low_y, bottom, scale_y), (low_x, right, scale_x) = sides
    x, wide = (-low_x * scale_x, operand["shape"][-1] * scale_x) if rank else (0, right)
    y, tall = (-low_y * scale_y, operand["shape"][-2] * scale_y) if rank >= 2 else (0, bottom)
    beyond = [(0, 0, x, bottom), (x + wide, 0, right - x - wide, bottom), (x, 0, wide, y)]
    beyond.append((x, y + tall, wide, bottom - y - tall))
    hatches = "".join(
        draw.box(*box, draw.PAPER) + draw.hatch(*box, stroke=draw.MUTED, gap=5, lean=-1)
        for box in beyond
        if min(box[2:]) >= 1
    )
    line = draw.box(x, y, wide, tall, "none", stroke=draw.INK)
    return hatches + line
