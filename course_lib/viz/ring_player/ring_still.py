"""The still picture of the ring player: the ring at one moment, and the lanes over the whole time."""

import math

from course_lib.viz.common import draw
from course_lib.viz.ring_player import ring_data
from course_lib.viz.ring_player.ring_data import Moves

_TITLE = "What travels between the devices"
_NOTE = (
    "Blue: to the next device round the ring. Orange: to the one before. Green: the core. A thin line leads from what "
    "arrives to the copy that waited for it. A hatched device waits."
)
FILL = {0: draw.SKY, 1: draw.ORANGE, 2: "#66c5a8"}  # of lanes onwards, back, of cores; ring_player.css has the same
_DEVICE = 17  # half the side of a device
_NAMES, _SHARE, _HIGH = 96, 48, 20  # pixels of lane names and shares; of a lane
_MOST_LINES = 120  # more would hide the bars


def still(found: Moves, number: int) -> str:
    """Draw moment ``number`` of a schedule as SVG."""
    panels = [
        draw.paragraph(found.title, size=15, bold=True),
        draw.paragraph(ring_data.said(found, number), size=14),
        _ring(found, number),
        _lanes(found, number),
        draw.paragraph(_NOTE, size=13, fill=draw.MUTED),
    ]
    return draw.card(draw.stacked(panels, gap=8), _TITLE, ring_data.as_text(found, number))


def _ring(found: Moves, number: int) -> draw.Panel:
    """Draw the devices in a circle, with what is under way between them."""
    now, n = found.times[number], len(found.ring)
    radius = 60 + 6 * n
    tall = 2 * (radius + _DEVICE) + 8
    waiting = {device for device, begin, end, _ in found.waits if begin <= now < end}
    at = {}
    for place, device in enumerate(found.ring):
        angle = 2 * math.pi * place / n - math.pi / 2
        at[device] = draw.INNER / 2 + radius * math.cos(angle), tall / 2 + radius * math.sin(angle)
    body = ""
    for place, device in enumerate(found.ring):
        body += draw.line(*at[device], *at[found.ring[(place + 1) % n]], draw.LINE, width=2)
    for bar in found.bars:
        kind = ring_data.kind_of(found.lanes[bar.lane], found.ring)
        if kind < 2 and bar.begin <= now < bar.end:
            one, other = (int(word) for word in found.lanes[bar.lane].split() if word.isdigit())
            body += _arrow(at[one], at[other], FILL[kind])
    for device, (x, y) in at.items():
        body += draw.box(x - _DEVICE, y - _DEVICE, 2 * _DEVICE, 2 * _DEVICE, draw.PAPER, stroke=draw.INK, radius=5)
        if device in waiting:
            body += draw.hatch(x - _DEVICE, y - _DEVICE, 2 * _DEVICE, 2 * _DEVICE, draw.GREY, gap=6)
        body += draw.label(x, y + 5, str(device), size=15, bold=True, anchor="middle", halo=True)
    return draw.Panel(body, tall)


def _arrow(one: tuple[float, float], other: tuple[float, float], stroke: str) -> str:
    """Draw an arrow a little to the left of the line from one device to the other, so that two ways stand apart."""
    dx, dy = other[0] - one[0], other[1] - one[1]
    length = math.hypot(dx, dy)
    ux, uy = dx / length, dy / length
    x1, y1 = one[0] + ux * (_DEVICE + 4) + uy * 6, one[1] + uy * (_DEVICE + 4) - ux * 6
    x2, y2 = other[0] - ux * (_DEVICE + 6) + uy * 6, other[1] - uy * (_DEVICE + 6) - ux * 6
    angle, head = math.atan2(uy, ux), ""
    for turn in (0.5, -0.5):
        head += draw.line(x2, y2, x2 - 9 * math.cos(angle + turn), y2 - 9 * math.sin(angle + turn), stroke, width=4)
    return draw.line(x1, y1, x2, y2, stroke, width=4) + head


def _lanes(found: Moves, number: int) -> draw.Panel:
    """Draw a lane for each link and core over the whole time, the moment as a line across."""
    width, shares = draw.INNER - _NAMES - _SHARE, ring_data.shares(found)
    scale = width / found.end if found.end else 0.0

    def x(us: float) -> float:
        return _NAMES + us * scale

    body = ""
    for n, lane in enumerate(found.lanes):
        y = n * _HIGH
        body += draw.label(0, y + 14, lane, _NAMES - 6, size=13)
        body += draw.box(_NAMES, y + 2, width, _HIGH - 4, draw.TRACK)
        body += draw.label(draw.INNER, y + 14, shares[n], size=13, anchor="end")
    for bar in found.bars:
        y, fill = bar.lane * _HIGH + 2, FILL[ring_data.kind_of(found.lanes[bar.lane], found.ring)]
        wide = max(1.0, (bar.end - bar.begin) * scale - 1)
        body += draw.box(x(bar.begin), y, wide, _HIGH - 4, fill, stroke=draw.MUTED, title=bar.what)
        if draw.width_of(bar.what, 12) < wide - 6:
            body += draw.label(x(bar.begin) + 4, y + 12, bar.what, size=12)
    for bar in found.bars[:_MOST_LINES]:
        if bar.cause >= 0 and (cause := found.bars[bar.cause]).lane != bar.lane:
            middles = cause.lane * _HIGH + _HIGH / 2, bar.lane * _HIGH + _HIGH / 2
            body += draw.line(x(cause.end), middles[0], x(bar.begin), middles[1], draw.INK, width=1)
    high = len(found.lanes) * _HIGH
    now = x(found.times[number])
    body += draw.line(now, 0, now, high, draw.RED, width=2)
    body += draw.label(_NAMES, high + 15, "0", size=13, fill=draw.MUTED)
    body += draw.label(_NAMES + width, high + 15, f"{found.end:,.1f} us", size=13, fill=draw.MUTED, anchor="end")
    return draw.Panel(body, high + 20)
