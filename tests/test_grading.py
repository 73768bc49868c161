"""Notebooks of every kind through the real command: solved, empty, wrong, harmful, malformed."""

import csv
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET

import jupytext
import psutil
import pytest

from course_lib.grading import graft, submission, verdict
from course_lib.grading.grade import Grade
from course_lib.grading.report import as_csv, as_json, as_junit, table

ROOT = pathlib.Path(__file__).resolve().parent.parent
EMPTY = ROOT / "exercises/01_hello_kernel.ipynb"
SOLVED = ROOT / "solutions/01_hello_kernel.ipynb"
IDS = ["01.1", "01.2", "01.3", "01.4", "01.5"]
CELL_TIMEOUT = 20  # seconds; the first cells import JAX and Keras, which takes a while on two busy cores
CHILD = "86399.25"  # what the child that an answer leaves behind is called: python -c ... 86399.25

STUBBORN = f"""
import subprocess, sys, time
subprocess.Popen(
    [sys.executable, "-c", "import sys, time; time.sleep(float(sys.argv[1]))", "{CHILD}"],
    start_new_session=True,
)
while True:
    try:
        time.sleep(3600)
    except BaseException:
        pass
"""
HELPER = "def helper(x_ref):\n    return 2 * x_ref[...]\n"
USES_HELPER = "def scaled_add_kernel(x_ref, y_ref, o_ref):\n    o_ref[...] = helper(x_ref) + y_ref[...]\n"


def notebook(path=EMPTY):
    return json.loads(path.read_text())


def cell(nb, name):
    return next(c for c in nb["cells"] if c["id"] == name)


def answered(path=EMPTY, **answers):
    """A notebook with answers replaced: answered(e01_1="...")."""
    nb = notebook(path)
    for name, source in answers.items():
        cell(nb, name[1:].replace("_", "-"))["source"] = source
    return nb


def answers(folder="src"):
    """{(exercise, name): source} of the answers in a percent file; our own have no name."""
    cells = jupytext.read(ROOT / "solutions" / folder / "01_hello_kernel.py").cells
    return {(c.metadata["answer"], c.metadata.get("name", "")): c.source for c in cells if "answer" in c.metadata}


def wrong():
    mutants = answers("mutants")
    return answered(
        SOLVED,
        e01_2=mutants["01.2", "computes in float32"],
        e01_4=mutants["01.4", "comes back to every block"],
        e01_5=mutants["01.5", "writes to y instead"],
    )


def harmful():
    """01.2 cannot be interrupted and leaves a process behind, 01.4 ends the kernel; 01.1 is right."""
    return answered(
        e01_1=answers()["01.1", ""],
        e01_2=STUBBORN,
        e01_4="import os\n\n\ndef configure(n):\n    os._exit(0)\n",
    )


def tampered():
    nb = answered(
        e01_1="# NBVAL_SKIP\nprint('busy')\n" + answers()["01.1", ""],
        e01_4="def configure(n:\n    return 1",
        e01_5=USES_HELPER,
    )
    cell(nb, "01-2-check")["source"] = ["print('01.2 passed: reference agrees.')"]
    nb["cells"].insert(4, {"cell_type": "code", "id": "extra", "metadata": {}, "source": HELPER})
    nb["cells"] = [c for c in nb["cells"] if c["id"] not in ("01-1-check", "01-3")]
    return nb


def split():
    """An answer cell that was split in two; another that lost its mark and kept its id."""
    nb = answered(e01_1=answers()["01.1", ""].replace("o_ref[...] = ", "total = "))
    half = json.loads(json.dumps(cell(nb, "01-1")))
    half |= {"id": "other", "source": "    o_ref[...] = total"}
    nb["cells"].insert(nb["cells"].index(cell(nb, "01-1")) + 1, half)
    cell(nb, "01-4")["source"] = answers()["01.4", ""]
    cell(nb, "01-4")["metadata"] = {}
    return nb


