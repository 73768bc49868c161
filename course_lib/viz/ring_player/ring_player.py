"""A widget that steps through what travels between devices: the ring at a moment, and each link over time."""

import traitlets

from course_lib.viz.common.widget import Widget, source
from course_lib.viz.ring_player import ring_data, ring_still
from course_lib.viz.ring_player.ring_data import MOST_BARS


def ring_player(schedule) -> "RingPlayer":
    """Step through a schedule of ``judges.schedule_chips``: what each link carries, who waits, and why it begins.

    Raises ValueError for anything else, for a schedule in which no link carries anything, and for one of more than 600
    copies and writes.
    """
    if not all(hasattr(schedule, name) for name in ("spans", "waits", "ring", "record")):
        raise ValueError(
            f"ring_player: schedule is a {type(schedule).__name__}; it must be a schedule of several devices. Try "
            "judges.schedule_chips(fn, x, mesh=(4,))."
        )
    found = ring_data.moves(schedule)
    if not any("link" in lane for lane in found.lanes):
        raise ValueError(
            "ring_player: no link carries anything in this schedule. Try a function whose kernel copies to another "
            "device, with pltpu.make_async_remote_copy."
        )
    if len(found.bars) > MOST_BARS:
        raise ValueError(
            f"ring_player: the schedule has {len(found.bars):,} copies and writes; {MOST_BARS} can be shown. Try fewer "
            "devices, or larger blocks."
        )
    return RingPlayer(found)


class RingPlayer(Widget):
    """The widget. It shows moment number ``step``; the still of moment 0 is the one at which most is under way."""

    _esm, _css = source(__file__, "dom.js", "stepping.js")
    title = traitlets.Unicode().tag(sync=True)
    ring = traitlets.List().tag(sync=True)  # devices in the order of their links
    lanes = traitlets.List().tag(sync=True)  # of each lane its name, kind, share, and the devices of a link
    bars = traitlets.List().tag(sync=True)  # lane, begin, end, what is said of it, cause
    waits = traitlets.List().tag(sync=True)  # device, begin, end
    times = traitlets.List().tag(sync=True)  # microseconds
    clocks = traitlets.List().tag(sync=True)  # the same in words
    said = traitlets.List().tag(sync=True)  # of each moment what happens
    end = traitlets.Float(0.0).tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)

    def __init__(self, found: ring_data.Moves):
        self.found = found
        shares = ring_data.shares(found)
        lanes = [
            [lane, ring_data.kind_of(lane, found.ring), shares[n], [int(w) for w in lane.split() if w.isdigit()]]
            for n, lane in enumerate(found.lanes)
        ]
        super().__init__(
            title=found.title, ring=list(found.ring), lanes=lanes, end=found.end,
            bars=[[bar.lane, bar.begin, bar.end, ring_data.bar_said(bar), bar.cause] for bar in found.bars],
            waits=[list(wait[:3]) for wait in found.waits],
            times=list(found.times), clocks=list(map(ring_data.clock, found.times)),
            said=[ring_data.said(found, number) for number in range(len(found.times))],
        )  # fmt: skip

    def _still(self) -> tuple[str, str]:
        number = min(max(0, self.step), len(self.times) - 1) or ring_data.telling_moment(self.found)
        return ring_still.still(self.found, number), ring_data.as_text(self.found, number)
