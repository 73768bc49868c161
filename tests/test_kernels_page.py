"""docs/kernels.md names what there is, and all of it."""

import importlib
import pathlib
import re

from kernel_calls import CALLS

from course_lib.kernels import sparse_core

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/kernels.md").read_text()


def ops_of_the_table() -> set[str]:
    """ "matmul.matmul" and so on; ".gelu" after "activations.relu" is "activations.gelu"."""
    found = set()
    table = PAGE[PAGE.index("| op | computes") : PAGE.index("Beside each op")]
    for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE):
        family = ""
        for name in re.findall(r"`([a-z0-9_.]+)`", row):
            head, _, op = name.rpartition(".")
            family = head or family
            found.add(f"{family}.{op}")
    return found


def test_every_op_of_the_table_exists():
    for name in ops_of_the_table():
        family, op = name.split(".")
        assert callable(getattr(importlib.import_module(f"course_lib.kernels.{family}"), op)), name


def test_every_op_of_every_family_stands_in_the_table():
    ops = {f"{family}.{op}" for family, ops in CALLS.items() for op in ops}
    moves_rows = {f"sparse_core.{op}" for op in sparse_core.__all__ if not op.endswith("_reference")}
    assert ops_of_the_table() == ops | moves_rows


def test_the_examples_run():
    names = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        if "autotune" not in code:  # which compiles many candidates
            exec(compile(code, "docs/kernels.md", "exec"), names)
