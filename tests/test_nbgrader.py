"""The round trip through nbgrader, every night for each lesson: validate, generate_assignment, autograde."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from lesson_files import mutants

ROOT = pathlib.Path(__file__).resolve().parent.parent
NBGRADER = pathlib.Path(f"{sys.prefix}-nbgrader")
STEMS = [path.stem for path in sorted((ROOT / "solutions").glob("[0-9]*.ipynb"))]
MARKS = """
import json, sys
from nbgrader.api import Gradebook
with Gradebook("sqlite:///" + sys.argv[1]) as book:
    print(json.dumps({
        handed_in.student.id: {grade.cell.name: [grade.score, grade.max_score]
                               for notebook in handed_in.notebooks for grade in notebook.grades}
        for handed_in in book.assignment_submissions("course")}))
"""

pytestmark = [
    pytest.mark.sweep,
    pytest.mark.skipif(not NBGRADER.is_dir(), reason=f"nbgrader is not there: tools/setup_nbgrader.sh {sys.prefix}"),
]


@pytest.fixture
def run(tmp_path):
    """nbgrader, or another module or program, in a folder and a home of its own; what it printed."""
    binaries = f"{NBGRADER / 'bin'}:{pathlib.Path(sys.prefix) / 'bin'}"
    env = os.environ | {
        "PYTHONPATH": f"{NBGRADER}:{ROOT}", "PATH": f"{binaries}:{os.environ['PATH']}", "HOME": str(tmp_path),
        "IPYTHONDIR": str(tmp_path / "ipython"), "JUPYTER_DATA_DIR": str(tmp_path / "jupyter"),
        "JUPYTER_CONFIG_DIR": str(tmp_path / "jupyter"),
    }  # fmt: skip
    (tmp_path / "nbgrader_config.py").write_text(
        f"c = get_config()\nc.CourseDirectory.course_id = 'course'\nc.CourseDirectory.root = {str(tmp_path)!r}\n"
        "c.Execute.timeout = 600\n"  # seconds of a cell: 30 unless it is said
    )

    def run(*words):
        said = subprocess.run([sys.executable, *words], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert said.returncode == 0, said.stdout + said.stderr
        return said.stdout + said.stderr if words[0] == "-m" else said.stdout

    return run


def wrong_answer(stem):
    """(cell, source) of a mutant of the last exercise that has one: no other exercise builds on it."""
    last = max(mutants(stem), key=lambda cell: int(cell.metadata["answer"].split(".")[1]))
    return last.metadata["answer"].replace(".", "-"), last.source


@pytest.mark.parametrize("stem", STEMS)
def test_nbgrader_gives_the_marks_that_the_course_gives(tmp_path, run, stem):
    source = tmp_path / f"source/course/{stem}.ipynb"
    source.parent.mkdir(parents=True)
    shutil.copy(ROOT / f"solutions/{stem}.ipynb", source)
    assert "Success" in run("-m", "nbgrader", "validate", str(source))
    run("-m", "nbgrader", "generate_assignment", "course")
    released = tmp_path / f"release/course/{stem}.ipynb"
    assert "### BEGIN SOLUTION" not in released.read_text()

    name, mutant = wrong_answer(stem)
    wrong = json.loads(source.read_text())
    next(cell for cell in wrong["cells"] if cell["id"] == name)["source"] = mutant
    texts = {"solved": source.read_text(), "blank": released.read_text(), "wrong": json.dumps(wrong)}
    for student, notebook in texts.items():
        handed_in = tmp_path / f"submitted/{student}/course/{stem}.ipynb"
        handed_in.parent.mkdir(parents=True)
        handed_in.write_text(notebook)
    run("-m", "nbgrader", "autograde", "course")

    marks = json.loads(run("-c", MARKS, str(tmp_path / "gradebook.db")))
    lost = {student: {cell for cell, (got, of) in grades.items() if got != of} for student, grades in marks.items()}
    worth = {cell for cell, (_, of) in marks["solved"].items() if of}
    assert len(worth) > 5
    assert lost == {"solved": set(), "blank": worth, "wrong": {f"{name}-check"}}
