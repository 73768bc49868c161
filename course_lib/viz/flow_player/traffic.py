"""What several ways to compute the same result move to and from HBM, stage by stage."""

from collections.abc import Mapping, Sequence

from course_lib import chips, text, vocabulary
from course_lib.viz.common import draw
from course_lib.viz.flow_player import flow_picture, stages
from course_lib.viz.flow_player.flow_player import Flow, FlowPlayer
from course_lib.viz.flow_player.stages import Stage

_WIDTH = 332  # pixels of a variant; two fit side by side
_LANES = flow_picture.Lanes(left=0, op=130, arrow=92, cell=110)
_WHO, _TITLE = "traffic", "What moves between HBM and the core"
_LEGEND = [*flow_picture.ARROWS, (flow_picture.MARKED, "written by one stage, read by a later one")]


def traffic(variants: Mapping[str, Sequence[Stage]], *, chip: str = "v5e") -> FlowPlayer:
    """Show ways to compute the same result, side by side: what each stage reads from HBM and writes, totals, times.

    ``variants``: name -> ``Stage``s in order, as ``{"unfused": [...], "fused": [...]}``; up to 4, of up to 12 stages.
    Arrow widths are proportional to bytes, on one scale. An array that one stage writes and a later one reads is
    marked, because fusion saves that round trip through HBM. The time is bytes over the chip's HBM bandwidth,
    *predicted (model)*, without arithmetic or latency. The widget plays the stages with a running total. Raises
    ValueError for anything that is not a variant, and for an unknown chip.
    """
    given = stages.checked_variants(
        _WHO, variants, lambda name, value: stages.checked_stages(_WHO, f"variants[{name!r}]", value)
    )
    bandwidth, longest = chips.chip(chip).hbm_bandwidth, max(map(stages.total, given.values()))
    widest = max(move.bytes for each in given.values() for stage in each for move in stage.moves)
    said = {name: _totals(each, bandwidth) for name, each in given.items()}

    def drawn(name: str, live: bool) -> draw.Panel:
        return _variant(name, given[name], said[name], widest, longest, live)

    note = f"Time: bytes at the {text.byte_rate(bandwidth)} of a {chip}'s HBM, {vocabulary.MODEL}. {_compared(given)}"
    described = "\n".join([*(f"{name}: {'. '.join(_sentences(name, given, said))}." for name in given), note.strip()])
    flows = []
    for name, each in given.items():
        sheet = draw.sheet(drawn(name, True), f"HBM traffic: {name}", f"{said[name][-1]}.", _WIDTH)
        steps = [f"{name}: {words}" for words in _steps(each, said[name])]
        flows.append(Flow(name=name, drawings=[sheet], says=steps))
    still = _still([drawn(name, False) for name in given], note.strip(), described)
    return FlowPlayer(
        flows, title=_TITLE, note=note.strip(), together=True, legend=_LEGEND, still=still, text=described
    )


def _totals(each: Sequence[Stage], bandwidth: float) -> list[str]:
    """Describe the running total before the first stage, after each, and at the end."""
    found, moved = [], 0
    for done in range(len(each) + 1):
        moved += each[done - 1].bytes if done else 0
        stands = text.counted(done, "stage") if done == len(each) else f"{done} of {len(each)} stages"
        found.append(f"{stands}: {text.size(moved)}, {text.duration(moved / bandwidth)}")
    return found


def _steps(each: Sequence[Stage], totals: Sequence[str]) -> list[str]:
    return [f"{totals[0]}.", *(f"{moves(stage)}. {total}." for stage, total in zip(each, totals[1:], strict=True))]


def moves(stage: Stage) -> str:
    """Describe a stage: "add reads x (4 KiB), y (4 KiB) and writes z (4 KiB)"."""
    parts = []
    for verb, arrays in (("reads", stage.reads), ("writes", stage.writes)):
        if arrays:
            parts.append(f"{verb} " + ", ".join(f"{name} ({text.size(size)})" for name, size in arrays.items()))
    return f"{stage.name} {' and '.join(parts)}"


def _sentences(name: str, given: Mapping[str, Sequence[Stage]], said: Mapping[str, Sequence[str]]) -> list[str]:
    return [*map(moves, given[name]), said[name][-1]]


def _compared(given: Mapping[str, Sequence[Stage]]) -> str:
    """Compare the last variant with the first in a sentence; return "" if there is only one."""
    if len(given) < 2 or not all(map(stages.total, given.values())):
        return ""
    (first, one), (last, other) = list(given.items())[0], list(given.items())[-1]
    ratio = text.compared(stages.total(other), stages.total(one))
    return (
        f"{last} moves as many bytes as {first}."
        if ratio == "the same"
        else f"{last} moves {ratio} bytes than {first}."
    )


def _variant(
    name: str, each: Sequence[Stage], totals: Sequence[str], widest: int, longest: int, live: bool
) -> draw.Panel:
    back = stages.read_back(each)
    fills = dict.fromkeys(back, flow_picture.MARKED)
    top, tall = 26, flow_picture.height(each) + 36
    body = draw.label(0, 15, name, _WIDTH, size=15, bold=True)
    body += flow_picture.lane(_LANES.op_x, _LANES.op, top, tall, flow_picture.CORE, "core")
    body += flow_picture.lane(_LANES.cell_x, _LANES.cell, top, tall, flow_picture.HBM, "HBM")
    body += flow_picture.column(each, _LANES, top + 28, widest, fills)
    below = top + tall + 12
    body += flow_picture.bar(each, below, _WIDTH, longest)
    body += flow_picture.at_steps(totals, below + 30, _WIDTH, live)
    return draw.Panel(body, below + 38)


def _still(panels: Sequence[draw.Panel], note: str, described: str) -> str:
    """Draw all variants, complete, two in a row."""
    rows = []
    for n in range(0, len(panels), 2):
        pair = panels[n : n + 2]
        across = draw.INNER - _WIDTH
        body = "".join(draw.moved(panel, across * k, 0) for k, panel in enumerate(pair))
        rows.append(draw.Panel(body, max(panel.height for panel in pair)))
    end = [flow_picture.legend(_LEGEND, draw.INNER), draw.paragraph(note, size=flow_picture.SIZE)]
    return draw.card(draw.stacked([*rows, *end], gap=10), _TITLE, described)
