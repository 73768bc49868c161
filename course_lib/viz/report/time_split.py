"""Where the time goes: the simulator's critical path, as one bar of work and waiting."""

from course_lib import text
from course_lib.viz.common import draw

_ABSENT = "Where the time goes is not known: the simulator gave no critical path."

# part of the critical path -> (words of the legend, end of the sentence "56 % of the critical path ...")
_MEANINGS = {
    "issue": ("issues vector code", "issues vector instructions"),
    "DMA wait": ("waits for copies", "waits for copies between HBM and VMEM"),
    "MXU": ("waits for the MXU", "waits for the MXU"),
    "XLU": ("waits for the XLU", "waits for the XLU, which moves data between lanes"),
    "VPU": ("waits for the VPU", "waits for vector arithmetic"),
    "EUP": ("waits for the EUP", "waits for exp, tanh, 1/x and the like (EUP)"),
    "load": ("waits for loads", "waits for loads from VMEM"),
    "store": ("waits for stores", "waits for stores to VMEM"),
    "scalar": ("runs scalar code", "runs scalar code: addresses, loops, starting copies and awaiting them"),
}
# (fill, hatch): work is plain, waiting for copies leans right, other waits lean left
_LOOKS = {
    "issue": (draw.BLUE, 0),
    "DMA wait": (draw.ORANGE, 1),
    "MXU": (draw.GREEN, -1),
    "XLU": (draw.PURPLE, -1),
    "EUP": (draw.RED, -1),
    "VPU": (draw.SKY, -1),
}
_HEIGHT, _ROW, _COLUMNS = 26, 20, 2


def panel(split: dict[str, int]) -> draw.Panel:
    """Draw the bar with heading, sentence and legend.

    ``split``: what the critical path does or waits for -> cycles, as in ``Report.time_split``.
    """
    shown = _largest_first(split)
    if not shown:
        return draw.stacked([draw.heading("Where the time goes"), draw.paragraph(_ABSENT, fill=draw.MUTED)])
    head = draw.heading("Where the time goes", sentence(split))
    return draw.stacked([head, draw.Panel(_bar(shown), _HEIGHT + 8), draw.Panel(*_legend(shown))])


def sentence(split: dict[str, int]) -> str:
    """Say what the critical path does most of the time."""
    shown = _largest_first(split)
    if not shown:
        return _ABSENT
    name, cycles = next(iter(shown.items()))
    return f"{text.percent(cycles / sum(shown.values()))} of the critical path {_ending(name)}."


def _largest_first(split: dict[str, int]) -> dict[str, int]:
    there = {name: n for name, n in split.items() if n > 0}
    return dict(sorted(there.items(), key=lambda item: (-item[1], item[0])))


def _words(name: str) -> str:
    return _MEANINGS.get(name, (f"waits for {name}",))[0]


def _ending(name: str) -> str:
    return _MEANINGS.get(name, (None, f"waits for {name}"))[1]


def _bar(shown: dict[str, int]) -> str:
    parts = []
    places = draw.columns(draw.INNER, list(shown.values()))
    for (name, cycles), (left, width) in zip(shown.items(), places, strict=True):
        share = text.percent(cycles / sum(shown.values()))
        parts.append(_piece(name, left, 0, width, _HEIGHT, f"{_words(name)}: {share}, {text.count(cycles)} cycles"))
        if width > draw.width_of(share, 12, True) + 14:
            parts.append(_plate(left + width / 2, share))
    return "".join(parts)


def _piece(name: str, left: float, top: float, width: float, height: float, title: str = "") -> str:
    fill, lean = _LOOKS.get(name, (draw.GREY, -1))
    body = draw.box(left, top, width, height, fill, title=title)
    if lean and width >= 3:
        body += draw.hatch(left, top, width, height, lean=lean)
    return body + (draw.line(left, top, left, top + height, draw.PAPER, width=1.5) if left else "")


def _plate(middle: float, share: str) -> str:
    """Write the share on a small white plate, legible on every colour and hatch."""
    width = draw.width_of(share, 12, True) + 8
    plate = draw.box(middle - width / 2, 4, width, _HEIGHT - 8, draw.PAPER, radius=3)
    return plate + draw.label(middle, 17, share, width, bold=True, anchor="middle")


def _legend(shown: dict[str, int]) -> tuple[str, float]:
    total, room = sum(shown.values()), draw.INNER / _COLUMNS
    parts = []
    for n, (name, cycles) in enumerate(shown.items()):
        left, top = (n % _COLUMNS) * room, (n // _COLUMNS) * _ROW
        figure = f"{text.percent(cycles / total)}, {text.count(cycles)} cycles"
        parts.append(
            draw.moved(draw.Panel(_piece(name, 0, 0, 12, 12), 12), left, top + 2)
            + draw.label(left + 20, top + 12, _words(name), 150)
            + draw.label(left + 178, top + 12, figure, room - 182, fill=draw.MUTED)
        )
    return "".join(parts), _ROW * -(-len(shown) // _COLUMNS)
