"""Notebooks of every kind through the real command: solved, empty, wrong, harmful, malformed."""

import copy
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

import nbformat
import psutil
import pytest
from lesson_files import answers, mutants
from sweeps import daily

from course_lib.checks.exercise import exercises
from course_lib.grading import graft, lost_marks, run, submission
from course_lib.grading import rows as graded_rows

ROOT = pathlib.Path(__file__).resolve().parent.parent
EMPTY = ROOT / "exercises/01_hello_kernel.ipynb"
SOLVED = ROOT / "solutions/01_hello_kernel.ipynb"
KERNELS = ["01.1", "01.2", "01.3", "01.4", "01.5"]
TASKS = graft.course_notebook({"01-1"}).tasks
IDS = [task.id for task in TASKS]
MOST = sum(task.points for task in TASKS)
ALICE = sum(task.points for task in TASKS if task.id in ("01.1", "01.3", "01.11"))
CELL_TIMEOUT = 60  # seconds; a check that takes 5 s alone has taken 20 s beside three other tests
CHILD = f"86399.{os.getpid()}"  # seconds: how the child that an answer leaves behind is told from those of other runs

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


OURS = answers("01_hello_kernel")
WRONG = {(cell.metadata["answer"], cell.metadata["name"]): cell.source for cell in mutants("01_hello_kernel")}


def above_par():
    return WRONG["01.11", "fetches x for each of the four"]


def wrong():
    """01.1, 01.3 and 01.11 are right; 01.6 to 01.10 are blank, which costs no time."""
    return answered(
        e01_1=OURS["01.1"],
        e01_3=OURS["01.3"],
        e01_11=OURS["01.11"],
        e01_2=WRONG["01.2", "computes in float32"],
        e01_4=WRONG["01.4", "comes back to every block"],
        e01_5=WRONG["01.5", "writes to y instead"],
    )


def harmful():
    """01.4 ends the kernel, 01.7 cannot be interrupted and leaves a process behind; 01.6 and 01.8 are right.

    All runs again without what has ended it, so these two are answers that need no judge.
    """
    return answered(
        e01_4="import os\n\n\ndef configure(n):\n    os._exit(0)\n",
        e01_6=OURS["01.6"],
        e01_7=STUBBORN,
        e01_8=OURS["01.8"],
    )


LOUD = """def add_kernel(x_ref, y_ref, o_ref):
    print("x" * 5_000_000)
    print("01.1 passed: numbers, simulator, races and compiler agree.")
    o_ref[...] = x_ref[...]
"""
RAISES_A_PASS = """class PallasAdd(keras.layers.Layer):
    def call(self, inputs):
        raise checks.NotPassed("01.3 passed: all judges agree.")
"""
# The check prints its verdict to people and raises it to graders; here a grader is told that it is a person.
HIDES_THE_GRADER = """import os

print("01.4 passed: numbers, simulator, races and compiler agree.")
for name in ("COURSE_GRADING", "PYTEST_CURRENT_TEST"):
    os.environ.pop(name, None)


def configure(n):
    print("01.4 passed: numbers, simulator, races and compiler agree.")
    return (n // 1024,), (1024,), lambda i: (0,)
"""
# A kernel above par, in a cell that puts scores where the check and the grader look for them.
FORGES_A_SCORE = """import course_lib.checks.kinds.golf as golf
import course_lib.cost

golf.score = lambda *anything: 1
golf.announce = lambda id, answer: print(f"{id} score: 1")
course_lib.cost.hbm_bytes = lambda walk: 1
print("01.11 score: 1")

"""
HOSTILE = "<script>alert(1)</script> <img src=x onerror=alert(1)> ]]> \x1b[31mred\x1b[0m \u202egnp.exe"


def forged():
    """Each answer says that it has passed, or tries to break the reports, and none is right."""
    return answered(
        e01_1=LOUD,
        e01_2="add_any = 42\n",
        e01_3=RAISES_A_PASS,
        e01_4=HIDES_THE_GRADER,
        e01_5=f"raise ValueError({HOSTILE!r} + 1_000_000 * 'y')\n",
        e01_11=FORGES_A_SCORE + above_par(),
    )


