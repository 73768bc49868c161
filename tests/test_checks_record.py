"""The progress file and the panel: what is written, when nothing is, and what damage costs."""

import datetime
import html.parser
import json
import os
import pathlib
import subprocess
import sys
import types

import pytest

from course_lib import checks
from course_lib.checks import checking, record
from course_lib.checks.exercise import exercises
from course_lib.checks.record import Entry

TASKS, POINTS = len(exercises()), sum(task.points for task in exercises().values())

ROOT = pathlib.Path(__file__).resolve().parent.parent
TODAY = "2026-05-17"


@pytest.fixture(autouse=True)
def today(monkeypatch):
    """It stays the same day, whenever the tests run."""

    class Day(datetime.date):
        @classmethod
        def today(cls):
            return cls.fromisoformat(TODAY)

    monkeypatch.setattr(record, "datetime", types.SimpleNamespace(date=Day))


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Where a learner's progress is written: a folder outside any clone, and nobody else running the notebook."""
    monkeypatch.delenv("COURSE_RECORD")
    others = [name for name in record._SOMEBODY_ELSE if name != "PYTEST_CURRENT_TEST"]  # pytest is here, and sets it
    monkeypatch.setattr(record, "_SOMEBODY_ELSE", others)
    monkeypatch.chdir(tmp_path)
    a_new_kernel(monkeypatch)
    return tmp_path / "course_progress.json"


def a_new_kernel(monkeypatch):
    monkeypatch.setattr(record, "_memory", {})
    monkeypatch.setattr(record, "_unusable", set())
    monkeypatch.setattr(checking, "_last", {})


def written(file):
    return json.loads(file.read_text())["exercises"]


def test_a_wrong_answer_then_a_right_one(file, capsys):
    checks.check("01.8", "simulator")
    assert written(file) == {
        "01.8": {"outcome": "not yet", "passed_on": "", "attempts": 1, "hints": 0, "assessed": "", "best": 0}
    }
    checks.check("01.8", "none")
    assert written(file)["01.8"] == {
        "outcome": "passed",
        "passed_on": TODAY,
        "attempts": 2,
        "hints": 0,
        "assessed": "",
        "best": 0,
    }
    assert os.listdir(file.parent) == ["course_progress.json"], "nothing else is left behind"


def test_a_pass_stays_a_pass(file, monkeypatch):
    checks.check("01.8", "none")
    text = file.read_text().replace(TODAY, "2026-01-02")
    file.write_text(text)
    checks.check("01.8", "races")
    checks.check("01.8", "none")
    assert written(file)["01.8"] == record._written(Entry(outcome="passed", passed_on="2026-01-02", attempts=3))


def test_an_empty_answer_leaves_no_file(file):
    checks.check("01.8", None)
    assert not file.exists()


def test_hints_attempts_and_assessments_survive_a_restart(file, monkeypatch, capsys):
    checks.check("01.8", "races")
    checks.hint("01.8")
    checks.assess("01.9", "partly")
    a_new_kernel(monkeypatch)
    capsys.readouterr()
    checks.hint("01.8")
    checks.solution("01.8")
    out = capsys.readouterr().out
    assert "hint 2 of 3" in out and 'judge = "none"' in out
    assert record.entry("01.9").assessed == "partly"


def test_deleting_the_file_begins_anew(file, capsys):
    checks.check("01.8", "none")
    file.unlink()
    assert record.entries() == {}
    checks.solution("01.8")
    assert "try it first" in capsys.readouterr().out


def test_the_file_is_in_the_root_of_the_clone(file, monkeypatch):
    clone = file.parent / "clone"
    (clone / "course_lib").mkdir(parents=True)
    (clone / "course_lib/__init__.py").touch()
    (clone / "exercises").mkdir()
    monkeypatch.chdir(clone / "exercises")
    checks.check("01.8", "none")
    assert (clone / "course_progress.json").exists() and not (clone / "exercises/course_progress.json").exists()


