"""Gradescope: a grade as results.json, and the autograder zip of a lesson.

python -m course_lib.grading.gradescope LESSON [FOLDER]        make gradescope LESSON=07
python -m course_lib.grading.gradescope --results FOLDER RESULTS.json
"""

from __future__ import annotations

import json
import pathlib
import sys
import zipfile

from course_lib.grading.graft import course_notebooks
from course_lib.grading.summary import points_of

CLONE = pathlib.Path(__file__).resolve().parents[2]
# The parts of the clone that grading needs: no solutions, and no tests.
_NEEDED = ("course_lib", "exercises", "tools", "Makefile", "requirements.txt", "pyproject.toml", "README.md")

_SETUP = """\
#!/bin/bash
# Once, when Gradescope builds the image.
set -e
apt-get update
apt-get install -y --no-install-recommends bubblewrap make python3.13 python3.13-venv || \\
    apt-get install -y --no-install-recommends bubblewrap make python3 python3-venv
make -C /autograder/source setup
"""

_RUN = """\
#!/bin/bash
# For each submission. Without a closed box it writes no results, and Gradescope says that the autograder failed: a
# student's code that runs beside the file of its results could write it.
cd /autograder/source
out=$(mktemp -d)
.venv/bin/python -m course_lib.grading --boxed /autograder/submission --out "$out" --jobs 1
status=$?
# 1 says that not all passed, and it is Python's status after a traceback, too: then the last report is missing.
[ $status -le 1 ] && [ -s "$out/summary.html" ] || exit 1
.venv/bin/python -m course_lib.grading.gradescope --results "$out" /autograder/results/results.json
"""


def results(grade: dict) -> dict:
    """Return the results.json for a grade, which is the JSON that ``make grade`` writes."""
    note = f"\n{grade['note']}" if grade.get("note") else ""
    if grade["error"]:
        return {"score": 0.0, "output": f"Not graded: {grade['error']}{note}", "visibility": "visible", "tests": []}
    tests = [
        {
            "name": f"{row['id']} {row['title']}",
            "number": row["id"],
            "score": float(row["points"]),
            "max_score": float(row["max_points"]),
            "status": "passed" if row["outcome"] == "passed" else "failed",
            "output": "\n".join(filter(None, (row["message"], row["next"] and f"Next: {row['next']}"))),
            "output_format": "text",
            "visibility": "visible",
        }
        for row in grade["exercises"]
    ]
    output = f"{grade['file']}, graded as {grade['lesson']}.{note}"
    return {"score": float(grade["points"]), "output": output, "visibility": "visible", "tests": tests}


def chosen(folder: pathlib.Path) -> dict:
    """Return the grade that counts among those in a folder: it has the most points. Its note names the others.

    Raises ValueError if there is none.
    """
    grades = [json.loads(path.read_text()) for path in sorted(folder.rglob("*.json"))]
    if not grades:
        raise ValueError(f"there is no grade in {folder}.")
    first, *others = sorted(grades, key=lambda grade: (bool(grade["error"]), -grade["points"]))
    if not others:
        return first
    names = ", ".join(f"{grade['file']} ({_points(grade)})" for grade in others)
    said = f"{len(grades)} notebooks were submitted. {first['file']} ({_points(first)}) counts; not counted: {names}."
    return first | {"note": said}


def _points(grade: dict) -> str:
    return "not graded" if grade["error"] else points_of(grade["points"])


def autograder(lesson: str, folder: pathlib.Path) -> pathlib.Path:
    """Write the zip of a lesson ("07") into a folder and return its path. Raise ValueError for an unknown lesson."""
    known = {course.name.partition("_")[0]: course.name for course in course_notebooks()}
    if lesson not in known:
        raise ValueError(f"there is no lesson {lesson!r}; there are {', '.join(known)}.")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"autograder_{lesson}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, script in (("setup.sh", _SETUP), ("run_autograder", _RUN)):
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o755 << 16
            archive.writestr(entry, script)
        for file in _files(known[lesson]):
            archive.write(file, file.relative_to(CLONE))
    return path


def _files(lesson: str):
    for name in _NEEDED:
        top = CLONE / name
        files = sorted(top.rglob("*")) if top.is_dir() else [top]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts and not _of_another_lesson(file, lesson):
                yield file


def _of_another_lesson(file: pathlib.Path, lesson: str) -> bool:
    """Whether a file has the exercises or the solutions of another lesson."""
    if file.name.endswith("solutions.json"):
        return file.parent.name != f"lesson_{lesson.partition('_')[0]}"
    return file.suffix == ".ipynb" and file.stem != lesson


def main() -> int:
    """Return the exit status: 0, or 2 with a printed line if something cannot be made."""
    words = sys.argv[1:]
    try:
        if words[:1] == ["--results"]:
            made = json.dumps(results(chosen(pathlib.Path(words[1]))), indent=1) + "\n"
            pathlib.Path(words[2]).write_text(made)
        else:
            print(autograder(words[0].zfill(2), pathlib.Path(words[1] if len(words) > 1 else "gradescope")))
    except (IndexError, OSError, ValueError) as error:
        print(f"make gradescope: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