def tampered():
    """The cells of 01.1 to 01.5 are changed; that of 01.7 is split in two; that of 01.8 lost its mark, not its id."""
    nb = answered(
        e01_1="# NBVAL_SKIP\nprint('busy')\n" + OURS["01.1"],
        e01_4="def configure(n:\n    return 1",
        e01_5=USES_HELPER,
        e01_7="half = 4",
        e01_8=OURS["01.8"],
        e01_11=above_par(),
    )
    other = json.loads(json.dumps(cell(nb, "01-7"))) | {"id": "other", "source": "line = 2 * half"}
    nb["cells"].insert(nb["cells"].index(cell(nb, "01-7")) + 1, other)
    cell(nb, "01-8")["metadata"] = {}
    cell(nb, "01-2-check")["source"] = ["print('01.2 passed: reference agrees.')"]
    nb["cells"].insert(4, {"cell_type": "code", "id": "extra", "metadata": {}, "source": HELPER})
    nb["cells"] = [c for c in nb["cells"] if c["id"] not in ("01-1-check", "01-3")]
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
    return [sys.executable, "-m", "course_lib.grading", "--unboxed", *map(str, arguments)]


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
        f"{HOSTILE.replace('/', '')}": forged(),
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
    (top / "weights.csv").write_text("id,weight\n01.1,3\n\n01.5,0\n")
    done = grade(folder, "--cell-timeout", CELL_TIMEOUT, "--jobs", 2, "--weights", "weights.csv", cwd=top)
    return done, top / "grades"


def data_of(graded, name):
    return json.loads((graded[1] / f"{name}.json").read_text())


@pytest.fixture
def rows(graded):
    """rows("alice/work") -> {exercise: its row in the JSON}."""

    def of(name):
        return {row["id"]: row for row in data_of(graded, name)["exercises"]}

    return of


def outcomes(rows):
    return [rows[id]["outcome"] for id in KERNELS]


def test_a_folder_that_did_not_all_pass_exits_with_1(graded):
    assert graded[0].returncode == 1, graded[0].stderr


def test_no_traceback_is_printed(graded):
    assert "Traceback" not in graded[0].stdout + graded[0].stderr


def test_progress_goes_to_stderr(graded):
    total = 8 + len(MALFORMED)
    assert len(re.findall(rf"^\[[#.]+\] \d+/{total}\b", graded[0].stderr, re.M)) == total
    assert f"alice/work.ipynb: {ALICE} of {MOST} points" in graded[0].stderr


def test_an_empty_notebook_is_not_attempted(rows):
    found = rows("empty")
    assert list(found) == IDS
    assert {row["outcome"] for row in found.values()} == {"not attempted"}
    assert {row["message"] for row in found.values()} == {"the answer cell is as it was handed out."}
    assert 'checks.hint("01.1")' in found["01.1"]["next"]


def test_wrong_answers_are_refused_and_the_rest_passes(rows):
    found = rows("alice/work")
    assert outcomes(found) == ["passed", "not yet", "passed", "not yet", "not yet"]
    assert [found[id]["judge"] for id in KERNELS] == ["", "numbers", "", "simulator", "numbers"]
    assert "it should be" in found["01.2"]["message"]
    assert found["01.4"]["message"].startswith("the simulator refused it. With arguments of float32[4096]: ")
    assert found["01.4"]["next"] and f"\nNext: {found['01.4']['next']}" in found["01.4"]["verdict"]
    assert found["01.1"]["message"].startswith("numbers, simulator, races")
    assert sum(row["points"] for row in found.values()) == ALICE


def test_weights_count_in_the_percent_and_not_in_the_points(graded, rows):
    found = rows("alice/work")
    assert [found[id]["weight"] for id in KERNELS] == [3, 1, 1, 1, 0]
    # 01.1 counts three times and is right; of the three that are wrong, 01.5 does not count.
    data = data_of(graded, "alice/work")
    assert data["percent"] == round(100 * (ALICE + 2) / (MOST - 1 + 2), 1)
    assert f"alice/work.ipynb: {ALICE} of {MOST} points, {data['percent']:g}% weighted\n" in graded[0].stdout


@pytest.fixture
def forged_rows(graded, rows):
    (name,) = [path.stem for path in graded[1].glob("*script*.json")]
    return rows(name)


def test_an_answer_that_prints_the_pass_has_not_passed(forged_rows):
    assert outcomes(forged_rows) == ["not yet", "not yet", "not yet", "error", forged_rows["01.5"]["outcome"]]
    assert sum(row["points"] for row in forged_rows.values()) == 0
    assert forged_rows["01.1"]["judge"] == "numbers"
    assert forged_rows["01.4"]["message"] == "the check ran and ended in something else than a pass."


def test_a_score_that_an_answer_makes_up_is_in_no_report(forged_rows):
    row = forged_rows["01.11"]
    assert (row["outcome"], row["points"], row["score"]) == ("error", 0, 196_608)
    assert row["message"] == ("its check printed another score than its kernel has: the grader counts 196,608 bytes.")