@pytest.mark.parametrize(
    "name, value",
    [("COURSE_RECORD", "0"), ("COURSE_GRADING", "1"), ("NBGRADER_EXECUTION", "1")],
)
def test_nothing_is_written_where_somebody_else_runs_the_notebook(file, monkeypatch, name, value, capsys):
    monkeypatch.setenv(name, value)
    checks.check("01.8", "none")
    checks.hint("01.8")
    assert os.listdir(file.parent) == []
    assert record.entry("01.8").attempts == 1, "this process remembers"
    text = str(checks.progress())
    assert "1 attempt " in text and "Kept" not in text


def test_tests_themselves_write_nothing(monkeypatch):
    monkeypatch.delenv("COURSE_RECORD")
    assert not record.recording(), "pytest and nbval set PYTEST_CURRENT_TEST, for the kernels they start too"


def test_a_rehearsal_leaves_no_trace(file, capsys):
    checks.hint("01.8")
    before = file.read_text()
    with checks.rehearsal():
        checks.check("01.8", "races")
        checks.hint("01.8")
        with checks.rehearsal():
            checks.hint("01.8")
        assert record.entry("01.8") == Entry(outcome="not yet", attempts=1, hints=1)
    assert file.read_text() == before
    assert capsys.readouterr().out.count("01.8, hint 1 of 3: ") == 3
    with pytest.raises(ZeroDivisionError), checks.rehearsal():
        _ = 1 / 0
    assert record.recording(), "an error inside ends it too"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "\x00\x01",
        "[" * 100_000,
        '{"format": 2, "exercises": {}}',
        '{"format": 1}',
        '{"format": 1, "exercises": []}',
        '{"format": 1, "exercises": {"01.1": 3}}',
        '{"format": 1, "exercises": {"01.1": {"outcome": "won"}}}',
        '{"format": 1, "exercises": {"01.1": {"attempts": -1}}}',
        '{"format": 1, "exercises": {"01.1": {"attempts": 1.5}}}',
        '{"format": 1, "exercises": {"01.1": {"attempts": true}}}',
        '{"format": 1, "exercises": {"01.1": {"passed_on": null}}}',
    ],
)
def test_a_broken_file_is_set_aside_with_one_line(file, capsys, text):
    file.write_text(text)
    checks.check("01.8", "none")
    out = capsys.readouterr().out.splitlines()
    assert out == [
        "course_progress.json could not be read. It is now called course_progress.broken.json, and your progress "
        "starts again.",
        "01.8 passed: the output's index never changes, so its block stays in VMEM.",
    ]
    assert written(file)["01.8"]["outcome"] == "passed"
    assert (file.parent / "course_progress.broken.json").read_text() == text


def test_what_is_not_utf_8_is_broken_too(file, capsys):
    file.write_bytes(b'{"format": 1, "exercises": {"\xff": {}}}')
    assert record.entries() == {}
    assert "could not be read" in capsys.readouterr().out


def test_what_a_later_version_adds_does_no_harm(file):
    entry = {"outcome": "passed", "passed_on": "2026-01-02", "attempts": 4, "hints": 1, "assessed": "", "stars": 5}
    file.write_text(json.dumps({"format": 1, "exercises": {"77.1": entry}}))
    checks.check("01.8", "none")
    assert written(file)["77.1"]["attempts"] == 4, "exercises this version does not know are kept"


def unwritable(*args, **settings):
    raise PermissionError(13, "Permission denied")


def test_a_folder_that_cannot_be_written_costs_one_line(file, monkeypatch, capsys):
    checks.hint("01.8")
    monkeypatch.setattr("tempfile.mkstemp", unwritable)
    capsys.readouterr()
    checks.check("01.8", "races")
    checks.check("01.8", "none")
    out = capsys.readouterr().out
    line = "Your progress is kept only until this kernel ends: course_progress.json: Permission denied."
    assert out.count(line) == 1 and out.endswith("stays in VMEM.\n")
    assert record.entry("01.8") == Entry(outcome="passed", passed_on=TODAY, attempts=2, hints=1)
    assert "Kept until this kernel ends." in str(checks.progress())


