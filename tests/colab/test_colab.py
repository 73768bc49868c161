"""The Colab lane: a notebook alone in an empty folder, in an environment with Colab's own versions.

Not Colab itself: docs/colab.md says what this can show and what it cannot.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import nbformat
import pytest
from lesson_files import LESSONS, ROOT
from sweeps import share

sys.path.insert(0, str(ROOT / "tools"))

from building import lessons, source

PINS = Path(__file__).with_name("colab_pins.txt")
NOTEBOOKS = [f"{folder}/{stem}.ipynb" for stem in LESSONS for folder in ("exercises", "notebooks")]

COULD_NOT = "The course could not be installed. Is there a network? Run this cell again."
LIMIT_S = 1800  # never waited out
NO_NETWORK = re.compile("NewConnectionError|NameResolutionError|ConnectTimeout|ReadTimeout|ProxyError|ConnectionReset")

# Runs in the environment under test, with Colab's nbclient. Errors are kept, so that the test can show all of them.
RUN = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], 4)
nbclient.NotebookClient(notebook, timeout=600, allow_errors=True).execute()
nbformat.write(notebook, sys.argv[1])
"""


def like_colab(folder, **more):
    """Colab's environment variables: nothing of ours, nothing of this test run, all settings in ``folder``.

    But what the compiler has answered before is true there as well: it is the same libtpu, and the key says so. And pip
    compiles no module: most of them, of a hundred packages, are never imported.
    """
    not_ours = ("COURSE", "COV_", "IPYTHON", "JAX", "JUPYTER", "KERAS", "PYTEST", "PYTHON", "VIRTUAL_ENV", "XLA")
    env = {name: value for name, value in os.environ.items() if not name.startswith(not_ours)}
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "KERAS_HOME"):
        env[name] = str(folder / name.lower())
    env |= {name: os.environ[name] for name in ("COURSE_CACHE",) if name in os.environ}
    env |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_COMPILE": "0"}
    return env | {"COLAB_RELEASE_TAG": "release-colab_20260819"} | more


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL, **options)


@pytest.fixture(scope="module")
def course_url(tmp_path_factory):
    """A git address of the tree as it is now, with what is not committed yet."""
    listed = run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT) if shutil.which("git") else None
    if listed is None or listed.returncode:
        pytest.skip("git does not know this tree, and Colab gets the course from git")
    repo = tmp_path_factory.mktemp("repo")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():  # deleted and not yet committed: gone
            (repo / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, repo / name)
    git = ["git", "-c", "user.name=test", "-c", "user.email=test", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "The course as it is now"]):
        done = run([*git, *command], cwd=repo)
        assert done.returncode == 0, done.stderr
    return f"git+file://{repo}"


@pytest.fixture(scope="module")
def colab(tmp_path_factory):
    """The python of a fresh environment with Colab's versions, as a Colab runtime just started."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("Colab is Linux on x86-64")
    folder = tmp_path_factory.mktemp("colab")
    installed = run([python_3_13(), "-m", "venv", folder / "venv"])
    assert installed.returncode == 0, installed.stderr
    python = folder / "venv" / "bin" / "python"
    installed = run(
        [python, "-m", "pip", "install", "-q", "--only-binary=:all:", "-r", PINS],
        env=like_colab(folder),
    )
    if NO_NETWORK.search(installed.stderr):
        pytest.skip("the package index cannot be reached")
    assert installed.returncode == 0, installed.stderr
    assert versions(python).items() >= pinned().items()
    yield python
    shutil.rmtree(folder)  # 2 GB


def python_3_13():
    """Colab's Python. Skips the test where there is none."""
    found = run(["sh", ROOT / "tools" / "find_python.sh"]).stdout.strip()  # takes a 3.13 before all others
    for python in (sys._base_executable, found):
        if python and run([python, "-c", "import sys; print(sys.version_info[:2])"]).stdout == "(3, 13)\n":
            return python
    pytest.skip("Colab runs Python 3.13, and there is none here")


def versions(python):
    listed = run([python, "-I", "-m", "pip", "list", "--format=json", "--disable-pip-version-check"])
    return {plain(p["name"]): p["version"] for p in json.loads(listed.stdout)}


