"""A widget with the memories of a chip: how much each holds, how fast it is, and how long N bytes take."""

import traitlets

from course_lib.viz.common.widget import Widget, source
from course_lib.viz.memory_ladder import ladder_still, memory_rungs


def memory_ladder(*, chip: str = "v5e") -> "MemoryLadder":
    """Show capacity, bandwidth and latency of registers, SMEM, VMEM, HBM, and the links to other chips and the host.

    Each figure names its source, or says "not published". The reader can change the chip (v4, v5e, v5p, v6e, tpu7x, and
    NVIDIA's "h100" and "h200"), whether one core or the whole chip counts, and the number of bytes to time. Raises
    ValueError for any other chip.
    """
    memory_rungs.ladder(chip)
    return MemoryLadder(
        chip=chip, chips={name: memory_rungs.ladder(name) for name in memory_rungs.NAMES}, whose=memory_rungs.WHOSE
    )


class MemoryLadder(Widget):
    """The widget. Its traits are its settings."""

    _esm, _css = source(__file__, "dom.js", "units.js")
    chip = traitlets.Enum(list(memory_rungs.NAMES), "v5e").tag(sync=True)
    view = traitlets.Enum(list(memory_rungs.VIEWS), "core").tag(sync=True)
    bytes = traitlets.Int(1 << 20).tag(sync=True)
    chips = traitlets.Dict().tag(sync=True)
    whose = traitlets.Dict().tag(sync=True)

    def _still(self) -> tuple[str, str]:
        ladder = self.chips[self.chip]
        return ladder_still.still(ladder, self.view, self.bytes), ladder_still.as_text(ladder, self.view, self.bytes)
