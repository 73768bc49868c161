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

from course_lib.grading import alike, gradebooks, gradescope, summary
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


LOGINS = ("-rf", "@x", "=x", "+x", "a.b-c_d@e.edu", "007", "ümit")
NO_LOGINS = ("=HYPERLINK(1)", "+1+cmd|' /C calc'!A0", "@SUM(A1)", "-1, 2")


def test_a_login_is_written_as_it_is_and_no_formula_is_written():
    grades = [dataclasses.replace(ALICE, file=f"{name}.ipynb") for name in (*LOGINS, *NO_LOGINS)]
    canvas, moodle = lines(gradebooks.canvas_csv(grades)), lines(gradebooks.moodle_csv(grades))
    assert {line[3] for line in canvas[2:]} == {line[0] for line in moodle[1:]}
    assert {line[3] for line in canvas[2:]} == {*LOGINS, *(f"'{name}" for name in NO_LOGINS)}
    assert not [line[0] for line in canvas[2:] if line[0][0] in "=+-@"], "Canvas does not match by this column"


@pytest.mark.parametrize("name", ["Points Possible", "  points   possible ", "points_possible", "POINTS POSSIBLE (2)"])
def test_nobody_becomes_the_line_of_points_possible(name):
    grades = [ALICE, dataclasses.replace(BOB, file=f"{name}.ipynb")]
    assert [line[3] for line in lines(gradebooks.canvas_csv(grades))[2:]] == ["alice"]
    (said,) = gradebooks.left_out(grades)
    assert said.startswith(repr(name)) and said.endswith("it is not in canvas.csv.")


def test_of_two_notebooks_of_one_student_the_better_counts_and_it_is_said():
    worse = dataclasses.replace(ALICE, file="alice.ipynb", rows=(row("01.1", "not yet", 0, 1),))
    for order in ([worse, ALICE], [ALICE, worse]):
        noted = summary.with_doubles_noted([*order, BOB])
        said = (
            "alice handed in 2 notebooks of 01_hello: alice/01_hello.ipynb (1 point), which counts, and "
            "alice.ipynb (0 points)"
        )
        assert [grade.note for grade in noted] == [said, said, ""]
        assert summary.headline(noted)[-1] == f"A{said[1:]}."
        (line,) = [line for line in lines(gradebooks.moodle_csv(noted)) if line[0] == "alice"]
        assert line == ["alice", "1"]
        assert summary.as_csv(noted).count(said) == 2


def test_a_notebook_that_cannot_be_read_is_still_of_its_student():
    broken = Grade(file="dave/01_hello_kernel.ipynb", error="it is not JSON.")
    assert [line[0] for line in lines(gradebooks.moodle_csv([ALICE, broken]))[1:]] == ["alice", "dave"]


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
    solved = [n for n in names if n.endswith("solutions.json")]
    assert {n.rpartition("/")[0] for n in solved} == {"course_lib/lessons/lesson_07"}
    assert "course_lib/grading/box/inside.py" in names and "requirements.txt" in names


def test_the_autograder_of_no_lesson_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="no lesson '99'; there are 01, 02"):
        gradescope.autograder("99", tmp_path)


def test_of_several_notebooks_that_were_submitted_the_best_counts(tmp_path):
    for grade in (CAROL, ALICE, BOB):
        path = tmp_path / grade.file.replace(".ipynb", ".json")
        path.parent.mkdir(exist_ok=True)
        path.write_text(as_json(grade))
    found = gradescope.results(gradescope.chosen(tmp_path))
    assert found["score"] == 3 and found["output"].split("\n") == [
        "=bob.ipynb, graded as 01_hello.",
        "3 notebooks were submitted. =bob.ipynb (3 points) counts; not counted: alice/01_hello.ipynb (1 point), "
        "carol/01_hello.ipynb (not graded).",
    ]
    with pytest.raises(ValueError, match="no grade"):
        gradescope.chosen(tmp_path / "nowhere")


@pytest.mark.parametrize("status, reports, succeeds", [(0, 1, 1), (1, 1, 1), (1, 0, 0), (2, 1, 0), (137, 0, 0)])
def test_the_autograder_takes_no_traceback_for_a_grade(tmp_path, status, reports, succeeds):
    """Python's exit status after a traceback is 1, which the grader's is if somebody has not passed."""
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(
        "#!/bin/bash\n"
        f'[ "$2" = course_lib.grading ] || {{ echo "{{}}" > {tmp_path}/results.json; exit 0; }}\n'
        f'[ {reports} = 1 ] && echo page > "$6/summary.html"\necho "{{}}" > "$6/half.json"\nexit {status}\n'
    )
    python.chmod(0o755)
    script = gradescope._RUN.replace("/autograder/source", str(tmp_path))
    done = subprocess.run([shutil.which("bash"), "-c", script], capture_output=True, text=True)
    assert (done.returncode == 0) == bool(succeeds) == (tmp_path / "results.json").exists(), done.stderr


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
