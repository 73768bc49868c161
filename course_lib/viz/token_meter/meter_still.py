"""The still picture of the token meter: one step as two bars, the chip's memory, and what more sequences give."""

from typing import NamedTuple

from course_lib import text
from course_lib.viz.common import draw
from course_lib.viz.token_meter.decode_costs import (
    Cost,
    Memory,
    Model,
    Setting,
    binds,
    cost,
    fits,
    milliseconds,
    rate,
)

BATCHES = (1, 4, 16, 64, 256)  # in the table
_HEAD = ("sequences", "weights, ms", "KV cache, ms", "tokens/s in all", "of each", "fits")
_RIGHT = (90, 196, 320, 466, 590, 684)  # pixels at which the columns of the table end
_SIZE, _BAR, _LEFT = 14, 22, 88  # letters; height and left edge of the bars
_TITLE = "Tokens per second, by bandwidth alone"


class Shown(NamedTuple):
    """What the picture is of."""

    model: Model
    setting: Setting
    chip: str
    memory: Memory


def _cost(shown: Shown) -> Cost:
    return cost(shown.model, shown.setting, shown.memory)


def _about(shown: Shown) -> str:
    given = shown.setting
    return (
        f"{text.significant(shown.model.parameters / 1e9, 4)} billion parameters on a {shown.chip} "
        f"({text.byte_rate(shown.memory.bandwidth)}): {text.counted(given.sequences, 'sequence')} of {given.context:,} "
        f"tokens, {text.counted(given.weight_bytes, 'byte')} a weight, {text.counted(given.kept_bytes, 'byte')} a kept "
        "element."
    )


def _rates(found: Cost) -> str:
    return f"{rate(found.total)} in all, {rate(found.each)} for each sequence."


def _table(shown: Shown) -> list[tuple[str, ...]]:
    rows = [_HEAD]
    for sequences in BATCHES:
        found = _cost(shown._replace(setting=shown.setting._replace(sequences=sequences)))
        figures = 1000 * found.weights_s, 1000 * found.kept_s, found.total, found.each
        shown_as = [text.significant(figure, 3) for figure in figures]
        rows.append((str(sequences), *shown_as, "yes" if found.free >= 0 else "no"))
    return rows


def as_text(shown: Shown) -> str:
    """Return the setting, tokens per second, what takes longer, whether it fits, and the table of more sequences."""
    found = _cost(shown)
    said = [_TITLE, _about(shown), _rates(found), binds(found), fits(found, shown.memory), _of_table(shown)]
    return text.folded("\n".join([*said, *text.table(_table(shown), right={0, 1, 2, 3, 4, 5})]))


def _of_table(shown: Shown) -> str:
    return f"The same with other numbers of sequences, {shown.setting.context:,} tokens each:"


def still(shown: Shown) -> str:
    """Draw one step as two bars, one after the other, the memory below them, and a table of more sequences, as SVG."""
    found = _cost(shown)
    rows = [
        draw.Panel("".join(_cell(words, n, bold=not number) for n, words in enumerate(row)), 22)
        for number, row in enumerate(_table(shown))
    ]
    panels = [
        draw.paragraph(_TITLE, size=16, bold=True),
        draw.paragraph(_about(shown), size=_SIZE),
        draw.paragraph(_rates(found), size=16, bold=True),
        _bars(found),
        draw.paragraph(binds(found), size=_SIZE),
        _memory(found, shown.memory),
        draw.paragraph(f"{fits(found, shown.memory)} The chip's memory ends at the line.", size=_SIZE),
        draw.paragraph(_of_table(shown), size=_SIZE, fill=draw.MUTED),
        draw.stacked(rows),
    ]
    return draw.card(draw.stacked(panels, gap=8), _TITLE, as_text(shown))


def _cell(words: str, column: int, bold: bool) -> str:
    return draw.label(_RIGHT[column], 15, words, 140, size=_SIZE, bold=bold, anchor="end")


def _bars(found: Cost) -> draw.Panel:
    """Draw the two parts of a step, the second from where the first ends."""
    step, room, body = found.weights_s + found.kept_s, draw.INNER - _LEFT, ""
    begins = 0.0
    parts = (
        ("weights", found.weights, found.weights_s, draw.BLUE),
        ("KV cache", found.kept, found.kept_s, draw.ORANGE),
    )
    for n, (name, size, seconds, color) in enumerate(parts):
        top, wide = n * (_BAR + 24), room * seconds / step
        words = f"{milliseconds(seconds)}, {text.size(size)}"
        body += draw.label(0, top + 16, name, _LEFT, size=_SIZE, bold=True)
        body += draw.box(_LEFT, top, room, _BAR, draw.TRACK)
        body += draw.box(_LEFT + begins, top, max(2, wide), _BAR, color)
        at = min(_LEFT + begins, draw.INNER - draw.width_of(words, _SIZE))
        body += draw.label(at, top + _BAR + 15, words, room, size=_SIZE)
        begins += min(wide, room - 2)
    return draw.Panel(body, 2 * (_BAR + 24))


def _memory(found: Cost, memory: Memory) -> draw.Panel:
    """Draw both in the chip's memory, which ends at a line."""
    whole, room = max(memory.hbm_bytes, found.weights + found.kept), draw.INNER - _LEFT
    weights, kept = (room * size / whole for size in (found.weights, found.kept))
    end = _LEFT + room * memory.hbm_bytes / whole
    body = draw.label(0, 16, "memory", _LEFT, size=_SIZE, bold=True)
    body += draw.box(_LEFT, 0, room, _BAR, draw.TRACK) + draw.box(_LEFT, 0, weights, _BAR, draw.BLUE)
    body += draw.box(_LEFT + weights, 0, kept, _BAR, draw.ORANGE)
    return draw.Panel(body + draw.line(end, -3, end, _BAR + 3, draw.INK, width=3), _BAR + 4)