def test_a_file_that_cannot_be_read_costs_one_line(file, capsys):
    file.mkdir()
    checks.check("01.8", "none")
    assert str(checks.progress())
    out = capsys.readouterr().out
    assert out.count("kept only until this kernel ends: course_progress.json: Is a directory") == 1
    assert file.is_dir() and record.entry("01.8").outcome == "passed"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(file, monkeypatch, capsys):
    checks.check("01.8", "races")
    before = file.read_text()
    monkeypatch.setattr("os.replace", unwritable)
    checks.check("01.8", "none")
    assert file.read_text() == before and os.listdir(file.parent) == ["course_progress.json"]


WRITER = """
from course_lib.checks import record
for _ in range(25):
    record.attempted("01.{number}", "not yet")
    record.attempted("01.9", "not yet")
"""


def test_notebooks_that_write_at_the_same_time_lose_nothing(file):
    env = dict(os.environ) | {"PYTHONPATH": str(ROOT)}
    env.pop("PYTEST_CURRENT_TEST")
    settings = {"cwd": file.parent, "env": env, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen([sys.executable, "-c", WRITER.format(number=n)], **settings) for n in (1, 2, 3)]
    for process in running:
        assert process.communicate(timeout=120)[1] == "" and process.returncode == 0
    assert {id: entry["attempts"] for id, entry in written(file).items()} == {
        "01.1": 25,
        "01.2": 25,
        "01.3": 25,
        "01.9": 75,
    }


# the panel


def test_the_panel_of_a_beginner(file):
    text = str(checks.progress())
    assert text.startswith(f"0 of {TASKS} exercises passed, 0 of {POINTS} points.\n\n01  Hello, kernel")
    assert text.count("not attempted") == TASKS
    assert text.endswith("\n\nKept in course_progress.json; delete the file to start again.")


def test_the_panel_of_a_learner(file):
    checks.check("01.8", "races")
    checks.check("01.8", "none")
    checks.check("01.7", 2)
    checks.hint("01.7")
    text = str(checks.progress())
    assert text.startswith(f"1 of {TASKS} exercises passed, 1 of {POINTS} points.")
    rows = {line.split()[0]: " ".join(line.split()) for line in text.splitlines() if line.startswith("  01.")}
    assert rows["01.8"] == f"01.8 Choose: who refuses it? passed {TODAY} 1/1 2 attempts"
    assert rows["01.7"] == "01.7 Find the line not yet 0/1 1 attempt 1 hint"
    assert "1 of 13 points" in text


def test_the_panel_is_no_wider_than_a_notebook(file):
    worst = Entry(outcome="passed", passed_on=TODAY, attempts=1234, hints=3, best=9_999_999)
    record._write({task: worst for task in exercises()})
    lines = str(checks.progress()).splitlines()
    assert max(map(len, lines)) <= 94
    starts = {line.index("passed 2") for line in lines if line.startswith("  01.")}
    assert len(starts) == 1, "the columns are straight"


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_the_panel_in_a_notebook_is_a_table_with_bars(file):
    checks.check("01.8", "none")
    bundle = checks.progress()._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    tags = Tags()
    tags.feed(bundle["text/html"])
    assert tags.open == [] and {tag for tag, _ in tags.seen} == {
        *("div", "style", "details", "summary", "span", "table", "tr", "td")
    }
    assert "width: 8%" in bundle["text/html"] and "✓ passed" in tags.text
    assert f"1 of {TASKS} exercises passed" in tags.text and "Kept in course_progress.json" in tags.text
    rows = [attrs for tag, attrs in tags.seen if tag == "tr"]
    assert len(rows) == TASKS


@pytest.mark.parametrize("tried, unfolded", [((), 1), (("01.8",), 1), (("01.8", "03.1"), 3), (("03.1", "02.1"), 3)])
def test_the_panel_unfolds_the_lesson_that_the_reader_is_at(file, tried, unfolded):
    for id in tried:
        record.attempted(id, "not yet")
    tags = Tags()
    tags.feed(checks.progress()._repr_mimebundle_()["text/html"])
    lessons = [attrs for tag, attrs in tags.seen if tag == "details"]
    assert [n for n, attrs in enumerate(lessons, 1) if "open" in attrs] == [unfolded]
