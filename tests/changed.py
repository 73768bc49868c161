"""Print the test files that a change may affect, nearest first: `make test-changed` runs them.

    python tests/changed.py BASE

The change is what differs from the commit where this branch left BASE, and what is not committed. A test file is
affected if it imports a changed file, directly or through others, or if it or what it imports names one that is not
imported: a page, a style sheet, a notebook. Files of a lesson affect the tests that go through all lessons. A test that
starts a process may run anything of the library, so it comes after those that import what has changed.
"""

import ast
import collections
import functools
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
EVERYTHING = re.compile(r"requirements[\w-]*\.txt|pyproject\.toml|tests/conftest\.py")
OF_A_LESSON = re.compile(r"(notebooks|exercises|solutions)/|course_lib/lessons/lesson_")
STARTS_PROCESSES = re.compile(r"\bsubprocess\b|\bbuild_notebooks\b|\bNotebookClient\b|\bmultiprocessing\b")
FAR = 100


def main(base: str) -> None:
    files = changed(base)
    if any(EVERYTHING.fullmatch(file) for file in files):
        print("tests")
    else:
        print("\n".join(affected(files)))


def changed(base: str) -> list[str]:
    """Return the paths that differ from where this branch left ``base``, deleted and untracked files among them."""
    try:
        left = git("merge-base", "HEAD", base).strip()
    except subprocess.CalledProcessError:
        sys.exit(f"{base!r} is no commit of this repository: make test-changed BASE=…")
    return (git("diff", "--name-only", left) + git("ls-files", "-o", "--exclude-standard")).splitlines()


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def affected(files: list[str]) -> list[str]:
    """Return the test files that ``files`` may affect: those named like one of them, then by the imports in between."""
    distances = {file: 0 for file in files}
    for file in files:
        for user in named_in(file):
            distances.setdefault(user, 1)
    todo = collections.deque(sorted(distances, key=distances.get))
    while todo:
        file = todo.popleft()
        for user in users().get(file, set()) - distances.keys():
            distances[user] = distances[file] + 1
            todo.append(user)
    if any(file.startswith("course_lib/") for file in files):
        for test in filter(is_test, sources()):
            if STARTS_PROCESSES.search(text(test)):
                distances.setdefault(test, FAR)
    tests = (file for file in distances if is_test(file) and (ROOT / file).exists())
    words = {word for file in files for word in re.findall(r"[a-z0-9]+", file)} - {"tests", "test", "py"}
    return sorted(tests, key=lambda test: (not words & set(re.findall(r"[a-z0-9]+", test)), distances[test], test))


def is_test(file: str) -> bool:
    return file.startswith("tests/") and pathlib.PurePosixPath(file).match("test_*.py")


@functools.cache
def sources() -> list[str]:
    """Return every Python file that tests import or are."""
    return git(
        "ls-files", "-co", "--exclude-standard", "course_lib/*.py", "tests/*.py", "tools/*.py", "benchmarks/*.py"
    ).splitlines()


@functools.cache
def text(file: str) -> str:
    return (ROOT / file).read_text() if (ROOT / file).exists() else ""


@functools.cache
def users() -> dict[str, set[str]]:
    """Return {file: the files that import it}."""
    found = collections.defaultdict(set)
    for importer in sources():
        for imported in imports(importer):
            found[imported].add(importer)
    return found


def imports(file: str) -> set[str]:
    """Return the files that ``file`` imports anywhere in it, and the packages that they are in."""
    found = set()
    for node in ast.walk(ast.parse(text(file))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            parts = name.split(".")
            for length in range(1, len(parts) + 1):
                found |= files_of("/".join(parts[:length]), os.path.dirname(file))
    return found - {file}


@functools.cache
def files_of(module: str, beside: str) -> set[str]:
    """Return the file of a module, looked for where the tests' sys.path has it."""
    for folder in ("", f"{beside}/", "tests/", "tools/", "benchmarks/"):
        for path in (f"{folder}{module}.py", f"{folder}{module}/__init__.py"):
            if path in set_of_sources():
                return {path}
    return set()


@functools.cache
def set_of_sources() -> frozenset[str]:
    return frozenset(sources())


def named_in(file: str) -> set[str]:
    """Return the Python files that name a file which nothing imports, or go through the folder that it lies in."""
    path = pathlib.PurePosixPath(file)
    if OF_A_LESSON.match(file):
        return {"tests/lesson_files.py", "tests/test_notebooks.py"}
    if path.suffix == ".py" and not file.startswith("tests/"):
        return set()
    names = [re.escape(name) for name in (path.name, path.parent.name if path.suffix == ".py" else path.name)]
    pattern = re.compile(rf"\b({'|'.join(names)})\b")
    twin = {path.with_suffix(".py").as_posix()} & set_of_sources()  # a widget reads its script without naming it
    return twin | {source for source in sources() if source != file and pattern.search(text(source))}


if __name__ == "__main__":
    main(sys.argv[1])
