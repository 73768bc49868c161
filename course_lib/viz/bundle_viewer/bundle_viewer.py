"""The program of a kernel as a widget: a unit in each column, a bundle in each row, and the line that it came from."""

import json
import zlib
from collections.abc import Callable

import traitlets

from course_lib import compiler
from course_lib.viz.bundle_viewer import bundle_data, bundle_still
from course_lib.viz.common.widget import Widget, source


def bundle_viewer(fn: Callable | compiler.Code, *args, chip: str = "v5e") -> "BundleViewer":
    """The bundles of the kernels of ``fn(*args)``: which unit does what in which of them, and from which line.

    ``fn`` may be what ``compiler.bundles`` returns, without ``args``. A row is a bundle, a cell a unit: its colour says
    how many of its slots are used. Loops say how often they run. Opens with the loop that issues most bundles. Raises
    what ``compiler.bundles`` raises.
    """
    code = fn if isinstance(fn, compiler.Code) else compiler.bundles(fn, *args, chip=chip)
    return BundleViewer(code)


class BundleViewer(Widget):
    """The widget. ``row`` is the bundle that is shown; where no browser runs its code, a still stands in."""

    _esm, _css = source(__file__, "dom.js", "units.js", "bundle_words.js", "bundle_strip.js")
    program = traitlets.Bytes().tag(sync=True)  # bundle_data.data as JSON, deflated
    row = traitlets.Int(0).tag(sync=True)

    def __init__(self, code: compiler.Code, **traits):
        self.code = code
        self.shown = bundle_data.data(code)
        packed = zlib.compress(json.dumps(self.shown, separators=(",", ":")).encode(), 6)
        first = code.busiest.first if code.busiest else 0
        super().__init__(**{"program": packed, "row": first} | traits)

    def _still(self) -> tuple[str, str]:
        return bundle_still.still(self.shown), bundle_still.as_text(self.shown)
