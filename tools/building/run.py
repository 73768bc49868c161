"""The run of a notebook as for a reader without a TPU, which keeps the outputs that are the same everywhere."""

import asyncio
import copy
import json
import os
import pathlib
import re

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from traitlets.config import Config

from building import ROOT, BuildError, relative, widget_state

SECONDS_PER_CELL = 120
# Variables that would change what the cells print.
_NOT_A_READERS = ("COURSE_GRADING", "COURSE_SOURCE", "NBGRADER_EXECUTION", "PYTEST_CURRENT_TEST")


def environment() -> dict[str, str]:
    """Return the variables that a notebook runs with.

    They select this clone's library, no progress record, no bar in the output, and fresh simulations unless
    COURSE_SHIPPED is set. Variables that libtpu and XLA read are removed, so that the keys of the shipped results are
    the same everywhere.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in _NOT_A_READERS and not name.startswith(("XLA_", "TPU_", "LIBTPU_"))
    }
    ours = {"COURSE_BUILD": "1", "COURSE_PROGRESS": "0", "COURSE_RECORD": "0", "PYTHONPATH": str(ROOT)}
    return {"COURSE_SHIPPED": "0"} | kept | ours


def execute(
    notebook: nbformat.NotebookNode, source: pathlib.Path
) -> tuple[nbformat.NotebookNode, widget_state.Pictures]:
    """Return a copy with the outputs that a reader without a TPU gets, and its pictures with the state of widgets.

    Raises BuildError with the failed cell.
    """
    executed = copy.deepcopy(notebook)
    folder = source.parent.parent
    client = NotebookClient(
        executed,
        timeout=SECONDS_PER_CELL,
        store_widget_state=True,
        resources={"metadata": {"path": str(folder)}},
        config=Config(KernelManager={"transport_encryption": "auto"}),  # otherwise each kernel warns that it has none
    )
    try:
        asyncio.run(client.async_execute(env=environment()))  # each thread needs its own event loop, which this closes
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        cell = next((c for c in executed.cells if c.cell_type == "code" and _failed(c)), None)
        name = cell.id if cell is not None else "?"
        took_too_long = isinstance(error, CellTimeoutError)
        says = f"it takes longer than {SECONDS_PER_CELL} s" if took_too_long else _last_line(error)
        raise BuildError(f"{relative(source)}, cell {name}: {says}") from None
    models, pictures = widget_state.models_of(executed), []
    for cell in executed.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            shown = widget_state.pictures_of(cell, models)  # before their stills take the place of the widgets
            cell.outputs = [_stable(output, cell, source) for output in _joined(cell.outputs)]
            if "outputs-not-stored" in cell.metadata.get("tags", ()):  # they depend on the reader's machine
                cell.outputs, cell.execution_count = [], None  # a number without an output looks broken
            else:
                pictures += shown
    executed.metadata["language_info"] = {"name": "python"}
    executed.metadata.pop("widgets", None)
    return executed, pictures


def _failed(cell) -> bool:
    return cell.execution_count is None or any(o.output_type == "error" for o in cell.outputs)


def _joined(outputs: list) -> list:
    """Join adjacent pieces of one stream, because where a stream is split varies from run to run."""
    joined: list = []
    for output in outputs:
        if joined and output.output_type == "stream" == joined[-1].output_type and output.name == joined[-1].name:
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def _stable(output, cell, source: pathlib.Path):
    where = f"{relative(source)}, cell {cell.id}"
    if output.output_type == "stream" and output.name == "stderr":
        raise BuildError(f"{where} writes to stderr: {output.text.strip()[:200]}")
    if str(ROOT) in json.dumps(output):
        raise BuildError(f"{where} prints a path of this machine.")
    if output.output_type in ("display_data", "execute_result"):
        if output.data.pop("application/vnd.jupyter.widget-view+json", None):  # its model dies with the kernel
            _show_still(output.data)
    return output


def _show_still(data: dict) -> None:
    """Put a widget's still image into an <img> too: pages show a bare SVG at full width, and a narrow page crops it."""
    from course_lib.viz.common import draw  # here, because it takes a second, and most build commands do not need it

    if "image/svg+xml" in data:
        data["text/html"] = draw.image(data["image/svg+xml"], data["text/plain"])


def _last_line(error: Exception) -> str:
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip()
    return text.splitlines()[-1] if text else type(error).__name__
