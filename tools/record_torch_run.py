"""A recorder of lesson 17's training run in PyTorch, which readers without PyTorch are shown.

    python tools/record_torch_run.py       writes course_lib/datasets/torch_run.json; needs PyTorch and libtpu

It runs the lesson's own two cells: the one that defines the layer's kernels, and the one that trains.
"""

import datetime
import json
import pathlib
import platform
import textwrap

import jax
import torch

from course_lib import datasets

LESSON = pathlib.Path(__file__).parent.parent / "notebooks/src/17_other_engines.py"
IMPORTS = """\
import copy

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
"""


def cell(defines: str) -> str:
    """Return the cell of the lesson that defines a function, up to where it first runs something."""
    cells = LESSON.read_text("utf-8").split("# %%")
    (found,) = (cell.partition("\n")[2] for cell in cells if f"\ndef {defines}(" in cell)
    return found.partition("\ntry:\n")[0]


def trained() -> dict:
    """Return the lesson's run: losses, rounded, and the kernels of the v5e's programs."""
    names: dict = {}
    for code in (IMPORTS, cell("forward_kernel"), cell("trained")):
        exec(compile(code, LESSON.name, "exec"), names)
    return {
        name: found if name == "v5e" else [round(loss, 6) for loss in found]
        for name, found in names["trained"]().items()
    }


def main() -> None:
    versions = f"PyTorch {torch.__version__}, JAX {jax.__version__}, Python {platform.python_version()}"
    run = {"about": f"recorded on {datetime.date.today():%Y-%m-%d} on a CPU, with {versions}", **trained()}
    datasets.torch_run_file().write_text(json.dumps(run, indent=1) + "\n", "utf-8")
    print(textwrap.shorten(json.dumps(run), 300))


if __name__ == "__main__":
    main()