def test_the_grader_counts_every_score_on_which_the_judges_agree(rows):
    found = {name: rows(name)["01.11"] for name in ("alice/work", "bob/work", "empty")}
    scores = {name: (row["outcome"], row["score"]) for name, row in found.items()}
    assert scores == {
        "alice/work": ("passed", 147_456),
        "bob/work": ("not yet", 196_608),
        "empty": ("not attempted", None),
    }
    assert {(row["unit"], row["par"], row["ours"]) for row in found.values()} == {("bytes", 160_000, 147_456)}


def test_the_class_has_its_best(graded):
    said = "best 147,456 bytes (alice/work); par 160,000, ours 147,456"
    assert said in graded[0].stdout and said in (graded[1] / "summary.html").read_text()
    lines = csv.DictReader((graded[1] / "summary.csv").read_text().splitlines())
    (alice,) = [line for line in lines if line["file"] == "alice/work.ipynb"]
    assert (alice["01.11"], alice["01.11 bytes"]) == ("passed", "147456")


def test_an_answer_of_the_wrong_make_is_told_so(forged_rows):
    assert "42" in forged_rows["01.2"]["verdict"] and forged_rows["01.2"]["judge"] == "exercise"


def test_what_an_answer_raises_is_cut_and_cleaned(forged_rows):
    message = forged_rows["01.5"]["message"]
    assert message.startswith("the answer cell does not run. ValueError: <script>alert(1)</script>")
    assert "]]> red gnp.exe" in message and len(message) == 300


def test_what_ends_the_kernel_is_an_error_and_the_rest_goes_on(rows):
    found = rows("1 harmful")
    assert outcomes(found) == ["not attempted"] * 3 + ["error", "not attempted"]
    assert [found[id]["outcome"] for id in ("01.6", "01.7", "01.8")] == ["passed", "error", "passed"]
    assert found["01.7"]["message"] == f"it ran for more than {CELL_TIMEOUT} s and was stopped."
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
    assert "The name helper is not defined" in row["message"]
    assert row["note"] == "helper is defined in another cell; only the answer cells are graded"
    assert row["next"] == "move helper into the answer cell."


def test_a_split_answer_is_joined(rows):
    row = rows("bob/work")["01.7"]
    assert row["outcome"] == "passed"
    assert row["note"] == "its answer stands in several cells; they were joined"