MALFORMED = {
    "empty": (b"", "it is not JSON"),
    "not json": (b"hello", "it is not JSON"),
    "cut off": (EMPTY.read_bytes()[:2000], "it is not JSON"),
    "not utf-8": (b'{"cells": "\xff\xfe"}', "it is not UTF-8"),
    "deep": (b"[" * 200_000, "nested too deeply"),
    "huge number": (b'{"nbformat": ' + b"4" * 10_000 + b"}", "it is not JSON"),
    "a list": (b"[1, 2]", "not a notebook"),
    "no format": (b'{"cells": []}', "not a notebook"),
    "nbformat 3": (b'{"nbformat": 3, "worksheets": []}', "it is of nbformat 3, not 4"),
    "cells null": (b'{"nbformat": 4, "cells": null}', "no list of cells"),
    "cells missing": (b'{"nbformat": 4}', "no list of cells"),
    "too large": (b" " * (submission.MAX_BYTES + 1), "more than 5 MiB"),
    "another notebook": (b'{"nbformat": 4, "cells": []}', "no exercise of this course"),
    "odd cells": (
        json.dumps(
            {
                "nbformat": 4,
                "cells": [
                    None,
                    7,
                    {},
                    {"cell_type": "code"},
                    {"cell_type": "code", "metadata": [], "source": 1},
                    {"cell_type": "code", "metadata": {"nbgrader": [1]}, "source": ["a", {}]},
                    {
                        "cell_type": "code",
                        "metadata": {"nbgrader": {"grade_id": [1]}},
                        "source": "",
                    },
                    {"cell_type": ["code"], "source": "x"},
                ],
            }
        ).encode(),
        "no exercise of this course",
    ),
}


def grade(*arguments, cwd):
    return subprocess.run(command(*arguments), cwd=cwd, env=environment(), capture_output=True, text=True)


def command(*arguments):
    return [sys.executable, "-m", "course_lib.grading", *map(str, arguments)]


def environment():
    return os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"}


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A folder with notebooks of every kind, graded once: (the finished process, its reports' folder)."""
    top = tmp_path_factory.mktemp("grading")
    folder = top / "handed in"
    for name, nb in {
        "empty": notebook(),
        "alice/work": wrong(),
        "bob/work": tampered(),
        "1 harmful": harmful(),
        "split": split(),
        "_drafts/skipped": notebook(),
        ".ipynb_checkpoints/skipped": notebook(),
    }.items():
        path = folder / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(nb))
    (folder / "malformed").mkdir()
    for name, (data, _) in MALFORMED.items():
        (folder / f"malformed/{name}.ipynb").write_bytes(data)
    (folder / "link.ipynb").symlink_to(EMPTY)
    os.mkfifo(folder / "pipe.ipynb")
    (folder / "=1+1.ipynb").touch()
    done = grade(folder, "--cell-timeout", CELL_TIMEOUT, "--jobs", 2, cwd=top)
    return done, top / "grades"


@pytest.fixture
def rows(graded):
    """rows("alice/work") -> {exercise: its row in the JSON}."""

    def of(name):
        data = json.loads((graded[1] / f"{name}.json").read_text())
        return {row["id"]: row for row in data["exercises"]}

    return of


def outcomes(rows):
    return [rows[id]["outcome"] for id in IDS]


def test_a_folder_that_did_not_all_pass_exits_with_1(graded):
    assert graded[0].returncode == 1, graded[0].stderr


def test_no_traceback_is_printed(graded):
    assert "Traceback" not in graded[0].stdout + graded[0].stderr


def test_progress_goes_to_stderr(graded):
    total = 8 + len(MALFORMED)
    assert len(re.findall(rf"^\[\d+/{total}\] ", graded[0].stderr, re.M)) == total
    assert "alice/work.ipynb: 3 of 6 points" in graded[0].stderr


def test_an_empty_notebook_is_not_attempted(rows):
    assert outcomes(rows("empty")) == ["not attempted"] * 5
    assert {row["message"] for row in rows("empty").values()} == {"the answer cell is as it was handed out."}
    assert [row["max_points"] for row in rows("empty").values()] == [1, 1, 2, 1, 1]


def test_wrong_answers_are_refused_and_the_rest_passes(rows):
    found = rows("alice/work")
    assert outcomes(found) == ["passed", "not yet", "passed", "not yet", "not yet"]
    assert [found[id]["judge"] for id in IDS] == ["", "numbers", "", "simulator", "numbers"]
    assert "it should be" in found["01.2"]["message"]
    assert found["01.4"]["message"].startswith(
        "the simulator refused it. With arguments of float32[4096]: The block [0:1024]"
    )
    assert "\nNext: " in found["01.4"]["verdict"]
    assert found["01.1"]["message"].startswith("numbers, simulator, races")
    assert sum(row["points"] for row in found.values()) == 3


