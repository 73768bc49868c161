"""No name of a file stops a class: every notebook has reports of its own, and who is renamed is told so."""

import csv
import json
import os
import pathlib
import subprocess
import sys

import pytest

from course_lib.grading import __main__ as command
from course_lib.grading import folder
from course_lib.grading.folder import CLASS_FILES, ENDINGS
from course_lib.grading.grade import Grade
from course_lib.grading.grade_files import write

ROOT = pathlib.Path(__file__).resolve().parent.parent
LONG = 243 * "a"
CLASSES = {
    "nothing left of it": ["..ipynb", ".ipynb", "...ipynb", "....ipynb", " .ipynb", "\x01.ipynb"],
    "a folder of a report's name": ["m/x.ipynb", "m/x.html/y.ipynb", "m/x.json/y.ipynb", "m/x (2).xml/z.ipynb"],
    "a notebook in a folder of its name": ["x.ipynb", "x.ipynb/y.ipynb", "x/y.ipynb"],
    "long, in two cases": [f"{LONG}.ipynb", f"{LONG.upper()}.ipynb", f"{LONG[:-1]}b.ipynb", f"{'é' * 120}.ipynb"],
    "deep": ["/".join([200 * "d"] * 12) + "/x.ipynb", "/".join([200 * "D"] * 12) + "/x.ipynb", f"{'e/' * 400}x.ipynb"],
    "one letter, two spellings": ["é.ipynb", "e\u0301.ipynb", "É.ipynb", "é/x.ipynb", "e\u0301/x.ipynb"],
    "folds to the same": ["ß.ipynb", "ss.ipynb", "ﬁ.ipynb", "fi.ipynb", "İ.ipynb", "i\u0307.ipynb"],
    "reserved by Windows": ["CON.ipynb", "nul.ipynb", "com1/x.ipynb", "aux.txt.ipynb", "con_.ipynb"],
    "an ending that Windows drops": ["a.ipynb", "a .ipynb", "a..ipynb", "a. ./x.ipynb", "a/x.ipynb"],
    "control characters": ["a\nb.ipynb", "a b.ipynb", "a\tb.ipynb", "a\x1b[31mb.ipynb", "\u202ea b.ipynb"],
    "of the command line": ["-rf.ipynb", "--out.ipynb", "*.ipynb", "$(id).ipynb", "~.ipynb", "a;b.ipynb", "%s.ipynb"],
    "emoji": ["😀.ipynb", "👩‍🎓.ipynb", "漢字/😀.ipynb"],
    "ours": [f"{name}/x.ipynb" for name in CLASS_FILES.values()] + ["summary.ipynb", "canvas.ipynb", "SUMMARY.ipynb"],
    "not UTF-8": [os.fsdecode(b"\xff.ipynb"), os.fsdecode(b"\xfe.ipynb"), os.fsdecode(b"\xff\xfe/x.ipynb")],
    "numbered already": ["a.ipynb", "A.ipynb", "a (2).ipynb", "A (2).ipynb", "a (3).ipynb"],
}


def put(top, names):
    for name in names:
        try:
            path = top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}")
        except OSError:  # this disk takes no such name
            continue
    return sum(1 for _ in top.rglob("*.ipynb") if _.is_file())


@pytest.mark.parametrize("names", CLASSES.values(), ids=list(CLASSES))
def test_every_notebook_has_reports_of_its_own_whatever_its_name(tmp_path, names):
    count = put(tmp_path / "in", names)
    found = folder.find(tmp_path / "in", tmp_path / "out")
    assert len(found) == len(set(found.values())) == count
    for name in found:
        assert name.isprintable() and max(len(part.encode()) for part in name.split("/")) < 200 and len(name) < 300
        assert not any(part.rstrip(". ") in ("", "..") for part in name.removesuffix(".ipynb").split("/"))
        write(Grade(file=name, error="why"), tmp_path / "out")
    for file in CLASS_FILES.values():
        (tmp_path / "out" / file).write_text("")
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert len(written) == count * len(ENDINGS) + len(CLASS_FILES)
    said = folder.renamed(found, tmp_path / "in")
    assert set(said) == {name for name, path in found.items() if str(path.relative_to(tmp_path / "in")) != name}
    assert all(text.isprintable() and name in text for name, text in said.items())


def test_what_stands_in_the_reports_folder_is_no_obstacle(tmp_path):
    put(tmp_path / "in", ["a.ipynb", "b/c.ipynb", "d.ipynb"])
    (tmp_path / "out/a.html").mkdir(parents=True)
    (tmp_path / "out/b").write_text("a file of an earlier run")
    (tmp_path / "out/d.html").write_text("a report of an earlier run")
    assert set(folder.find(tmp_path / "in", tmp_path / "out")) == {"a (2).ipynb", "b (2)/c.ipynb", "d.ipynb"}


def test_a_single_notebook_of_any_name_is_graded(tmp_path):
    put(tmp_path, ["..ipynb"])
    assert set(folder.find(tmp_path / "..ipynb")) == {"unnamed.ipynb"}


def test_a_class_with_every_such_name_is_graded_to_its_last_report(tmp_path):
    names = [name for several in CLASSES.values() for name in several]
    count = put(tmp_path / "in", names)
    for file in CLASS_FILES.values():
        (tmp_path / "out" / file).mkdir(parents=True)
    arguments = [sys.executable, "-m", "course_lib.grading", "--unboxed", tmp_path / "in", "--out", tmp_path / "out"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(arguments, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr[-2000:]
    lines = list(csv.DictReader((tmp_path / "out/summary (2).csv").read_text().splitlines()))
    assert len(lines) == count and all(line["error"] for line in lines)
    assert any("the notebook's file is '..ipynb'" in line["note"] for line in lines)
    pages = [path for path in (tmp_path / "out").rglob("*.html") if path.is_file()]
    assert len(pages) == count + 1, "one for each, and the class's own"
    assert f"{tmp_path}/out/summary.csv is a folder, so that report is called summary (2).csv." in done.stderr


def test_reports_that_cannot_be_written_are_said_in_the_row(tmp_path, monkeypatch):
    put(tmp_path, ["a.ipynb"])
    monkeypatch.setattr(command.grade_files, "write", lambda *_: (tmp_path / "a.ipynb/b").write_text(""))
    row = command._written(Grade(file="a.ipynb"), tmp_path)
    assert row.error.startswith("its reports cannot be written in ") and "Not a directory" in row.error


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
def test_a_folder_that_cannot_be_read_has_a_row(tmp_path):
    put(tmp_path, ["closed/a.ipynb", "b.ipynb"])
    (tmp_path / "closed").chmod(0)
    assert set(folder.find(tmp_path)) == {"closed.ipynb", "b.ipynb"}


def test_the_note_is_in_every_report(tmp_path):
    graded = Grade(file="a (2).ipynb", error="why").noted("its name is odd").noted("its name is odd").noted("")
    assert graded.note == "its name is odd"
    write(graded, tmp_path)
    assert json.loads((tmp_path / "a (2).json").read_text())["note"] == graded.note
    assert "Note: its name is odd." in (tmp_path / "a (2).html").read_text()
    assert command.grade_files.table(graded).endswith("\n  Note: its name is odd.")
