"""A forward pass and its backward pass: what each stage moves, and which arrays are kept in between."""

from collections.abc import Mapping, Sequence

from course_lib import chips, text, vocabulary
from course_lib.viz.common import draw
from course_lib.viz.flow_player import flow_picture, stages
from course_lib.viz.flow_player.flow_player import Flow, FlowPlayer
from course_lib.viz.flow_player.stages import Stage
from course_lib.viz.flow_player.traffic import moves

_WHO, _TITLE = "gradient_flow", "Forward and backward pass"
_NARROW = 430  # pixels of a narrow page
_LEGEND = [*flow_picture.ARROWS, (flow_picture.MARKED, "kept for the backward pass")]


def gradient_flow(variants: Mapping[str, tuple[Sequence[Stage], Sequence[Stage]]], *, chip: str = "v5e") -> FlowPlayer:
    """Show the forward stages, running down, beside the backward stages, running up, with the kept arrays between them.

    ``variants``: name -> (forward stages, backward stages), each a list of ``Stage``s in the order in which they run,
    as ``{"save y": (forward, backward), "recompute y": (forward, backward)}``; up to 4. Arrow widths are proportional
    to bytes, on one scale. An array that the forward stages read or write and a backward stage reads is marked and
    counted as kept for the backward pass. Times are bytes over the chip's HBM bandwidth, *predicted (model)*. The
    widget shows one variant at a time, the still shows all. Raises ValueError for anything that is not a variant, and
    for an unknown chip.
    """
    given = stages.checked_variants(_WHO, variants, _checked)
    bandwidth = chips.chip(chip).hbm_bandwidth
    every = [stage for both in given.values() for each in both for stage in each]
    widest = max(move.bytes for stage in every for move in stage.moves)
    longest = max(stages.total([*forward, *backward]) for forward, backward in given.values())
    said = {name: _running(*both, bandwidth) for name, both in given.items()}

    def drawn(name: str, width: float, live: bool) -> draw.Panel:
        return _variant(name, *given[name], said[name], (width, widest, longest), live)

    note = f"Time: bytes at the {text.byte_rate(bandwidth)} of a {chip}'s HBM, {vocabulary.MODEL}."
    described = "\n".join([*(_sentence(name, *given[name], said[name][-1]) for name in given), note])
    flows = []
    for name, (forward, backward) in given.items():
        sheets = [
            draw.sheet(drawn(name, width, True), f"Gradient: {name}", said[name][-1], width)
            for width in (draw.INNER, _NARROW)
        ]
        after = [f"{moves(stage)}. " for stage in (*forward, *backward)]
        says = [
            f"{did}{total}. {kept_words(forward, backward)}"
            for did, total in zip(["", *after], said[name], strict=True)
        ]
        flows.append(Flow(name=name, drawings=sheets, says=says))
    end = [flow_picture.legend(_LEGEND, draw.INNER), draw.paragraph(note, size=flow_picture.SIZE)]
    still = draw.stacked([*(drawn(name, draw.INNER, False) for name in given), *end], gap=14)
    still = draw.card(still, _TITLE, described)
    return FlowPlayer(flows, title=_TITLE, note=note, together=False, legend=_LEGEND, still=still, text=described)


def _checked(name: str, value: object) -> tuple[tuple[Stage, ...], tuple[Stage, ...]]:
    where = f"variants[{name!r}]"
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise ValueError(f"{_WHO}: {where} is {value!r}. Give two lists of stages: (forward, backward).")
    forward, backward = value
    return (
        stages.checked_stages(_WHO, f"{where}[0], forward,", forward),
        stages.checked_stages(_WHO, f"{where}[1], backward,", backward),
    )


def kept_words(forward: Sequence[Stage], backward: Sequence[Stage]) -> str:
    """Say what is kept: "Kept for the backward pass: x (4 KiB), y (4 KiB), together 8 KiB."."""
    kept = stages.residuals(forward, backward)
    if not kept:
        return "Nothing is kept for the backward pass."
    arrays = ", ".join(f"{name} ({text.size(size)})" for name, size in kept.items())
    return (
        f"Kept for the backward pass: {arrays}{f', together {text.size(sum(kept.values()))}' if len(kept) > 1 else ''}."
    )


