"""The places of widgets in a page, and the scripts that bring them to life without a kernel (static/widgets.js).

Browsers do not import modules from a page opened as a file, but they run scripts. So the module and the style sheet of
each kind of widget are texts in a script, one file for all pages, and widgets.js makes modules of them.
"""

import importlib
import json

from book import BookError


def place(widget: dict, still: str) -> str:
    """Return the place of a widget: its still image, which stays until the widget is drawn, and its values."""
    data = _json({"values": widget["values"], "buffers": widget["buffers"]})
    return (
        f'<div class="output widget" data-kind="{_kind(widget)}"><div class="still">{still}</div>'
        f'<script type="application/json">{data}</script></div>'
    )


def scripts(states: list[list[dict | None]]) -> dict[str, str]:
    """Return {path: text} of the scripts that the widgets of ``states`` need."""
    found = {widget["class"]: widget for page in states for widget in page if widget is not None}
    if len({path(widget) for widget in found.values()}) < len(found):
        raise BookError(f"two widgets share a name: {', '.join(sorted(found))}. Rename one of the classes.")
    return {path(widget): _script(widget) for _, widget in sorted(found.items())}


def path(widget: dict) -> str:
    """Return the path of the script of a widget's kind."""
    return f"widgets/{_kind(widget)}.js"


def _script(widget: dict) -> str:
    module, _, name = widget["class"].rpartition(".")
    kind = getattr(importlib.import_module(module), name)
    texts = _json({"module": str(kind._esm), "style": str(kind._css)})
    return f"(window.courseWidgets ??= {{}}).{name} = {texts};\n"


def _kind(widget: dict) -> str:
    return widget["class"].rpartition(".")[2]


def _json(value: object) -> str:
    """Return JSON that can stand in a script element of a page."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
