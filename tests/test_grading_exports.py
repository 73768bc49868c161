"""Points for Canvas, Moodle and Gradescope, by their published formats; and answers that are alike."""

import csv
import dataclasses
import io
import json
import pathlib
import shutil
import subprocess
import zipfile

import pytest

from course_lib.grading import alike, gradebooks, gradescope
from course_lib.grading.grade import Grade
from course_lib.grading.grade_files import as_json
from course_lib.grading.graft import EXERCISES
from course_lib.grading.rows import Row

ROOT = pathlib.Path(__file__).resolve().parent.parent


def row(id, outcome, points, most):
    return Row(
        id=id,
        title="A title",
        kind="write",
        outcome=outcome,
        points=points,
        max_points=most,
        message="said.",
        next="do.",
    )


ALICE = Grade(
    file="alice/01_hello.ipynb", lesson="01_hello", rows=(row("01.1", "passed", 1, 1), row("01.2", "not yet", 0, 2))
)
ALSO_ALICE = Grade(file="alice/02_more.ipynb", lesson="02_more", rows=(row("02.1", "passed", 3, 3),))
BOB = Grade(file="=bob.ipynb", lesson="01_hello", rows=(row("01.1", "passed", 1, 1), row("01.2", "passed", 2, 2)))
CAROL = Grade(file="carol/01_hello.ipynb", error="it is not JSON.")
CLASS = [ALICE, ALSO_ALICE, BOB, CAROL]


def lines(text):
    return list(csv.reader(io.StringIO(text)))


def test_canvas_has_its_columns_the_points_possible_and_a_line_for_each_student():
    head, possible, *students = lines(gradebooks.canvas_csv(CLASS))
    assert head == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "01_hello", "02_more"]
    assert possible == ["    Points Possible", "", "", "", "", "3", "3"]
    points = {line[3]: line[5:] for line in students}
    assert points["alice"] == ["1", "3"]
    assert points["=bob"] == ["3", ""], "the login as it is, and no points for what was not handed in"
    assert points["carol/01_hello"] == ["", ""], "not graded is not 0"


def test_moodle_has_a_username_and_a_column_for_each_lesson():
    head, *students = lines(gradebooks.moodle_csv(CLASS))
    assert head == ["username", "01_hello", "02_more"]
    assert ["alice", "1", "3"] in students


# https://gradescope-autograders.readthedocs.io/en/latest/specs/#output-format
TOP = {"score", "execution_time", "output", "visibility", "stdout_visibility", "extra_data", "tests", "leaderboard"}
TEST = {"score", "max_score", "status", "name", "number", "output", "output_format", "tags", "visibility", "extra_data"}


@pytest.mark.parametrize("graded", [ALICE, BOB, CAROL], ids=lambda g: g.file)
def test_gradescope_reads_the_results(graded):
    found = gradescope.results(json.loads(as_json(graded)))
    assert set(found) <= TOP and found["score"] == graded.points
    assert found["visibility"] in ("visible", "hidden", "after_due_date", "after_published")
    for test in found["tests"]:
        assert set(test) <= TEST and 0 <= test["score"] <= test["max_score"]
        assert test["status"] in ("passed", "failed") and test["output_format"] == "text"
    assert sum(test["score"] for test in found["tests"]) == found["score"]


def test_the_autograder_is_the_zip_that_gradescope_wants(tmp_path):
    path = gradescope.autograder("07", tmp_path)
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "unpacked")
        assert {n: archive.getinfo(n).external_attr >> 16 for n in names[:2]} == {
            "setup.sh": 0o755,
            "run_autograder": 0o755,
        }
    assert [n for n in names if n.endswith(".ipynb")] == ["exercises/07_tiled_matmul.ipynb"]
    assert not [n for n in names if n.startswith(("solutions", "tests"))]
    for script in ("setup.sh", "run_autograder"):
        assert subprocess.run([shutil.which("bash"), "-n", tmp_path / "unpacked" / script]).returncode == 0
    assert "course_lib/grading/box/inside.py" in names and "requirements.txt" in names


def test_the_autograder_of_no_lesson_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="no lesson '99'; there are 01, 02"):
        gradescope.autograder("99", tmp_path)


# Alike

LONG = """def blend(x, y, t):
    # how it is done
    def kernel(x_ref, y_ref, t_ref, o_ref):
        o_ref[...] = x_ref[...] + t_ref[...] * (y_ref[...] - x_ref[...])

    block = pl.BlockSpec((1024,), lambda i: (i,))
    steps = pl.cdiv(x.shape[0], 1024)
    return pl.pallas_call(kernel, out_shape=x, grid=steps, in_specs=[block] * 3, out_specs=block)(x, y, t)
"""


def handed_in(folder, **sources):
    found = {}
    for name, source in sources.items():
        notebook = json.loads((EXERCISES / "01_hello_kernel.ipynb").read_text())
        next(c for c in notebook["cells"] if c["id"] == "01-10")["source"] = source
        found[name] = folder / f"{name}.ipynb"
        found[name].write_text(json.dumps(notebook))
    return found


def test_answers_that_are_alike_are_listed(tmp_path):
    notebooks = handed_in(
        tmp_path,
        a=LONG,
        b=LONG.replace("    # how it is done\n", ""),
        c=LONG.replace("block", "part").replace("steps", "count"),
        d=LONG.replace("1024", "2048"),
        e="def blend(x, y, t):\n    return x\n",
        f="def blend(x, y, t):\n    return x\n",
    )
    (tmp_path / "g.ipynb").write_text("no notebook")
    found = alike.found(notebooks | {"g": tmp_path / "g.ipynb"})
    assert [dataclasses.astuple(one) for one in found] == [
        ("01.10", alike.SAME, ("a", "b")),
        ("01.10", alike.RENAMED, ("a", "b", "c")),
    ]
    assert "01.10  the same: a, b" in alike.text(found)
    assert lines(alike.as_csv(found))[1] == ["01.10", "the same", "a; b"]


def test_what_half_a_class_writes_is_not_listed(tmp_path):
    assert alike.found(handed_in(tmp_path, **{f"s{n}": LONG for n in range(9)})) == []
