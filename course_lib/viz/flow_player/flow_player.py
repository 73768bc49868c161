"""Pictures of stages, played stage by stage in a browser: side by side, or one chosen at a time."""

from collections.abc import Sequence
from typing import NamedTuple

import traitlets

from course_lib.viz.common.widget import Widget, source


class Flow(NamedTuple):
    """One way to compute something. Parts of its drawings are marked as flow_picture.py says."""

    name: str
    drawings: list[str]  # SVG, for a wide page and for a narrow one; one alone is for both
    says: list[str]  # in words: before the first stage, and after each


class FlowPlayer(Widget):
    """The widget. After ``step`` stages; all of them at first. Where no browser runs its code, a still stands in."""

    _esm, _css = source(__file__, "dom.js")
    title = traitlets.Unicode().tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)
    legend = traitlets.List().tag(sync=True)  # (colour, what it means)
    together = traitlets.Bool().tag(sync=True)  # all flows side by side, or the one that is ``shown``
    flows = traitlets.List().tag(sync=True)
    shown = traitlets.Int(0).tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)

    def __init__(self, flows: Sequence[Flow], *, still: str, text: str, **traits):
        last = max(len(flow.says) for flow in flows) - 1
        super().__init__(flows=[flow._asdict() for flow in flows], step=last, **traits)
        self.still, self.text = still, text

    def _still(self) -> tuple[str, str]:
        return self.still, self.text