def test_what_ends_the_kernel_is_an_error_and_the_rest_goes_on(rows):
    found = rows("1 harmful")
    assert outcomes(found) == ["passed", "error", "not attempted", "error", "not attempted"]
    assert found["01.2"]["message"] == f"it ran for more than {CELL_TIMEOUT} s and was stopped."
    assert found["01.4"]["message"] == ("the Python process ended while this ran (os._exit, or out of memory).")


def test_no_process_is_left(graded):
    assert not left_behind()


def left_behind():
    found = []
    for process in psutil.process_iter():
        try:
            found += [process] if CHILD in process.cmdline() else []
        except psutil.Error:
            continue
    return found


def test_a_missing_check_cell_is_noted_and_graded(rows):
    row = rows("bob/work")["01.1"]
    assert row["outcome"] == "passed"
    assert row["note"] == "its check cell was missing; the course's own was used"


def test_a_changed_check_cell_is_noted_and_changes_nothing(rows):
    row = rows("bob/work")["01.2"]
    assert row["outcome"] == "not attempted"
    assert row["note"] == "its check cell was changed; the course's own was used"


def test_a_missing_answer_cell(rows):
    row = rows("bob/work")["01.3"]
    assert row["outcome"] == "not attempted"
    assert row["message"] == "the answer cell is missing from the notebook."


def test_an_answer_that_does_not_run(rows):
    row = rows("bob/work")["01.4"]
    assert row["outcome"] == "not yet"
    assert row["message"].startswith("the answer cell does not run. SyntaxError: ")
    assert row["message"].endswith("(line 1).")


def test_a_helper_in_another_cell_is_pointed_out(rows):
    row = rows("bob/work")["01.5"]
    assert row["outcome"] == "not yet"
    assert "NameError: name 'helper' is not defined" in row["message"]
    assert row["note"] == "helper is defined in another cell; only the answer cells are graded"


def test_a_split_answer_is_joined(rows):
    row = rows("split")["01.1"]
    assert row["outcome"] == "passed"
    assert row["note"] == "its answer stands in several cells; they were joined"


def test_an_answer_is_found_by_its_cell_id_too(rows):
    assert rows("split")["01.4"]["outcome"] == "passed"


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_notebook_has_one_clear_line(graded, name):
    data = json.loads((graded[1] / f"malformed/{name}.json").read_text())
    assert MALFORMED[name][1] in data["error"]
    assert data["exercises"] == [] and not data["passed"]
    line = re.search(rf"^malformed/{name}\.ipynb: not graded\. (.+)", graded[0].stdout, re.M)
    assert line[1].lower() == data["error"].lower()


def test_links_and_pipes_are_refused(graded):
    assert "link.ipynb: not graded. It is a symbolic link" in graded[0].stdout
    assert "pipe.ipynb: not graded. It is not a regular file" in graded[0].stdout


def test_drafts_and_checkpoints_are_passed_over(graded):
    assert "skipped" not in graded[0].stdout
    assert not list(graded[1].rglob("skipped*"))


def test_the_table_is_aligned(graded):
    table = graded[0].stdout.split("alice/work.ipynb: 3 of 6 points\n")[1].splitlines()
    rows = [line[:28] for line in table if line[2:6] in IDS]  # long messages go on in a line of their own
    assert rows[:5] == [
        "  01.1  passed         1/1  ",
        "  01.2  not yet        0/1  ",
        "  01.3  passed         2/2  ",
        "  01.4  not yet        0/1  ",
        "  01.5  not yet        0/1  ",
    ]


def test_every_json_is_as_the_documentation_says(graded):
    import jsonschema

    text = (ROOT / "docs/grading.md").read_text()
    schema = json.loads(re.search(r"```json\n(\{.*?\n\})\n```", text, re.S)[1])
    files = list(graded[1].rglob("*.json"))
    assert len(files) == 8 + len(MALFORMED)
    for file in files:
        jsonschema.validate(json.loads(file.read_text()), schema)
        assert str(graded[1].parent) not in file.read_text(), "a path of this machine"


