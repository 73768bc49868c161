"""Gradescope: a grade as results.json, and the autograder zip of a lesson.

python -m course_lib.grading.gradescope LESSON [FOLDER]        make gradescope LESSON=07
python -m course_lib.grading.gradescope --results GRADE.json RESULTS.json
"""

from __future__ import annotations

import json
import pathlib
import sys
import zipfile

from course_lib.grading.graft import course_notebooks

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
[ $? -le 1 ] || exit 1
grade=$(find "$out" -name '*.json' | head -n 1)
.venv/bin/python -m course_lib.grading.gradescope --results "$grade" /autograder/results/results.json
"""


def results(grade: dict) -> dict:
    """Return the results.json for a grade, which is the JSON that ``make grade`` writes."""
    if grade["error"]:
        return {"score": 0.0, "output": f"Not graded: {grade['error']}", "visibility": "visible", "tests": []}
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
    return {"score": float(grade["points"]), "output": grade["lesson"], "visibility": "visible", "tests": tests}


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
            other = file.suffix == ".ipynb" and file.stem != lesson
            if file.is_file() and "__pycache__" not in file.parts and not other:
                yield file


def main() -> int:
    """Return the exit status: 0, or 2 with a printed line if something cannot be made."""
    words = sys.argv[1:]
    try:
        if words[:1] == ["--results"]:
            grade = json.loads(pathlib.Path(words[1]).read_text())
            pathlib.Path(words[2]).write_text(json.dumps(results(grade), indent=1) + "\n")
        else:
            print(autograder(words[0].zfill(2), pathlib.Path(words[1] if len(words) > 1 else "gradescope")))
    except (IndexError, OSError, ValueError) as error:
        print(f"make gradescope: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
