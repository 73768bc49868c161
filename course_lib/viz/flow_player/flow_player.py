"""Pictures of stages, played stage by stage in a browser: side by side, or one chosen at a time."""

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import anywidget
import traitlets

_HERE = pathlib.Path(__file__).parent
_SCRIPTS = ("../common/dom.js", "flow_player.js")


class Flow(NamedTuple):
    """One way to compute something. Parts of its drawings are marked as flow_picture.py says."""

    name: str
    drawings: list[str]  # SVG, for a wide page and for a narrow one; one alone is for both
    says: list[str]  # in words: before the first stage, and after each


class FlowPlayer(anywidget.AnyWidget):
    """The widget. After ``step`` stages; all of them at first. Where no browser runs its code, a still stands in."""

    _esm = "\n".join((_HERE / name).read_text("utf-8") for name in _SCRIPTS)
    _css = _HERE / "flow_player.css"
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

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        data["image/svg+xml"] = self.still
        data["text/plain"] = self.text
        return data, metadata
