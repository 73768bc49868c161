"""The memories of a chip as a widget: how much each holds, how fast it is, and how long N bytes take on each."""

import traitlets

from course_lib.viz.common.widget import Widget, source
from course_lib.viz.memory_ladder import ladder_still, memory_rungs


def memory_ladder(*, chip: str = "v5e") -> "MemoryLadder":
    """Registers, SMEM, VMEM, HBM, the links to other chips and to the host: capacity, bandwidth and latency of each.

    Each figure says whose it is, and "not published" stands where nobody has printed one. The chip can be changed: v4,
    v5e, v5p, v6e, tpu7x, and "h100" and "h200" of NVIDIA's; so can what is counted, one core or the whole chip, and the
    bytes whose time is shown. Raises ValueError for another chip.
    """
    memory_rungs.ladder(chip)
    return MemoryLadder(
        chip=chip, chips={name: memory_rungs.ladder(name) for name in memory_rungs.NAMES}, whose=memory_rungs.WHOSE
    )


class MemoryLadder(Widget):
    """The widget. Its traits are its settings; where no browser runs its code, a still picture stands in."""

    _esm, _css = source(__file__, "dom.js", "units.js")
    chip = traitlets.Enum(list(memory_rungs.NAMES), "v5e").tag(sync=True)
    view = traitlets.Enum(list(memory_rungs.VIEWS), "core").tag(sync=True)
    bytes = traitlets.Int(1 << 20).tag(sync=True)
    chips = traitlets.Dict().tag(sync=True)
    whose = traitlets.Dict().tag(sync=True)

    def _still(self) -> tuple[str, str]:
        ladder = self.chips[self.chip]
        return ladder_still.still(ladder, self.view, self.bytes), ladder_still.as_text(ladder, self.view, self.bytes)
