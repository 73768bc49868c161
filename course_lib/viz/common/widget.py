"""The base of every widget: its scripts joined into one module, its style sheet, and a still picture."""

import pathlib

import anywidget

from course_lib.viz.common import draw

_COMMON = pathlib.Path(__file__).parent


def source(file: str, *before: str) -> tuple[str, str]:
    """Return the JavaScript and the style sheet of the widget whose Python is ``file``.

    The JavaScript is one module: the scripts named in ``before``, then the one named like ``file``. Scripts are looked
    up beside ``file``, then in ``common``.
    """
    own = pathlib.Path(file)
    paths = [own.with_name(name) for name in before]
    paths = [path if path.exists() else _COMMON / path.name for path in paths]
    module = "\n".join(path.read_text("utf-8") for path in (*paths, own.with_suffix(".js")))
    return module, f"{own.with_suffix('.css').read_text('utf-8')}\n{draw.DARK}\n"


class Widget(anywidget.AnyWidget):
    """A widget with a still for pages that do not run it; ``_still()`` of a subclass returns it as SVG and as text."""

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        data["image/svg+xml"], data["text/plain"] = self._still()
        return data, metadata
