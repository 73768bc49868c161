"""The notebooks: generated from their sources and nothing else, and they run as a reader would run them."""

import ast
import json
import pathlib
import re
import subprocess
import sys

import jax
import nbformat
import pytest
from nbclient import NotebookClient

from course_lib import compiler

ROOT = pathlib.Path(__file__).parent.parent
EXERCISES = sorted((ROOT / "exercises").glob("*.ipynb"))
GENERATED = [f for folder in ("notebooks", "exercises", "solutions") for f in sorted((ROOT / folder).glob("*.ipynb"))]
# Figures in the outputs belong to the pinned JAX and libtpu.
PINNED = "jax==" + jax.__version__ in (ROOT / "requirements.txt").read_text() and compiler.libtpu_version()


def build(*arguments, cwd=ROOT):
    command = [sys.executable, str(cwd / "tools/build_notebooks.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=cwd)


@pytest.mark.skipif(not PINNED, reason="outputs are stored for the pinned jax and libtpu only")
def test_notebooks_are_what_their_sources_build():
    out = build("--check")
    assert out.returncode == 0, out.stderr[-2000:]


def copy_of_tree(tmp_path):
    """The sources and the library in a folder of their own, to build other things from."""
    for name in ("tools", "course_lib", "notebooks", "solutions", "requirements.txt"):
        subprocess.run(["cp", "-r", str(ROOT / name), str(tmp_path)], check=True)
    return tmp_path


@pytest.mark.parametrize(
    "lines, says",
    [
        ("# %%\nx = 1\n\n# %%\nx / 0\n", r"90_bad.py, cell \w{8}: ZeroDivisionError: division by zero"),
        ("# %%\nimport sys\nprint('noise', file=sys.stderr)\n", "writes to stderr: noise"),
        ("# %%\n### BEGIN SOLUTION\nx = 1\n", "1 BEGIN marks, 0 END marks"),
        ("# %%\n### BEGIN SOLUTION\nx = 1\n### END SOLUTION\n", "a solution outside a solution cell"),
        ("# %%\nimport os\nprint(os.getcwd())\n", "prints a path of this machine"),
        ('# %% check="01.1"\nx = 1\n\n# %% check="01.1"\nx = 2\n', "two cells are called 01-1-check"),
    ],
)
def test_a_source_that_fails_says_which_cell(tmp_path, lines, says):
    tree = copy_of_tree(tmp_path)
    (tree / "notebooks/src/90_bad.py").write_text(lines)
    out = build("--only", "90_bad", cwd=tree)
    assert out.returncode == 1
    assert re.search(says, out.stderr), out.stderr
    assert "Traceback" not in out.stderr


def test_a_stale_notebook_is_found(tmp_path):
    tree = copy_of_tree(tmp_path)
    (tree / "notebooks/src/90_new.py").write_text("# %%\n1 + 1\n")
    assert build("--only", "90_new", cwd=tree).returncode == 0
    assert build("--only", "90_new", "--check", cwd=tree).returncode == 0
    (tree / "notebooks/src/90_new.py").write_text("# %%\n1 + 2\n")
    out = build("--only", "90_new", "--check", cwd=tree)
    assert out.returncode == 1 and "notebooks/90_new.ipynb" in out.stderr


def test_the_public_address_is_baked_into_every_notebook(tmp_path):
    tree = copy_of_tree(tmp_path)
    (tree / "notebooks/src/90_new.py").write_text("# %% [markdown]\n# # Title\n")
    out = build("--only", "90_new", "--colab", "owner/name", "--tag", "v1", cwd=tree)
    assert out.returncode == 0, out.stderr
    badge = json.loads((tree / "notebooks/90_new.ipynb").read_text())["cells"][0]["source"]
    assert "/github/owner/name/blob/v1/notebooks/90_new.ipynb" in "".join(badge)
    out = build("--colab", "not an address", cwd=tree)
    assert out.returncode == 2 and "owner/name" in out.stderr


@pytest.mark.parametrize("file", GENERATED, ids=lambda f: f.relative_to(ROOT).as_posix())
def test_notebook_is_tidy(file):
    text = file.read_text()
    assert len(text) < 500_000
    assert str(ROOT) not in text and "/home/" not in text
    notebook = json.loads(text)
    nbformat.validate(notebook)
    assert not any("execution" in c["metadata"] for c in notebook["cells"])
    first = next(c for c in notebook["cells"] if c["cell_type"] == "code")
    assert first["id"] == "first-cell"


@pytest.mark.parametrize("file", EXERCISES, ids=lambda f: f.stem)
def test_solving_only_ever_adds_lines(file):
    """Every cell of the exercise is its solution with lines left out, and no others differ."""
    exercise, solution = nbformat.read(file, 4), nbformat.read(ROOT / "solutions" / file.name, 4)
    assert [c.id for c in exercise.cells] == [c.id for c in solution.cells]
    changed = 0
    for before, after in zip(exercise.cells, solution.cells, strict=True):
        lines = iter(after.source.split("\n"))
        assert all(line in lines for line in before.source.split("\n")), before.id
        changed += before.source != after.source
        if before.source != after.source:
            assert before.metadata["nbgrader"]["solution"]
    assert changed == sum(c.metadata.get("nbgrader", {}).get("solution", False) for c in exercise.cells) > 0


@pytest.mark.parametrize("file", EXERCISES, ids=lambda f: f.stem)
def test_every_cell_of_an_untouched_exercise_is_python(file):
    for cell in nbformat.read(file, 4).cells:
        if cell.cell_type == "code":
            ast.parse(cell.source)
            assert "BEGIN" not in cell.source and "END SOLUTION" not in cell.source


@pytest.mark.parametrize("file", EXERCISES, ids=lambda f: f.stem)
def test_a_fresh_exercise_runs_to_its_end_with_no_red(file):
    notebook = nbformat.read(file, 4)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(file.parent)}}).execute()
    verdicts = []
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            assert output.output_type != "error" and output.get("name") != "stderr", cell.id
            verdicts += re.findall(r"^(\d\d\.\d+) (not attempted|not yet|passed)", output.get("text", ""), re.M)
    checks = [c for c in notebook.cells if c.id.endswith("-check")]
    assert [outcome for _, outcome in verdicts] == ["not attempted"] * len(checks)


def test_the_doctor_hides_what_depends_on_the_machine():
    cells = nbformat.read(ROOT / "notebooks/00_start_here.ipynb", 4).cells
    doctor = next(c for c in cells if c.source == "checks.doctor()")
    assert doctor.outputs == []
