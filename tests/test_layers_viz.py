"""Imports inside course_lib/viz: a folder takes from ``common``, and from another only where the table says so."""

import ast
import graphlib
import pathlib

import pytest

VIZ = pathlib.Path(__file__).parent.parent / "course_lib/viz"
FOLDERS = sorted(path.parent.name for path in VIZ.glob("*/__init__.py"))
ALSO = {
    "bundle_viewer": {"choices"},  # unroll_viewer: a choice of programs
    "report": {"vmem_table"},  # the stack of buffers on a Report's card
}


def imported(source: str) -> set[str]:
    """Return the folders of viz that a module imports, in functions too; "" stands for the package as a whole."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    parts = [name.split(".") for name in names if f"{name}.".startswith("course_lib.viz.")]
    return {part[2] if part[2:3] and part[2] in FOLDERS else "" for part in parts}


def of_folder(folder: str) -> set[str]:
    return set().union(*(imported(path.read_text()) for path in (VIZ / folder).glob("*.py")))


def wrong(folder: str, found: set[str]) -> set[str]:
    return found - {folder, "common"} - ALSO.get(folder, set())


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_imports_common_and_what_the_table_says(folder):
    found = of_folder(folder)
    assert not wrong(folder, found)
    assert ALSO.get(folder, set()) <= found, "the table allows what nobody uses"


def test_no_two_folders_import_each_other():
    graph = {folder: of_folder(folder) - {folder} for folder in FOLDERS}
    assert next(graphlib.TopologicalSorter(graph).static_order()) == "common"


def test_every_file_has_a_folder():
    assert [path.name for path in VIZ.iterdir() if path.is_file()] == ["__init__.py"]
    assert set(ALSO) <= set(FOLDERS)


@pytest.mark.parametrize(
    "source, found",
    [
        ("from course_lib.viz.roof_plot import roofs", "roof_plot"),
        ("def f():\n    import course_lib.viz.roof_plot.roofs", "roof_plot"),
        ("from course_lib.viz import roof_plot", "roof_plot"),
        ("from course_lib.viz import GridPlayer", ""),
        ("from course_lib import chips, viz", ""),
        ("import course_lib.viz", ""),
    ],
)
def test_a_wrong_import_is_found(source, found):
    assert imported(source) == {found} == wrong("report", imported(source))
    assert not imported("from course_lib import text\nimport course_lib.vizard")
