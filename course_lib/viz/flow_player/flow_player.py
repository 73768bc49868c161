"""A widget that plays pictures of stages, stage by stage: side by side, or one at a time."""

from collections.abc import Sequence
from typing import NamedTuple

import traitlets

from course_lib.viz.common.widget import Widget, source


class Flow(NamedTuple):
    """One way to compute something. Its drawings carry the marks described in flow_picture.py."""

    name: str
    drawings: list[str]  # SVG for a wide page and for a narrow one, or one for both
    says: list[str]  # words before the first stage and after each


class FlowPlayer(Widget):
    """The widget. It shows the state after ``step`` stages, at first after all."""

    _esm, _css = source(__file__, "dom.js")
    title = traitlets.Unicode().tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)
    legend = traitlets.List().tag(sync=True)  # (colour, what it means)
    together = traitlets.Bool().tag(sync=True)  # all flows side by side, or only the one ``shown``
    flows = traitlets.List().tag(sync=True)
    shown = traitlets.Int(0).tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)

    def __init__(self, flows: Sequence[Flow], *, still: str, text: str, **traits):
        last = max(len(flow.says) for flow in flows) - 1
        super().__init__(flows=[flow._asdict() for flow in flows], step=last, **traits)
        self.still, self.text = still, text

    def _still(self) -> tuple[str, str]:
        return self.still, self.text
