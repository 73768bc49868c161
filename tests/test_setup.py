"""What a person meets before the first lesson: make, the search for a Python, the environment.

Everything runs on fake executables in a copy of the few files involved: nothing is installed.
"""

import ast
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from jupyter_server.base.websocket import WebSocketMixin

ROOT = Path(__file__).parent.parent
TARGETS = (
    "help setup setup-gpu lab test test-all test-changed smoke check build book pack offline lesson grade leaderboard "
    "gradescope bench bench-judges bench-model op-costs public-kernels zoo colab clean"
).split()

# Stands for a real Python. It answers find_python's probe, makes a virtual environment of one file,
# and "installs" as the test wishes: FAKE_PIP is the shell code that pip runs.
PYTHON = f"""#!/bin/sh
case "$1 $2" in
    "-m venv") mkdir -p "$3/bin" "$3/lib/python3.13/site-packages/pip-1.dist-info"
               cp "$0" "$3/bin/python"; echo "home = /usr/bin" >"$3/pyvenv.cfg" ;;
    "-m pip") echo called >>"$CALLS"; eval "$FAKE_PIP" ;;
    "-c import jax, jupyterlab") ;;
    "-c "*"_base_executable"*) echo "ok 3.13 $0" ;;
    "-V ") echo Python 3.13.0 ;;
    *) exec {sys.executable} "$@" ;;
esac
"""
INSTALLS = """echo "Installing collected packages: jax"
mkdir -p .venv/lib/python3.13/site-packages/jax-1.dist-info"""


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def python_that_says(path, answer):
    """A fake Python that answers the probe with one line; without one it fails, as shims do."""
    return program(path, f"#!/bin/sh\necho '{answer}'\n" if answer else "#!/bin/sh\nexit 127\n")


