"""The insides of course_lib/judges import one way, too: each part may import only those before it."""

import ast
import pathlib

import pytest

JUDGES = pathlib.Path(__file__).resolve().parent.parent / "course_lib/judges"
ORDER = [
    "block_map",
    "verdict",
    "tolerance",
    "reading",
    "running",
    "wrong_outputs",
    "slips",
    "rules",
    "trial",
    "difference",
    "tpu",
    "gpu",
    "many_chips",
    "sparse_core",
    "four_judges",
    "gradient",
    "__init__",
    "__main__",
]
FILES = sorted(JUDGES.rglob("*.py"))


def part_of(file: pathlib.Path) -> str:
    return file.relative_to(JUDGES).parts[0].removesuffix(".py")


def imported_parts(source: str) -> set[str]:
    """The parts of course_lib.judges that a module imports, inside functions too; the package itself is __init__."""
    modules = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module in ("course_lib", "course_lib.judges"):
            modules += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules.append(node.module)
    parts = [name.split(".") for name in modules if f"{name}.".startswith("course_lib.judges.")]
    return {part[2] if len(part) > 2 else "__init__" for part in parts}


def wrong_imports(part: str, source: str) -> set[str]:
    return imported_parts(source) - set(ORDER[: ORDER.index(part) + 1])


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.relative_to(JUDGES).as_posix())
def test_imports_go_one_way(file):
    wrong = wrong_imports(part_of(file), file.read_text())
    assert not wrong, f"judges/{part_of(file)} may not import {', '.join(sorted(wrong))}"


def test_every_part_has_its_place():
    assert {part_of(file) for file in FILES} == set(ORDER)


def test_the_tpu_and_the_gpu_judges_know_nothing_of_each_other():
    assert not any("tpu" in imported_parts(file.read_text()) for file in (JUDGES / "gpu").glob("*.py"))


@pytest.mark.parametrize(
    "source",
    [
        "from course_lib.judges.rules.reasons import because",
        "from course_lib.judges import rules",
        "def f():\n    import course_lib.judges.rules.reasons",
        "from course_lib import judges",
    ],
)
def test_a_wrong_import_is_found(source):
    assert wrong_imports("slips", source) and not wrong_imports("__main__", source)