def _running(forward: Sequence[Stage], backward: Sequence[Stage], bandwidth: float) -> list[str]:
    """Describe the running total before the first stage and after each."""
    found, moved = [], [0, 0]
    every = [*((0, stage) for stage in forward), *((1, stage) for stage in backward)]
    for n in range(len(every) + 1):
        if n:
            moved[every[n - 1][0]] += every[n - 1][1].bytes
        back = f", backward {text.size(moved[1])}" if n > len(forward) else ""
        found.append(f"Forward {text.size(moved[0])}{back}: {text.duration(sum(moved) / bandwidth)}")
    return found


def _sentence(name: str, forward: Sequence[Stage], backward: Sequence[Stage], total: str) -> str:
    ways = (
        f"{words}: {', then '.join(map(moves, each))}."
        for words, each in (("Forward", forward), ("Backward", backward))
    )
    return f"{name}. {' '.join(ways)} {kept_words(forward, backward)} {total}."


def _lanes(width: float) -> tuple[flow_picture.Lanes, flow_picture.Lanes]:
    """Place the forward column on the left and the backward one on the right, with their arrays facing each other."""
    op, arrow, cell = (120, 82, 104) if width > 600 else (90, 26, 82)
    forward = flow_picture.Lanes(left=0, op=op, arrow=arrow, cell=cell)
    return forward, flow_picture.Lanes(
        left=width - forward.width, op=op, arrow=arrow, cell=cell, mirrored=True, upwards=True
    )


def _variant(name: str, forward, backward, totals: Sequence[str], sizes: tuple, live: bool) -> draw.Panel:
    width, widest, longest = sizes
    left, right = _lanes(width)
    kept = stages.residuals(forward, backward)
    fills = dict.fromkeys(kept, flow_picture.MARKED)
    high = max(flow_picture.height(forward), flow_picture.height(backward))
    top, inside, tall = 26, 54, high + 36
    sides = [(forward, left, inside), (backward, right, inside + high - flow_picture.height(backward))]
    hbm = right.cell_x + right.cell - left.cell_x
    body = draw.label(0, 15, name, width, size=15, bold=True)
    body += flow_picture.lane(left.op_x, left.op, top, tall, flow_picture.CORE, "forward ↓")
    body += flow_picture.lane(right.op_x, right.op, top, tall, flow_picture.CORE, "backward ↑")
    body += flow_picture.lane(left.cell_x, hbm, top, tall, flow_picture.HBM, "HBM")
    body += _ribbons(kept, sides, widest)
    body += flow_picture.column(forward, left, inside, widest, fills)
    body += flow_picture.column(backward, right, sides[1][2], widest, fills, first=len(forward) + 1)
    below = top + tall + 12
    body += flow_picture.bar([*forward, *backward], below, width, longest)
    body += flow_picture.at_steps(totals, below + 30, width, live)
    lines = draw.paragraph(kept_words(forward, backward), size=flow_picture.SIZE, room=width)
    return draw.Panel(body + draw.moved(lines, 0, below + 38), below + 42 + lines.height)


def _ribbons(kept: Mapping[str, int], sides: Sequence[tuple], widest: int) -> str:
    """Draw a curve from where the forward stages leave each kept array to where the backward stages read it."""
    (forward, left, left_top), (backward, right, right_top) = sides
    leaves = {array: y for array, _, y in flow_picture.cells(forward, left, left_top)}  # the last place of each array
    parts, x0, x1 = [], left.cell_x + left.cell - 3, right.cell_x + 3
    for array, way, y in flow_picture.cells(backward, right, right_top):
        if array not in kept or way == "write":
            continue
        middle, path = (x0 + x1) / 2, [draw.number(v) for v in (x0, leaves[array], y, x1)]
        curve = (
            f"M{path[0]} {path[1]}C{draw.number(middle)} {path[1]} {draw.number(middle)} {path[2]} {path[3]} {path[2]}"
        )
        wide = draw.number(flow_picture.thickness(kept[array], widest))
        parts.append(
            f'<path d="{curve}" fill="none" stroke="{draw.ORANGE}" stroke-width="{wide}" stroke-opacity="0.75">'
            f"<title>{draw.escape(array)} is kept</title></path>"
        )
    return "".join(parts)