@pytest.fixture
def place(tmp_path):
    """A copy of the course's setup in a folder with a blank in its name, and a bin/ for fakes."""
    place = tmp_path / "a course"
    shutil.copytree(ROOT / "tools", place / "tools", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for file in [*ROOT.glob("requirements*.txt"), ROOT / "Makefile"]:
        shutil.copy(file, place)
    program(place / "bin" / "df", "#!/bin/sh\necho disk 9 9 ${FREE_KB:-9000000} 1% /\n")
    # The places outside PATH and HOME move in here too: this machine may well have a Python there.
    script = place / "tools" / "find_python.sh"
    script.write_text(script.read_text().replace(" /opt/", " opt/").replace(" /usr/", " usr/"))
    return place


@pytest.fixture
def run(place):
    def run(*command, **env):
        quiet = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
        return subprocess.run(command, cwd=place, env=run.env | env, timeout=30, **quiet)

    path = f"{place}/bin:/usr/bin:/bin"
    run.env = {
        "PATH": path,
        "HOME": str(place),
        "CALLS": str(place / "calls"),
        "FAKE_PIP": INSTALLS,
    }
    return run


def until(there):
    end = time.monotonic() + 10
    while not there():
        assert time.monotonic() < end, "waited 10 s in vain"
        time.sleep(0.02)


def find_python(run, place, **env):
    """Looks in bin/ and in HOME alone: only what a shell script needs is on PATH."""
    return run("/bin/sh", "tools/find_python.sh", PATH=f"{place}/bin", **env)


def one_line(result):
    """What failed said so in one line, and nothing of Python's own."""
    assert result.returncode != 0
    lines = [line for line in result.stderr.splitlines() if not line.startswith("make: ***")]
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.stdout + result.stderr
    return lines[0]


# --- finding a Python


def test_a_shim_that_fails_and_an_old_python_are_passed_over(run, place):
    python_that_says(place / "bin/python3.13", None)
    python_that_says(place / "bin/python3.12", None)
    python_that_says(place / "bin/python3", "no 3.11.7")
    right = python_that_says(place / ".pyenv/versions/3.12.1/bin/python", "ok 3.12 /right")
    assert find_python(run, place).stdout == "/right\n"
    right.unlink()
    python_that_says(place / "miniforge3/envs/study/bin/python3.12", "ok 3.12 /conda")
    assert find_python(run, place).stdout == "/conda\n"


def test_a_shim_does_not_hide_the_python_behind_it(run, place):
    python_that_says(place / "bin/python3.13", None)
    python_that_says(place / "more/python3.13", "ok 3.13 /behind")
    result = run("/bin/sh", "tools/find_python.sh", PATH=f"{place}/bin:{place}/more")
    assert result.stdout == "/behind\n"


def test_314_is_taken_only_where_nothing_else_is(run, place):
    python_that_says(place / "bin/python3.14", "ok 3.14 /new")
    assert find_python(run, place).stdout == "/new\n"
    python_that_says(place / ".local/share/uv/python/cpython-3.13/bin/python3.13", "ok 3.13 /uv")
    assert find_python(run, place).stdout == "/uv\n"


def test_the_real_probe_takes_this_python(run, place):
    result = find_python(run, place, PYTHON=sys.executable)
    assert (result.returncode, result.stderr) == (0, "")
    assert os.path.samefile(result.stdout.strip(), sys._base_executable)


def test_no_python_says_how_to_get_one(run, place):
    python_that_says(place / "bin/python3", "no 3.11.7")
    line = one_line(find_python(run, place))
    assert "bin/python3 is 3.11.7" in line
    assert "uv python install 3.13" in line
    program(place / "bin/pyenv", "#!/bin/sh\n")
    assert "pyenv install 3.13" in one_line(find_python(run, place))


def test_debian_without_venv_is_told_what_to_install(run, place):
    python_that_says(place / "bin/python3", "no 3.12.3 without its venv module")
    assert "sudo apt install python3-venv" in one_line(find_python(run, place))


@pytest.mark.parametrize(
    "answer, said",
    [("no 3.11.7", "bin/mine is 3.11.7:"), (None, "bin/mine does not run as a Python:")],
)
def test_a_python_that_was_asked_for_and_does_not_fit(run, place, answer, said):
    mine = python_that_says(place / "bin/mine", answer)
    python_that_says(place / "bin/python3.13", "ok 3.13 /never")  # asked for is asked for
    assert said in one_line(find_python(run, place, PYTHON=str(mine)))


def test_a_python_that_was_asked_for_and_is_not_there(run, place):
    assert "PYTHON=nowhere is not there" in one_line(find_python(run, place, PYTHON="nowhere"))


# --- setting up


@pytest.fixture
def setup(run, place):
    program(place / "bin/python3.13", PYTHON)
    return lambda **env: run("make", "setup", **env)


def pip_calls(place):
    calls = place / "calls"
    return len(calls.read_text().split()) if calls.exists() else 0


def test_setup_then_nothing_left_to_do(setup, place):
    first = setup()
    assert first.returncode == 0, first.stderr
    assert ".venv is ready" in first.stdout
    again = setup()
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert pip_calls(place) == 1
    path, _ = (place / ".venv/lib/python3.13/site-packages/course.pth").read_text().splitlines()
    assert os.path.samefile(place / ".venv/lib/python3.13/site-packages" / path, place)


@pytest.mark.parametrize("backend, found", [(None, "jax"), ("torch", "torch"), ("", "")])
def test_keras_is_told_to_run_on_jax_unless_the_user_says_otherwise(setup, place, backend, found):
    """In Python itself and in a process that it starts; an empty KERAS_BACKEND is the user's, too."""
    setup()
    code = "import os; print(os.environ['KERAS_BACKEND'])"
    child = f"import subprocess, sys; {code}; subprocess.run([sys.executable, '-c', {code!r}])"
    start = f"import site; site.addsitedir({str(place / '.venv/lib/python3.13/site-packages')!r}); "  # as Python starts
    env = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
    env |= {} if backend is None else {"KERAS_BACKEND": backend}
    out = subprocess.run([sys.executable, "-S", "-u", "-c", start + child], env=env, capture_output=True, text=True)
    assert out.stdout.splitlines() == [found, found], out.stderr


@pytest.mark.skipif(Path(sys.prefix).parent != ROOT, reason="not the environment that make has created")
def test_import_keras_works_in_this_environment(tmp_path):
    """As it is made, and with nothing set: a KERAS_HOME without a configuration, as on a new machine."""
    env = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"} | {"KERAS_HOME": str(tmp_path)}
    command = [sys.executable, "-c", "import keras; print(keras.backend.backend())"]
    out = subprocess.run(command, env=env, capture_output=True, text=True)
    assert out.stdout == "jax\n", out.stderr


def test_a_notebook_is_read_without_a_grammar():
    """From 4.25 on jsonschema compiles one when it is imported: 2 s in every process that reads notebooks."""
    command = [sys.executable, "-c", "import nbformat, sys; print('lark' in sys.modules)"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"


def test_what_setup_itself_writes_is_brought_up_to_date(setup, place):
    setup()
    with open(place / "tools/setup.sh", "a") as file:
        file.write("# changed\n")
    assert "Installing into .venv." in setup().stdout
    assert setup().stdout == ""


def test_a_changed_pin_is_installed(setup, place):
    setup()
    with open(place / "requirements.txt", "a") as file:
        file.write("extra==1.0\n")
    assert "Installing into .venv." in setup().stdout
    assert "extra==1.0" in (place / ".venv/wanted.txt").read_text()
    assert pip_calls(place) == 2


def test_the_second_lane_replaces_only_its_pins(run, setup, place):
    result = run("make", "setup", JAX="0.12")
    assert result.returncode == 0, result.stderr
    wanted = (place / ".venv-jax012/wanted.txt").read_text().splitlines()
    pins = (place / "requirements.txt").read_text().splitlines()
    ours = [line for line in (place / "requirements-jax012.txt").read_text().splitlines() if line[0] != "#"]
    assert len(ours) == 3
    assert set(ours) <= set(wanted)
    assert set(wanted) - set(ours) < set(pins)
    assert len(wanted) == len([line for line in pins if "==" in line])
    assert "requirements-jax07.txt" in one_line(run("make", "setup", JAX="0.7"))


# pip as setup_gpu.sh calls it, too: --target is where the packages go
GPU_PIP = (
    INSTALLS
    + """
case "$*" in *--target*)
    while [ "$1" != --target ]; do shift; done
    [ -z "${FAIL:-}" ] || { echo "ERROR: no such thing"; exit 1; }
    mkdir -p "$2/jax_cuda13_plugin" ;;
esac"""
)


@pytest.mark.skipif(sys.platform != "linux", reason="the GPU's compiler exists for Linux only")
def test_the_gpu_s_compiler_lies_beside_the_environment(run, setup, place):
    first = run("make", "setup-gpu", FAKE_PIP=GPU_PIP)
    assert first.returncode == 0, first.stderr
    assert (place / ".venv-gpu/jax_cuda13_plugin").is_dir() and "270 MB" in first.stdout
    calls = pip_calls(place)
    assert run("make", "setup-gpu", FAKE_PIP=GPU_PIP).stdout == "" and pip_calls(place) == calls
    with open(place / "requirements-gpu.txt", "a") as file:
        file.write("extra==1.0\n")
    line = one_line(run("make", "setup-gpu", FAKE_PIP=GPU_PIP, FAIL="yes"))
    assert "The GPU's compiler was not installed: ERROR: no such thing (log: .venv/setup-gpu.log)" in line
    assert (place / ".venv-gpu/jax_cuda13_plugin").is_dir(), "what was there is kept"
    optional = run("/bin/sh", "tools/setup_gpu.sh", ".venv", OPTIONAL="yes", FAKE_PIP=GPU_PIP, FAIL="yes")
    assert optional.returncode == 0 and "was not installed" in optional.stderr


def test_tests_install_the_gpu_s_compiler_for_a_machine_and_for_the_wide_sweeps(run, place):
    def asks(*command, **env):
        return "setup_gpu.sh" in run("make", "-n", *command, **env).stdout

    assert not asks("test") and asks("test", CI="true") and asks("test", "EVERYTHING=yes")
    assert "setup_nbgrader.sh" in run("make", "-n", "test", "EVERYTHING=yes").stdout
    assert "setup_nbgrader.sh" not in run("make", "-n", "test", CI="true").stdout
    assert "EVERYTHING=yes" in (place / "Makefile").read_text().partition("test-all:")[2]


NETWORK = """echo "WARNING: Retrying after connection broken by 'NewConnectionError(failed)'"
echo "ERROR: No matching distribution found for jax==0.11.2"; exit 1"""
FULL = """echo "Traceback (most recent call last):"
echo "OSError: [Errno 28] No space left on device"; exit 1"""
MISSING = 'echo "ERROR: No matching distribution found for jaxlib==0.11.2"; exit 1'
CERTIFICATE = """echo "Max retries exceeded (Caused by SSLError(SSLCertVerificationError"; exit 1"""
CONFLICT = 'echo "ERROR: ResolutionImpossible: for help visit the documentation"; exit 1'


@pytest.mark.parametrize(
    "pip, said",
    [
        (NETWORK, "check the network"),
        (FULL, "the disk is full"),
        (MISSING, "no ready-made jaxlib==0.11.2 for Python 3.13.0"),
        (CERTIFICATE, "PIP_CERT"),
        (CONFLICT, "ResolutionImpossible"),
        ("kill -9 $$", "memory"),
        ("exit 7", "exit status 7"),
    ],
    ids=["network", "disk", "wheel", "certificate", "conflict", "killed", "silent"],
)
def test_a_failing_pip_gives_one_line_and_a_rerun_mends_it(setup, place, pip, said):
    line = one_line(setup(FAKE_PIP=pip))
    assert said in line
    assert ".venv/setup.log" in line
    assert setup().returncode == 0
    assert setup().stdout == ""


WITH_ARGUMENTS = f'echo "$*" | tr " " "_" >>"$CALLS"\n{INSTALLS}'


def test_wheels_in_the_folder_are_all_that_pip_asks(setup, place):
    """As an offline bundle has them (make offline)."""
    (place / "wheels").mkdir()
    assert setup(FAKE_PIP=WITH_ARGUMENTS).returncode == 0
    assert "_--no-index_--find-links_wheels_-r_" in (place / "calls").read_text()


def test_without_them_pip_asks_the_index(setup, place):
    assert setup(FAKE_PIP=WITH_ARGUMENTS).returncode == 0
    assert "-r_.venv/wanted.txt" in (place / "calls").read_text() and "--no-index" not in (place / "calls").read_text()


def test_wheels_for_another_python_are_named(setup, place):
    (place / "wheels").mkdir()
    (place / "wheels/for.txt").write_text("macos-arm64 with Python 3.12\n")
    line = one_line(setup(FAKE_PIP=MISSING))
    assert "the folder wheels has no jaxlib==0.11.2 for Python 3.13.0 on " in line
    assert "it is for macos-arm64 with Python 3.12" in line and "make offline" in line


def test_an_almost_full_disk_is_noticed_before_anything_is_fetched(setup, place):
    assert "199 MB free" in one_line(setup(FREE_KB="204000"))
    assert pip_calls(place) == 0


def test_a_jax_that_does_not_start_is_noticed(setup, place):
    text = PYTHON.replace('jupyterlab") ;;', 'jupyterlab") echo "RuntimeError: needs AVX"; exit 1 ;;')
    program(place / "bin/python3.13", text)
    assert "RuntimeError: needs AVX" in one_line(setup())


@pytest.mark.parametrize("said, rebuilt", [("Collecting jax", False), ("Installing collected packages: jax", True)])
def test_ctrl_c_then_a_rerun_mends_it(run, setup, place, said, rebuilt):
    """Cut short while pip fetches, nothing has changed; while it installs, it may be half done."""
    env = run.env | {"FAKE_PIP": f'echo "{said}"; touch waiting; exec sleep 30'}
    quiet = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
    }
    # Tests may run where Ctrl-C is ignored, in the background say; and a child inherits that.
    heed = "import os, signal; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execvp('make', ['make', 'setup'])"
    command = [sys.executable, "-c", heed]
    with subprocess.Popen(command, cwd=place, env=env, start_new_session=True, **quiet) as make:
        until(lambda: (place / "waiting").exists())
        os.killpg(make.pid, signal.SIGINT)
        out, err = make.communicate(timeout=10)
    assert "Stopped. Run the same command again" in out
    assert "Traceback" not in out + err
    assert ("Making .venv" in setup().stdout) == rebuilt
    assert setup().stdout == ""


def test_two_at_once_install_once(run, place, setup):
    waits = "touch waiting; for i in $(seq 100); do [ -e go ] && break; sleep 0.1; done; "
    env = run.env | {"FAKE_PIP": waits + INSTALLS}
    pipes = {
        "cwd": place,
        "env": env,
        "stdout": subprocess.PIPE,
        "text": True,
        "stdin": subprocess.DEVNULL,
    }
    with subprocess.Popen(["make", "setup"], **pipes) as first:
        until(lambda: (place / "waiting").exists())
        with subprocess.Popen(["make", "setup"], **pipes) as second:
            assert "waiting for it" in second.stdout.readline()
            (place / "go").touch()
            assert (first.wait(10), second.wait(10)) == (0, 0)
    assert pip_calls(place) == 1


@pytest.mark.parametrize(
    "break_it",
    [
        lambda place: (place / ".venv/bin/python").unlink(),
        lambda place: (place / ".venv/installing").touch(),
        lambda place: shutil.rmtree(place / ".venv/lib/python3.13/site-packages/jax-1.dist-info"),
        lambda place: (place / ".venv/home").write_text("/moved/from/here\n/python\n"),
    ],
    ids=["interpreter gone", "half installed", "package removed", "folder moved"],
)
def test_a_broken_environment_is_made_anew(setup, place, break_it):
    setup()
    break_it(place)
    assert "Making .venv" in setup().stdout
    assert setup().stdout == ""
    assert pip_calls(place) == 2


def content(folder):
    """Every file under a folder: its path and its bytes."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def environment_of_somebody_else(folder):
    (folder / "lib").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (folder / "lib/weeks_of_work.py").write_text("x = 1\n")


@pytest.mark.parametrize("level", ["setup", "test"])
def test_a_link_is_refused_and_what_it_points_to_stays(run, setup, place, level):
    """An instructor links one environment into every clone of a class: no clone may empty it."""
    shared = place / "shared"
    environment_of_somebody_else(shared)
    before = content(shared)
    (place / ".venv").symlink_to("shared")
    line = one_line(run("make", level))
    assert ".venv is a symbolic link to shared: remove the link with rm .venv" in line
    assert content(shared) == before and (place / ".venv").is_symlink() and pip_calls(place) == 0
    (place / ".venv").unlink()
    assert setup().returncode == 0 and content(shared) == before


def test_a_link_to_an_environment_that_make_created_is_refused_too(setup, place):
    """That one belongs to another clone, whose `home` it has."""
    setup()
    (place / ".venv").rename(place / "another")
    (place / "another/home").write_text("/another/clone\n/python\n")
    before = content(place / "another")
    (place / ".venv").symlink_to(place / "another")
    assert "is a symbolic link" in one_line(setup())
    assert content(place / "another") == before


def test_a_dangling_link_is_refused(setup, place):
    (place / ".venv").symlink_to("/nowhere/at/all")
    assert ".venv is a symbolic link to /nowhere/at/all: remove" in one_line(setup())
    assert (place / ".venv").is_symlink()


@pytest.mark.parametrize(
    "fill",
    [
        environment_of_somebody_else,
        lambda folder: (folder / "home").mkdir(parents=True),
        lambda folder: (folder.mkdir(), (folder / "notes.txt").write_text("keep me")),
        lambda folder: (folder.mkdir(), (folder / "home").write_text("keep me")),
    ],
    ids=["an environment", "a folder in it", "a file in it", "a file called home"],
)
def test_a_folder_that_make_did_not_create_is_refused(setup, place, fill):
    fill(place / ".venv")
    before = content(place / ".venv")
    assert ".venv is a folder that make did not create: move it away with mv .venv .venv.old" in one_line(setup())
    assert content(place / ".venv") == before and (place / ".venv").is_dir()


def test_a_file_is_refused(setup, place):
    (place / ".venv").write_text("/some/environment\n")  # as pipenv and others leave one
    assert ".venv is a file: move it away with mv .venv .venv.old" in one_line(setup())
    assert (place / ".venv").read_text() == "/some/environment\n"


def test_an_empty_folder_is_filled(setup, place):
    (place / ".venv").mkdir()
    assert setup().returncode == 0


def test_interrupted_before_there_was_an_environment_it_is_made_anew(setup, place):
    (place / ".venv").mkdir()
    for file in ("installing", "setup.log"):
        (place / ".venv" / file).touch()
    assert setup().returncode == 0 and not (place / ".venv/installing").exists()


# --- make


def test_make_alone_lists_every_target(run):
    result = run("make")
    assert result.returncode == 0
    assert [line.split()[1] for line in result.stdout.splitlines()] == TARGETS


@pytest.mark.parametrize(
    "target, said",
    [
        ("grade", "make grade NB="),
        ("gradescope", "make gradescope LESSON="),
        ("colab", "make colab REPO="),
        ("lesson", "make lesson NAME="),
    ],
)
def test_a_missing_argument_is_asked_for_before_anything_is_installed(run, place, target, said):
    result = run("make", target)
    assert result.returncode != 0
    assert len(result.stderr.splitlines()) == 1
    assert said in result.stderr
    assert not (place / ".venv").exists()


def test_the_lab_takes_no_open_page_for_gone(run, place):
    """Jupyter closes a page's connection whose last pong is older than the timeout, and looks just before each ping:
    with a timeout no longer than the interval a page that answered at once is closed by chance, and work is lost."""
    program(place / "venv/bin/python", '#!/bin/sh\nfor arg do echo "$arg"; done\n')
    said = run("/bin/sh", "tools/lab.sh", "venv").stdout.splitlines()
    (settings,) = (line.partition("=")[2] for line in said if line.startswith("--ServerApp.tornado_settings="))
    page = WebSocketMixin()
    page.settings = ast.literal_eval(settings)
    assert not page.ping_interval or page.ping_timeout >= 2 * page.ping_interval


def test_a_port_that_is_taken_is_said_before_jupyterlab_starts(run, place):
    program(
        place / "venv/bin/python",
        f'#!/bin/sh\ncase "$1" in -m) echo started ;; *) exec {sys.executable} "$@" ;; esac\n',
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("/bin/sh", "tools/lab.sh", "venv", PORT=str(port))
    assert re.fullmatch(rf"Port {port} is taken. Try another: PORT=\d+ make lab", one_line(result))
    assert result.stdout == "" and str(port) != result.stderr.split("PORT=")[1].split()[0]
    assert "started" in run("/bin/sh", "tools/lab.sh", "venv", PORT=str(port)).stdout


def test_saved_notebooks_keep_the_state_of_their_widgets(setup, place):
    setup()
    settings = json.loads((place / ".venv/share/jupyter/lab/settings/overrides.d/course.json").read_text())
    assert settings["@jupyter-widgets/jupyterlab-manager:plugin"] == {"saveState": True}


def test_no_browser_is_no_failure(run, place):
    program(place / "bin/id", "#!/bin/sh\necho 1000\n")  # not root
    result = run("/bin/sh", "tools/system_packages.sh", ".venv", PATH=f"{place}/bin")
    assert (result.returncode, result.stderr) == (0, "")
    assert "skipped" in result.stdout
    assert "playwright install" in result.stdout
