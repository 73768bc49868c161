"""make lesson: what it lays out is accepted as it is, in a copy of the tree, and touches nothing of other lessons."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import PINNED, needs_libtpu
from lesson_files import LESSONS, ROOT, TASKS
from sweeps import daily

sys.path.insert(0, str(ROOT / "tools"))

import new_lesson

NAME = "98_toy_kernels"
ITS_OWN = {
    *(f"{folder}/src/{NAME}.py" for folder in ("notebooks", "solutions")),
    *(f"{folder}/{NAME}.ipynb" for folder in ("notebooks", "exercises", "solutions")),
    f"solutions/mutants/{NAME}.py",
    *(
        f"course_lib/lessons/lesson_98/{name}"
        for name in ("__init__.py", "e01_double.py", "minutes.json", "solutions.json")
    ),
    *(f"docs/{folder}/98.md" for folder in ("coverage", "instructor")),
}
GENERATED = {"README.md", "notebooks/00_start_here.ipynb"}


def run(command, cwd, **more):
    """What a command prints. PYTHONPATH is the copy: without it the library would be that of this tree."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "COV_"))}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=kept | {"PYTHONPATH": str(cwd)} | more,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """The tree as it is now, committed, in a folder of its own."""
    if shutil.which("git") is None:
        pytest.skip("there is no git to compare with")
    copy = tmp_path_factory.mktemp("tree")
    for name in filter(None, run(["git", "ls-files", "-coz", "--exclude-standard"], ROOT).split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "The course as it is now"]):
        run(["git", "-c", "user.name=test", "-c", "user.email=test", "-c", "commit.gpgsign=false", *command], copy)
    return copy


@pytest.fixture(scope="module")
def laid_out(tree):
    """The tree with a new lesson in it, and what the command that laid it out has printed."""
    return tree, run([sys.executable, "tools/new_lesson.py", NAME], tree)


@needs_libtpu
def test_a_new_lesson_is_laid_out_built_and_in_style(laid_out):
    tree, said = laid_out
    assert 'make build ARGS="--only 98"' in said and f"-k '{NAME} or 98.'" in said

    changed = run(["git", "status", "--porcelain", "-uall"], tree).splitlines()
    assert {line[3:] for line in changed if line.startswith("??")} == ITS_OWN
    assert {line[3:] for line in changed if not line.startswith("??")} == GENERATED
    assert f"| 98 | [Toy kernels](notebooks/{NAME}.ipynb) | 10, exercises 5 |" in (tree / "README.md").read_text()

    cells = [path for path in ITS_OWN if path.startswith(("notebooks/src", "solutions/")) and path.endswith(".py")]
    code = [path for path in ITS_OWN if path.startswith("course_lib") and path.endswith(".py")]
    run([sys.executable, "-m", "ruff", "check", *cells, *code], tree)
    run([sys.executable, "-m", "ruff", "format", "--check", *code], tree)
    run([sys.executable, "-m", "ruff", "format", "--check", "--line-length", "92", *cells], tree)


TESTS = [f"tests/test_{name}.py" for name in "lessons lesson_runs mutants coverage notebooks exercises_decide".split()]
STATED = ("titles_are_those", "minutes_are_stated", "cell_shows", "instructor_has_a_plan", "holds_the_cells", "no_red")
RUN = ("graded_to_full_marks", "graded_to_none", "nbval_finds_what_is", "mutant_is_refused", "source_builds")


# Every day without those that execute, grade and judge: the command above has executed both notebooks already.
@needs_libtpu
@pytest.mark.parametrize("left_out, asked", daily((RUN, STATED), of=[(RUN, STATED), ((), STATED + RUN)]))
def test_a_new_lesson_passes_what_every_lesson_must(laid_out, left_out, asked):
    """The tests that name it, of all tests there are."""
    tree, _ = laid_out
    chosen = " and not ".join([f"({NAME} or 98.)", *left_out])
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *TESTS, "-k", chosen]
    passed = run(command, tree, SLICE=str(len(LESSONS)))  # the share of a sweep that has the lesson after ours
    skipped = set(re.findall(r"::(\w+)\S* SKIPPED", passed))
    assert skipped <= (set() if PINNED else {"test_what_is_generated_is_what_its_source_builds"})
    for name in asked:
        assert name in passed, f"no such test: {name}"


@pytest.mark.parametrize("name", ["5_x", "05 x", "05_Pipelining", "05", "", "05_x/y", "05_x_", "../05_x", "٠٥_x"])
def test_a_name_that_is_none_is_refused_with_one_sentence(name):
    assert new_lesson.refusal(name) == (
        f"{name!r} is no name of a lesson: two digits and a topic in small letters and _, as in 05_pipelining."
    )


@pytest.mark.parametrize("number", ["00", TASKS[0].id[:2]])
def test_a_number_that_is_taken_is_refused(number):
    assert new_lesson.refusal(f"{number}_again").startswith(f"number {number} is taken, by notebooks/src/{number}_")


def test_what_is_still_to_come_stays_on_the_page(tmp_path, monkeypatch):
    (tmp_path / "docs/coverage").mkdir(parents=True)
    rows = "## Still to come\n\n| it says | in |\n|---|---|\n| Something | B |\n"
    (tmp_path / "docs/coverage/97.md").write_text(f"# Lesson 97, not written yet\n\n{rows}")
    monkeypatch.setattr(new_lesson, "ROOT", tmp_path)
    page = new_lesson.files("97_later")["docs/coverage/97.md"]
    assert page.startswith("# Lesson 97, Later: ") and page.endswith(f"| `14.` |\n\n{rows}")
