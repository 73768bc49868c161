"""Inside kernels: common at the bottom, dispatch for op.py alone, and families on top that use few others."""

import ast
import pathlib

import pytest

KERNELS = pathlib.Path(__file__).parent.parent / "course_lib/kernels"
MAY_USE = {  # families whose kernels or ops another family uses
    "activations": {"elementwise"},
    "collectives": {"matmul"},
    "grouped_swiglu": {"grouped"},
    "linear": {"activations", "matmul"},
    "linear_int8": {"activations", "matmul"},
    "matmul_one_block": {"matmul"},
    "matmul_pipeline": {"matmul"},
    "paged_attention": {"attention"},
    "scale_add": {"elementwise"},
    "softmax": {"norm"},
}
FAMILIES = sorted(file.parent.name for file in KERNELS.glob("*/kernel.py"))
FILES = sorted(file for file in KERNELS.rglob("*.py") if file.parent != KERNELS)


def imported(tree: ast.AST) -> set[str]:
    """Return the sub-packages of kernels that a module imports, those within functions too."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("course_lib.kernels."):
            found.add(node.module.split(".")[2])
        elif isinstance(node, ast.ImportFrom) and node.module == "course_lib.kernels":
            found |= {alias.name for alias in node.names}
    return found


def allowed(folder: str, file: str) -> set[str]:
    """Return what a file may import: common its own kind, dispatch common too, and only op.py dispatch."""
    if folder == "common":
        return {"common"}
    if folder == "dispatch":
        return {"common", "dispatch"}
    dispatch = {"dispatch"} if file == "op.py" else set()
    return {"common", folder} | MAY_USE.get(folder, set()) | dispatch


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(KERNELS).as_posix())
def test_imports_inside_kernels_go_one_way(file):
    wrong = imported(ast.parse(file.read_text())) - allowed(file.parent.name, file.name)
    assert not wrong, f"{file.parent.name}/{file.name} may not import {', '.join(sorted(wrong))}"


def test_families_that_use_each_other_form_no_circle():
    def below(family: str, above: tuple[str, ...] = ()) -> None:
        assert family not in above, f"{' -> '.join(above)} -> {family}"
        for other in MAY_USE.get(family, ()):
            below(other, (*above, family))

    for family in FAMILIES:
        below(family)


def test_every_family_has_the_same_files():
    assert set(MAY_USE) <= set(FAMILIES)
    for family in FAMILIES:
        wanted = {"__init__.py", "kernel.py", "op.py", "page.py"}
        assert wanted <= {file.name for file in (KERNELS / family).iterdir()}


def test_a_wrong_import_is_found():
    """The rules can fail: dispatch in a kernel.py, a family in common."""
    launch = ast.parse("from course_lib.kernels.dispatch.launch import Op")
    assert imported(launch) - allowed("matmul", "kernel.py") == {"dispatch"}
    assert not imported(launch) - allowed("matmul", "op.py")
    assert imported(ast.parse("def f():\n    from course_lib.kernels import matmul")) - allowed("common", "legal.py")