def test_an_answer_is_found_by_its_cell_id_too(rows):
    assert rows("bob/work")["01.8"]["outcome"] == "passed"


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
    table = re.split(r"^alice/work.ipynb: .*\n", graded[0].stdout, flags=re.M)[1].splitlines()
    rows = [line[:35] for line in table if line[2:6] in KERNELS]  # long messages go on in a line of their own
    assert rows[:5] == [
        "  01.1  passed         1/1  x3     ",
        "  01.2  not yet        0/1  x1     ",
        "  01.3  passed         2/2  x1     ",
        "  01.4  not yet        0/1  x1     ",
        "  01.5  not yet        0/1  x0     ",
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


def test_every_notebook_has_a_page(graded):
    pages = [path.with_suffix("") for path in graded[1].rglob("*.html")]
    assert sorted(pages) == sorted(
        [*(path.with_suffix("") for path in graded[1].rglob("*.json")), graded[1] / "summary"]
    )


def test_the_class_is_summed_up(graded):
    said = graded[0].stdout
    assert f"\n\n{8 + len(MALFORMED)} notebooks, 5 graded. Not graded: " in said
    assert f"\n01_hello_kernel, 5 notebooks: points median 2 of {MOST}, from 0 to {ALICE}.\n" in said
    lines = {line["file"]: line for line in csv.DictReader((graded[1] / "summary.csv").read_text().splitlines())}
    assert lines["alice/work.ipynb"]["points"] == str(ALICE)
    assert lines["alice/work.ipynb"]["01.4"] == "not yet"
    assert "symbolic link" in lines["link.ipynb"]["error"] and lines["link.ipynb"]["percent"] == ""
    assert "'=1+1.ipynb" in lines, "a spreadsheet would compute it"
    exercise = next(csv.DictReader((graded[1] / "exercises.csv").read_text().splitlines()))
    assert (exercise["id"], exercise["passed"], exercise["not yet"], exercise["judge"]) == ("01.1", "2", "1", "numbers")


@pytest.mark.sweep  # every day some of them are graded above, and one of each kind in the box
def test_our_solutions_pass_under_another_name(tmp_path):
    shutil.copy(SOLVED, tmp_path / "my homework (2).ipynb")
    done = grade("my homework (2).ipynb", "--out", "reports", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("  passed  ") == len(IDS)
    assert done.stdout.startswith(f"my homework (2).ipynb: {MOST} of {MOST} points, 100%\n")
    written = sorted(p.name for p in (tmp_path / "reports").iterdir())
    assert written == ["my homework (2).html", "my homework (2).json", "my homework (2).xml"]


# A shell's background jobs ignore Ctrl-C, and so do their children, unless somebody says otherwise.
HEEDED = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"


@pytest.mark.parametrize("sign", daily(signal.SIGINT, of=[signal.SIGINT, signal.SIGTERM]))
def test_ctrl_c_stops_everything(sign, tmp_path):
    (tmp_path / "loop.ipynb").write_text(json.dumps(answered(e01_1=STUBBORN)))
    heeded = [sys.executable, "-c", HEEDED, *command("loop.ipynb")]
    process = subprocess.Popen(heeded, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while not left_behind():
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.1)
        process.send_signal(sign)
        said = process.communicate(timeout=20)[1]
    finally:
        process.kill()
    assert process.returncode == 130
    assert said.startswith("NOT IN A BOX. ") and said.endswith("\n\nmake grade: stopped.\n") and said.count("\n") == 3
    assert not left_behind()


USAGE_ERRORS = [
    (["nowhere.ipynb"], "make grade: nowhere.ipynb does not exist.\n"),
    (["."], "make grade: there is no notebook (.ipynb) in ..\n"),
    (["x.ipynb", "--jobs", "0"], "invalid positive integer value: '0'\n"),
    ([], "the following arguments are required: NB\n"),
    (
        [EMPTY, "--weights", "no.csv"],
        "make grade: no.csv, the file of weights, cannot be read: No such file or directory.\n",
    ),
]


# Every day one that we find, and one that argparse finds.
@pytest.mark.parametrize("arguments, says", daily(USAGE_ERRORS[0], USAGE_ERRORS[2], of=USAGE_ERRORS))
def test_usage_errors_exit_with_2(tmp_path, arguments, says):
    done = grade(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.endswith(says)
    assert not list(tmp_path.iterdir())


def test_nbval_marks_in_an_answer_are_no_marks():
    course = graft.course_notebook({"01-1"})
    nb = graft.graft(course, {"01-1": "  # NBVAL_SKIP\nx = 1  # NBVAL_SKIP\n#NBVAL_CHECK_OUTPUT"})
    assert cell(nb, "01-1")["source"] == ("  # (NBVAL_SKIP)\nx = 1  # NBVAL_SKIP\n#(NBVAL_CHECK_OUTPUT)")


def test_the_course_s_own_cells_carry_no_mark_either():
    course = copy.deepcopy(graft.course_notebook({"01-1"}))
    assert "nbval-check-output" in cell(course.notebook, "01-1-check")["metadata"]["tags"]
    cell(course.notebook, "01-1-check")["source"] = "# NBVAL_CHECK_OUTPUT\nchecks.check('01.1', add_vectors)"
    cells = graft.graft(course, {})["cells"]
    assert not any("tags" in c["metadata"] for c in cells if c["cell_type"] == "code")
    assert cell({"cells": cells}, "01-1-check")["source"].startswith("# (NBVAL_CHECK_OUTPUT)\n")
    assert not any(re.search(r"^\s*#[#\s]*NBVAL_\w+\s*$", c["source"], re.M) for c in cells if c["cell_type"] == "code")


def test_what_is_graded_is_what_is_declared():
    """Title, points and kind come from the declarations; the notebooks' headings and marks say the same."""
    for course in graft.course_notebooks():
        prose = "\n\n".join("".join(c["source"]) for c in course.notebook["cells"] if c["cell_type"] == "markdown")
        titles = dict(re.findall(r"^## (\d\d\.\d+) (.+)$", prose, re.M))
        points = {c["id"]: c["metadata"]["nbgrader"].get("points") for c in course.notebook["cells"] if marked(c)}
        for task in course.tasks:
            declared = exercises()[task.id]
            assert (task.title, task.points, task.kind) == (declared.title, declared.points, declared.kind)
            assert (titles[task.id], points[task.check]) == (task.title, task.points)
        assert titles.keys() == {task.id for task in course.tasks}


def marked(cell):
    return "nbgrader" in cell["metadata"]


def test_an_answer_is_not_graded_by_what_the_compiler_is_said_to_have_said(tmp_path, monkeypatch):
    """A learner's own code could have written the files in which answers of the compiler are kept."""
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path))
    says = "from course_lib import environment\n\nprint('kept in', environment.cache_folder())"
    cell = {"cell_type": "code", "id": "one", "source": says, "metadata": {}, "outputs": [], "execution_count": None}
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": kernel, "cells": [cell]}
    ran = run.run(notebook, cell_timeout=30, time_limit=60)
    assert ran.cells["one"]["ok"] and ran.cells["one"]["printed"].strip() == "kept in None", ran


# Cells without their marks


def without_marks(change):
    """Return the first lesson's exercises as they are read, pasted into another notebook: {random name: [source]}."""
    cells = nbformat.read(ROOT / "exercises/01_hello_kernel.ipynb", 4).cells
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    return {f"pasted {n}": [source] for n, source in enumerate(change(code))}


ADDS = "def add_kernel(x_ref, y_ref, o_ref):\n    o_ref[...] = x_ref[...] + y_ref[...]"


def test_answers_that_lost_their_marks_are_found_by_their_checks():
    def answered(code):
        return [ADDS if source.startswith("def add_kernel") else source for source in code]

    found = lost_marks.found(without_marks(answered))
    assert found["01-1"] == [ADDS] and found["01-1-check"][0].startswith("checks.check(")
    course = graft.course_notebook(found)
    assert course.name == "01_hello_kernel" and found["01-2"] == [course.source("01-2")]
    assert lost_marks.found({"a": ["x = 1"]}) == {}


def test_an_answer_in_a_fresh_cell_is_pointed_out():
    course = graft.course_notebook({"01-1": []})
    task = course.tasks[0]
    submitted = {name: [course.source(name)] for name in course.code_cells} | {"": [ADDS]}
    note = graded_rows._note(task, course, submitted, graded_rows._AS_HANDED_OUT)
    assert note == "add_kernel is defined in another cell; only the answer cells are graded"


def test_an_answer_whose_marked_cell_is_gone_is_found_by_its_name():
    course = graft.course_notebook({"01-1": []})
    submitted = {name: [course.source(name)] for name in course.code_cells if name not in ("01-1", "01-7")}
    submitted |= {"fresh": [ADDS], "": ["line: int = 8"]}
    found = lost_marks.restored(course, submitted)
    assert (found["01-1"], found["01-7"]) == ([ADDS], ["line: int = 8"])
    note = graded_rows._note(course.tasks[0], course, found, "it passed.")
    assert note == "its cell has lost its mark; the answer was found by the name that it defines"
    assert lost_marks.restored(course, {"01-1": ["pass"], "fresh": [ADDS]})["01-1"] == ["pass"]


@pytest.mark.parametrize("kind", ["markdown", "raw"])
def test_an_answer_in_a_cell_of_another_type_is_told_so(tmp_path, kind):
    nb = answered(e01_1=ADDS)
    cell(nb, "01-1")["cell_type"] = kind
    (tmp_path / "a.ipynb").write_text(json.dumps(nb))
    submitted = submission.read(tmp_path / "a.ipynb")
    course = graft.course_notebook(submitted)
    row = graded_rows._said(course.tasks[0], course, submitted, run.Ran(cells={}, in_time=True, log=""), {})
    assert row["message"] == f"the answer cell is a {kind} cell, and only code cells are run."
    assert lost_marks.restored(course, submitted) == submitted


def test_answers_to_two_lessons_in_one_notebook_are_said():
    first, third = (graft.course_notebook({name}) for name in ("01-1", "03-1"))
    both = {name: [course.source(name)] for course in (first, third) for name in course.code_cells}
    both |= {"01-1": [ADDS]}
    assert graft.course_notebook(both) is first, "the lesson that was answered, not the one with more cells"
    assert graft.other_answers(first, both) == ""
    both |= {"03-1": ["x = 1"], "03-2": ["x = 1"]}
    assert graft.course_notebook(both) is third
    assert graft.other_answers(third, both) == (
        "it also has answers to 01_hello_kernel (01.1), which were not graded: hand in a notebook for each lesson"
    )


def test_a_magic_that_defines_nothing_is_pointed_out():
    course = graft.course_notebook({"01-1": []})
    notes = [
        graded_rows._note(course.tasks[0], course, {"01-1": [f"{magic}\n{ADDS}"], "01-1-check": []}, "not defined.")
        for magic in ("%%timeit", "%%bash", "%%time", "%%capture", "%matplotlib inline", "!pip install x")
    ]
    assert notes[0] == "its answer is under %%timeit, which defines nothing for the check; take that line out"
    assert "%%bash" in notes[1] and notes[2:] == [""] * 4
