"""The generator of a new lesson: make lesson NAME=07_tiled_matmul.

It fills in every file of tools/lesson_template, puts it in its place, and builds what is derived from the lessons.
"""

import pathlib
import re
import string
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEMPLATE = ROOT / "tools/lesson_template"
PLACES = {
    "lesson.py": "notebooks/src/$name.py",
    "exercises.py": "solutions/src/$name.py",
    "mutants.py": "solutions/mutants/$name.py",
    "package.py": "course_lib/lessons/lesson_$number/__init__.py",
    "declaration.py": "course_lib/lessons/lesson_$number/e01_double.py",
    "coverage.md": "docs/coverage/$number.md",
    "instructor.md": "docs/instructor/$number.md",
}
NEXT = string.Template("""\
Lesson $n is there: a draft with one exercise, which passes its tests. Next:
  docs/writing_a_lesson.md                  how to write it
  docs/coverage/$number.md                       what its sources say, and the cell that shows it
  make build ARGS="--only $number"               after each change of its sources
  make test-all PYTEST_ARGS="-k '$name or $number.'"
When all that the sources say is shown, take out the line that calls the lesson a draft.""")
TO_COME = "## Still to come\n"  # from this heading on, an existing docs/coverage/NN.md is kept


def main(name: str) -> None:
    if problem := refusal(name):
        sys.exit(f"make lesson: {problem}")
    for path, text in files(name).items():
        (ROOT / path).parent.mkdir(exist_ok=True)
        (ROOT / path).write_text(text)
        print(path)
    built = f"/{name},notebooks/00_,README.md"
    done = subprocess.run([sys.executable, str(ROOT / "tools/build_notebooks.py"), "--only", built])
    if done.returncode:
        sys.exit(done.returncode)
    print(NEXT.substitute(words_of(name)))


def words_of(name: str) -> dict[str, str | int]:
    """Return the values that the templates insert for a lesson called ``name``."""
    topic = name[3:].replace("_", " ")
    return {"name": name, "number": name[:2], "n": int(name[:2]), "title": topic[0].upper() + topic[1:]}


def refusal(name: str) -> str:
    """Return why no lesson can be called ``name``; "" if one can."""
    if not re.fullmatch(r"[0-9]{2}(_[a-z0-9]+)+", name):
        return f"{name!r} is no name of a lesson: two digits and a topic in small letters and _, as in 05_pipelining."
    there = [path for kind in ("notebooks", "solutions") for path in sorted(ROOT.glob(f"{kind}/src/{name[:2]}_*.py"))]
    return f"number {name[:2]} is taken, by {there[0].relative_to(ROOT).as_posix()}." if there else ""


def files(name: str) -> dict[str, str]:
    """Return {path from the repository's root: text} for a new lesson called ``name``."""
    words = words_of(name)
    made = {
        string.Template(place).substitute(words): string.Template((TEMPLATE / part).read_text()).substitute(words)
        for part, place in PLACES.items()
    }
    page = ROOT / f"docs/coverage/{name[:2]}.md"
    if page.exists() and TO_COME in (text := page.read_text()):
        made[f"docs/coverage/{name[:2]}.md"] += f"\n{text[text.index(TO_COME) :]}"
    return made


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
