"""The program of a kernel as a widget: a column for each unit, a row for each bundle, and the source line."""

import json
import zlib
from collections.abc import Callable

import traitlets

from course_lib import compiler
from course_lib.viz.bundle_viewer import bundle_data, bundle_still
from course_lib.viz.common.widget import Widget, source


def bundle_viewer(fn: Callable | compiler.Code, *args, chip: str = "v5e") -> "BundleViewer":
    """Show the bundles of the kernels of ``fn(*args)``: what each unit does in each, and for which source line.

    ``fn`` may be what ``compiler.bundles`` returns, without ``args``. A row is a bundle and a cell a unit, coloured by
    the share of its slots in use. Each loop says how often it runs. Opens at the loop that issues most bundles. Raises
    what ``compiler.bundles`` raises.
    """
    code = fn if isinstance(fn, compiler.Code) else compiler.bundles(fn, *args, chip=chip)
    return BundleViewer(code)


class BundleViewer(Widget):
    """The widget. ``row`` is the bundle shown."""

    _esm, _css = source(__file__, "dom.js", "units.js", "bundle_words.js", "bundle_strip.js")
    program = traitlets.Bytes().tag(sync=True)  # bundle_data.data as JSON, compressed
    row = traitlets.Int(0).tag(sync=True)

    def __init__(self, code: compiler.Code, **traits):
        self.code = code
        self.shown = bundle_data.data(code)
        packed = zlib.compress(json.dumps(self.shown, separators=(",", ":")).encode(), 6)
        first = code.busiest.first if code.busiest else 0
        super().__init__(**{"program": packed, "row": first} | traits)

    def _still(self) -> tuple[str, str]:
        return bundle_still.still(self.shown), bundle_still.as_text(self.shown)
