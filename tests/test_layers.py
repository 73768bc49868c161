"""Imports go one way: each layer of course_lib may import only the layers to its left."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parent.parent
ORDER = [
    "text",
    "vocabulary",
    "environment",
    "arrays",
    "compat",
    "datasets",
    "errors",
    "chips",
    "grid",
    "cost",
    "compiler",
    "roofline",
    "judges",
    "testing",
    "pytest_plugin",
    "bench",
    "checks",
    "lessons",
    "grading",
]
FREE = {"text", "vocabulary", "environment", "arrays", "compat", "datasets", "errors"}  # one layer, the bottom
SIDE = {
    "kernels": {"arrays", "compat"},
    "viz": {"text", "vocabulary", "environment", "errors", "chips", "grid", "cost", "compiler", "roofline"},
    "frameworks": {"kernels", "compat", "grid", "compiler"},
}
SHOWS_ITSELF = {  # as a picture, in a notebook
    "course_lib/compiler/report.py",
    "course_lib/compiler/compare.py",
    "course_lib/judges/block_map.py",
    "course_lib/checks/course.py",
    "course_lib/checks/panel.py",
    "course_lib/checks/stages/pages.py",
}
FILES = sorted((ROOT / "course_lib").rglob("*.py"))


def part_of(file: pathlib.Path) -> str:
    return file.relative_to(ROOT / "course_lib").parts[0].removesuffix(".py")


def may_import(part: str) -> set[str]:
    if part in SIDE:
        return SIDE[part] | {part}
    if part in FREE:
        return FREE
    return set(ORDER[: ORDER.index(part) + 1])


def course_imports(tree: ast.AST) -> set[str]:
    """The parts of course_lib that a module imports, inside functions too."""
    parts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "course_lib":
            names = [f"course_lib.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "write imports in full: from course_lib.x import y"
            names = [node.module]
        else:
            continue
        parts |= {name.split(".")[1] for name in names if name.startswith("course_lib.")}
    return parts


def only_top_level(tree: ast.Module) -> ast.Module:
    """The module without what its functions import when they are called."""
    return ast.Module(
        body=[node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))], type_ignores=[]
    )


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.relative_to(ROOT).as_posix())
def test_imports_go_one_way(file):
    part = part_of(file)
    if part == "__init__":
        assert course_imports(ast.parse(file.read_text())) == set(), "course_lib/__init__.py imports nothing"
        return
    tree = ast.parse(file.read_text())
    wrong = course_imports(tree) - may_import(part)
    if file.relative_to(ROOT).as_posix() in SHOWS_ITSELF:
        assert not course_imports(only_top_level(tree)) - may_import(part)
        wrong -= {"viz"}
    assert not wrong, f"{part} may not import {', '.join(sorted(wrong))}"


def test_every_part_has_its_place():
    assert {part_of(f) for f in FILES} - {"__init__"} <= set(ORDER) | set(SIDE)


def test_a_wrong_import_is_found():
    """The rule can fail: judges in a kernel file, and a relative import."""
    assert course_imports(ast.parse("def f():\n    from course_lib import judges")) - may_import("kernels") == {
        "judges"
    }
    with pytest.raises(AssertionError):
        course_imports(ast.parse("from . import judges"))
