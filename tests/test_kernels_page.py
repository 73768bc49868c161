"""docs/kernels.md names what there is, and all of it."""

import importlib
import inspect
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/kernels.md").read_text()
PARTS = {"matmul_blocks", "linear_backward", "norm_backward", "softmax_backward", "platforms", "products", "vmem"}


def ops_of_the_table() -> set[str]:
    """ "matmul.matmul" and so on; ".gelu" after "activations.relu" is "activations.gelu"."""
    found = set()
    for row in re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE):
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


def test_every_family_stands_in_the_table():
    """A family is a file that has ops with blocks, or none to choose."""
    listed = {name.split(".")[0] for name in ops_of_the_table()}
    for path in (ROOT / "course_lib/kernels").glob("[a-z]*.py"):
        module = importlib.import_module(f"course_lib.kernels.{path.stem}")
        public = [f for n, f in vars(module).items() if not n.startswith("_") and inspect.isfunction(f)]
        ops = [f for f in public if f.__module__ == module.__name__ and "blocks" in inspect.signature(f).parameters]
        if path.stem not in PARTS and any("*" in str(inspect.signature(f)) for f in ops):
            assert path.stem in listed, path.stem


def test_the_examples_run():
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[:1]:
        exec(compile(code, "docs/kernels.md", "exec"), {})