def pinned():
    lines = [line for line in PINS.read_text().splitlines() if line and not line.startswith("#")]
    return {plain(name): version for name, version in (line.split("==") for line in lines)}


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def text_of(cell):
    return "".join(o.get("text", "") for o in cell.outputs if o.output_type == "stream")


@pytest.mark.sweep  # what pip does changes with the pins alone; every day the next test
def test_an_exercise_alone_runs_in_colab(colab, course_url, tmp_path, record_property, capsys):
    """It installs the course, as the first notebook of a runtime does, and brings what any other notebook imports."""
    before = versions(colab)
    cells, wrong = run_in_colab(NOTEBOOKS[0], colab, tmp_path / "first", COURSE_SOURCE=course_url)
    assert not wrong
    first = next(cell for cell in cells if cell.id == "first-cell")
    seconds = first_cell_seconds(first)
    assert "Installing the course" in text_of(first) and "Restart" not in text_of(first)
    assert missing(colab, packages_of_the_notebooks()) == []

    # What the first cell may do to a Colab runtime, and nothing else:
    after = versions(colab)
    assert {name for name in before if after.get(name) != before[name]} <= {"jax", "jaxlib"}
    assert after.keys() - before.keys() <= {"course-lib", "jaxtyping", "libtpu", "wadler-lindig"}
    assert {name: after[name] for name in pins_of_the_course()} == pins_of_the_course()
    assert "course-lib" in after
    assert "jupyterlab" not in after
    assert files_of_the_course(installed_at(colab)) == files_of_the_course(Path(course_url.removeprefix("git+file://")))

    record_property("first_cell_seconds", seconds)
    with capsys.disabled():
        print(f"\n{NOTEBOOKS[0]}: the first cell took {seconds:.0f} s.")


def test_colab_or_the_course_has_what_the_notebooks_import():
    ours = {"course_lib", *pins_of_the_course(), "jaxtyping"}
    assert {name.lower() for name in packages_of_the_notebooks()} <= pinned().keys() | ours


MAY_BE_MISSING = {"torch"}  # without it lesson 17 shows a recorded run, and 17.8 judges the JAX function alone


def packages_of_the_notebooks():
    """Return the names of all packages that a cell imports and needs."""
    cells = [cell for path in NOTEBOOKS for cell in nbformat.read(ROOT / path, 4).cells if cell.cell_type == "code"]
    names = re.findall(r"^ *(?:import|from) (\w+)", "\n".join(cell.source for cell in cells), re.M)
    return sorted(set(names) - sys.stdlib_module_names - MAY_BE_MISSING)


def missing(python, packages):
    """Return those of ``packages`` that an environment cannot import."""
    code = "import importlib.util, json, sys; find = importlib.util.find_spec\n"
    code += "print(json.dumps([name for name in sys.argv[1:] if find(name) is None]))"
    return json.loads(run([python, "-I", "-c", code, *packages]).stdout)


@pytest.mark.sweep  # a share in one test: each worker would make an environment of its own
def test_the_others_run_there_too(colab, course_url, tmp_path):
    for path in share(NOTEBOOKS[1:]):
        _, said = run_in_colab(path, colab, tmp_path / path.replace("/", "-"), COURSE_SOURCE=course_url)
        assert not said, path


def run_in_colab(path, colab, folder, **env):
    """(the code cells of a notebook that has run alone in ``folder``, what went wrong in it; "" if nothing did)."""
    folder.mkdir()
    notebook = folder / "notebook.ipynb"
    shutil.copy(ROOT / path, notebook)
    out = run([colab, "-c", RUN, notebook.name], cwd=folder, env=like_colab(folder, **env))
    if out.returncode:
        return [], out.stderr[-3000:]
    cells = [cell for cell in nbformat.read(notebook, 4).cells if cell.cell_type == "code"]
    errors = [(cell.id, o.ename, o.evalue) for cell in cells for o in cell.outputs if o.output_type == "error"]
    first = text_of(next(cell for cell in cells if cell.id == "first-cell"))
    where = f"jax {pins_of_the_course()['jax']} in Colab, "
    if errors or not first.splitlines()[-1].startswith(where):
        return cells, f"{errors} {first}"
    return cells, ""