def test_every_junit_file_agrees_with_its_json(graded):
    for file in graded[1].rglob("*.xml"):
        suite = ET.parse(file).getroot()
        data = json.loads(file.with_suffix(".json").read_text())
        assert len(suite.findall(".//testcase")) == (len(data["exercises"]) or 1)
        by_outcome = [row["outcome"] for row in data["exercises"]]
        not_passed = by_outcome.count("not yet") + by_outcome.count("not attempted")
        assert len(suite.findall(".//failure")) == not_passed == int(suite.get("failures"))
        errors = by_outcome.count("error") + bool(data["error"])
        assert len(suite.findall(".//error")) == errors == int(suite.get("errors"))


def test_summary(graded):
    lines = list(csv.DictReader((graded[1] / "summary.csv").read_text().splitlines()))
    by_file = {line["file"]: line for line in lines}
    assert by_file["alice/work.ipynb"]["points"] == "3"
    assert by_file["alice/work.ipynb"]["01.4"] == "not yet"
    assert "symbolic link" in by_file["link.ipynb"]["error"]
    assert "'=1+1.ipynb" in by_file, "a spreadsheet would compute it"


def test_our_solutions_pass_under_another_name(tmp_path):
    shutil.copy(SOLVED, tmp_path / "my homework (2).ipynb")
    done = grade("my homework (2).ipynb", "--out", "reports", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("  passed  ") == 5
    assert done.stdout.startswith("my homework (2).ipynb: 6 of 6 points\n")
    written = sorted(p.name for p in (tmp_path / "reports").iterdir())
    assert written == ["my homework (2).json", "my homework (2).xml"]


def test_ctrl_c_stops_everything(tmp_path):
    (tmp_path / "loop.ipynb").write_text(json.dumps(answered(e01_1=STUBBORN)))
    process = subprocess.Popen(
        command("loop.ipynb"), cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + 60
        while not left_behind():
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=20)[1]
    finally:
        process.kill()
    assert process.returncode == 130
    assert said == "\nmake grade: stopped.\n"
    assert not left_behind()


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["nowhere.ipynb"], "make grade: nowhere.ipynb does not exist.\n"),
        (["."], "make grade: there is no notebook (.ipynb) in ..\n"),
        (["x.ipynb", "--jobs", "0"], "invalid positive integer value: '0'\n"),
        ([], "the following arguments are required: NB\n"),
    ],
)
def test_usage_errors_exit_with_2(tmp_path, arguments, says):
    done = grade(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.endswith(says)
    assert not list(tmp_path.iterdir())


def test_parse_a_refusal():
    said = verdict.parse(
        "07.2 not yet: the simulator refused it.\nOutput block (1, 0) is NaN. At step (1, 0, 0) your\n"
        "kernel added. Next: set it to zero."
    )
    assert said["outcome"] == "not yet" and said["judge"] == "simulator"
    assert said["message"] == "the simulator refused it. Output block (1, 0) is NaN."


def test_nbval_marks_in_an_answer_are_no_marks():
    course = graft.course_notebook({"01-1"})
    nb = graft.graft(course, {"01-1": "  # NBVAL_SKIP\nx = 1  # NBVAL_SKIP\n#NBVAL_CHECK_OUTPUT"})
    assert cell(nb, "01-1")["source"] == ("  # (NBVAL_SKIP)\nx = 1  # NBVAL_SKIP\n#(NBVAL_CHECK_OUTPUT)")


def test_every_exercise_notebook_names_title_and_points_of_its_exercises():
    from course_lib.checks.exercise import exercises

    tasks = [task for course in graft.course_notebooks() for task in course.tasks]
    told = {task.id: (task.title, task.points) for task in tasks}
    assert told == {e.id: (e.title, e.points) for e in exercises().values()}


def test_hostile_text_does_no_harm():
    text = verdict.clean("\x1b[2Jred\x00\ud800\ufffe <b>" + "x" * 1000)
    assert text.startswith("red <b>") and len(text) == 300
    row = verdict.Row(id="01.1", title="<&>", outcome="not yet", message=text, points=0, max_points=1)
    grade = Grade(file="<a>.ipynb", rows=(row,))
    assert ET.fromstring(as_junit(grade).encode()).find(".//failure").get("message").endswith("...")
    assert json.loads(as_json(grade))["exercises"][0]["message"] == text
    assert table(grade).startswith("<a>.ipynb: 0 of 1 points")
    assert as_csv([grade]).splitlines()[1] == "<a>.ipynb,0,1,not yet,"
