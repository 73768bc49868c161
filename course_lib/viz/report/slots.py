"""The use of instruction slots: one bar for each unit of the core."""

from course_lib import text
from course_lib.viz.common import core_units, draw

_ROW, _NAME, _BAR = 21, 110, 300
_ABSENT = "No slot figures: the compiler's dump does not contain them."
_MEANING = "share of the slots its bundles offer, each bundle counted once"


def panel(slots: dict[str, float]) -> draw.Panel:
    """Draw the bars. ``slots``: unit -> share of its slots filled, 0 to 1, as in ``Report.slots``."""
    if not slots:
        return draw.stacked([draw.heading("Instruction slots"), draw.paragraph(_ABSENT, fill=draw.MUTED)])
    rows = [_row(name, slots[name]) for name in core_units.in_order(slots)]
    return draw.stacked([draw.heading("Instruction slots filled", _MEANING), *rows])


def sentence(slots: dict[str, float]) -> str:
    """Return the bars in words."""
    if not slots:
        return _ABSENT
    parts = ", ".join(f"{name} {text.percent(slots[name])}" for name in core_units.in_order(slots))
    return f"Slots filled: {parts}."


def _row(name: str, share: float) -> draw.Panel:
    middle, does = _ROW - 7, core_units.DOES.get(name, "")
    filled = _BAR * min(max(share, 0), 1)
    return draw.Panel(
        draw.label(0, middle, name, _NAME - 8)
        + draw.box(_NAME, 3, _BAR, 14, draw.TRACK, radius=2)
        + (draw.box(_NAME, 3, max(filled, 1), 14, draw.BLUE, title=f"{name} {text.percent(share)}") if share else "")
        + draw.label(_NAME + _BAR + 48, middle, text.percent(share), 44, anchor="end", bold=True)
        + draw.label(_NAME + _BAR + 64, middle, does, draw.INNER - _NAME - _BAR - 64, fill=draw.MUTED),
        _ROW,
    )