def installed_at(python):
    """The folder that holds course_lib in an environment."""
    where = "import importlib.util; print(importlib.util.find_spec('course_lib').origin)"
    return Path(run([python, "-I", "-c", where]).stdout.strip()).parents[1]


def files_of_the_course(folder):
    files = {p.relative_to(folder).as_posix() for p in (folder / "course_lib").rglob("*") if p.is_file()}
    return {name for name in files if "__pycache__" not in name}


def pins_of_the_course():
    """jax, jaxlib and libtpu of requirements.txt."""
    text = (ROOT / "requirements.txt").read_text()
    return dict(re.findall(r"^(jax|jaxlib|libtpu)==([^\s;]+)", text, re.M))


def first_cell_seconds(cell):
    times = cell.metadata.execution
    start, end = (datetime.fromisoformat(times[name]) for name in ("iopub.execute_input", "shell.execute_reply"))
    return (end - start).total_seconds()


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The python of an environment with pip and nothing else."""
    folder = tmp_path_factory.mktemp("bare")
    made = run([sys._base_executable, "-m", "venv", folder / "venv"])
    assert made.returncode == 0, made.stderr
    yield folder / "venv" / "bin" / "python"
    shutil.rmtree(folder)


# A session in which someone imported Colab's JAX before the first cell, and a pip that succeeds.
JAX_LOADED = """
import subprocess, sys, types
sys.modules["jax"] = types.SimpleNamespace(__version__="0.7.2")
subprocess.run = lambda command: types.SimpleNamespace(returncode=0)
"""


def run_first_cell(python, folder, before="", **env):
    """The first cell alone, in an empty folder, with no package index; the course's public address is not known."""
    code = before + source.first_cell({"repo": "", "tag": ""})
    return run([python, "-c", code], cwd=folder, env=like_colab(folder, PIP_NO_INDEX="1", PIP_FIND_LINKS="", **env))


def test_no_clone_and_no_address_says_what_to_do(bare, tmp_path):
    out = run_first_cell(bare, tmp_path)
    assert out.returncode == 1
    assert out.stdout == ""
    assert out.stderr.startswith("course_lib is not here. Open this notebook inside a clone of the course")
    assert out.stderr.count("\n") == 1


def test_a_wrong_address_ends_with_one_line(bare, tmp_path):
    out = run_first_cell(bare, tmp_path, COURSE_SOURCE=f"git+file://{tmp_path}/nowhere")
    assert out.returncode == 1
    assert "Installing the course" in out.stdout
    assert out.stderr.splitlines()[-1] == COULD_NOT


def test_no_package_index_ends_with_the_same_line(bare, tmp_path, course_url):
    out = run_first_cell(bare, tmp_path, COURSE_SOURCE=course_url)
    assert out.returncode == 1
    assert out.stderr.splitlines()[-1] == COULD_NOT


def test_a_jax_loaded_before_asks_for_a_restart(bare, tmp_path):
    out = run_first_cell(bare, tmp_path, before=JAX_LOADED, COURSE_SOURCE="git+https://example.org/never-asked")
    assert out.returncode == 1
    assert out.stderr == (
        "Another JAX was loaded before this cell. Choose Runtime, Restart session, and run me again.\n"
    )


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_the_public_address_is_baked_in(path):
    public = {"repo": "owner/name", "tag": "v1"}
    code = source.first_cell(public)
    assert 'SOURCE = os.environ.get("COURSE_SOURCE", "git+https://github.com/owner/name@v1")' in code
    assert all(f"{name}=={version}" in code for name, version in pins_of_the_course().items())

    folder, name = path.split("/")
    of = ROOT / {"exercises": "solutions"}.get(folder, folder) / "src" / name.replace(".ipynb", ".py")
    assert of.is_file()
    link = f"https://colab.research.google.com/github/owner/name/blob/v1/{path}"
    assert lessons.badge(public, of).endswith(f"]({link})")
