"""The state of a lesson's widgets, kept beside its notebook, so that the book (tools/book) shows widgets that react.

Notebooks store only the still images of their widgets. Whatever executes a lesson keeps what the book needs in a file
that git ignores: an entry for each picture of the notebook, in their order, with the widget behind it, if there is one.
"""

import hashlib
import json
import pathlib

import nbformat

from building import ROOT

FOLDER = "build/book_state"
VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"
SVG = "image/svg+xml"
_OF_JUPYTER = ("layout", "tabbable", "tooltip")  # traits of ipywidgets, which our JavaScript does not read
Pictures = list[dict]  # {"still": digest of the SVG, "widget": what ``of_model`` returns, or None for a mere picture}


def models_of(executed: nbformat.NotebookNode) -> dict[str, dict]:
    """Return the state of each widget that an execution has made, by the id that outputs name it by."""
    return executed.metadata.get("widgets", {}).get(STATE, {}).get("state", {})


def pictures_of(cell: nbformat.NotebookNode, models: dict[str, dict]) -> Pictures:
    """Return the pictures among a cell's outputs and the widgets behind them; ``models`` is what models_of returns."""
    found = []
    for data in _with_pictures(cell):
        model = models.get(data.get(VIEW, {}).get("model_id"))
        widget = model and of_model(model["state"], model.get("buffers", []))
        found.append({"still": _digest(data[SVG]), "widget": widget})
    return found


def of_model(state: dict, buffers: list[dict]) -> dict:
    """Return a widget as the book needs it, of its state as the Jupyter protocol describes it.

    "class" is its class in full, "made_by" a digest of the Python files that made its values, "values" are its traits,
    and "buffers" are [path, base64] of the binary values among them. ``buffers`` are {"path": …, "data": base64}.
    """
    name = state["_anywidget_id"]
    return {
        "class": name,
        "made_by": _makers(name),
        "values": {key: value for key, value in state.items() if not key.startswith("_") and key not in _OF_JUPYTER},
        "buffers": [[list(buffer["path"]), buffer["data"].strip()] for buffer in buffers],
    }


def keep(stem: str, pictures: Pictures) -> None:
    """Write the pictures of the lesson whose source is ``stem``.py."""
    file = _file(stem)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(pictures, sort_keys=True) + "\n")


def kept(stem: str, notebook: nbformat.NotebookNode) -> list[dict | None] | None:
    """Return the widget behind each picture of a notebook, or None for a mere picture, in their order.

    Returns None if no state is kept, or if it belongs to other pictures or to another version of a widget's Python.
    """
    if not (file := _file(stem)).exists():
        return None
    pictures = json.loads(file.read_text())
    stills = [_digest(data[SVG]) for cell in notebook.cells for data in _with_pictures(cell)]
    widgets = [picture["widget"] for picture in pictures]
    up_to_date = all(widget is None or widget["made_by"] == _makers(widget["class"]) for widget in widgets)
    return widgets if up_to_date and stills == [picture["still"] for picture in pictures] else None


def _with_pictures(cell: nbformat.NotebookNode) -> list[dict]:
    """Return the data of each output of a cell that has a picture."""
    return [output.data for output in cell.get("outputs", ()) if SVG in output.get("data", {})]


def _makers(name: str) -> str:
    """Return a digest of the Python files beside the one that defines a widget."""
    folder = ROOT.joinpath(*name.split(".")[:-2])
    return _digest("".join(file.read_text() for file in sorted(folder.glob("*.py"))))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _file(stem: str) -> pathlib.Path:
    return ROOT / FOLDER / f"{stem}.json"
