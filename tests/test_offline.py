"""The offline bundle: what is in it, its errors, and (a sweep) an install from it on a machine without a network."""

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import pytest
from lesson_files import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import build_offline
from build_offline import OfflineError

WHEEL = "jax-0.11.2-py3-none-any.whl"


def names_of(name, python="3.13"):
    return {pin.partition("==")[0] for pin in build_offline.pins(name, python)}


def run(monkeypatch, tmp_path, *options):
    monkeypatch.setattr(sys, "argv", ["build_offline.py", "--out", str(tmp_path / "out"), *options])
    build_offline.main()


@pytest.fixture
def fetched(monkeypatch):
    """No network: the only wheel of every platform is an empty file. The list has what was fetched."""
    asked = []

    def fetch(name, python, folder, tell):
        asked.append((name, python))
        (folder / WHEEL).touch()

    monkeypatch.setattr(build_offline, "fetch", fetch)
    return asked


def test_each_platform_takes_the_pins_whose_markers_hold_there():
    linux, arm, mac = (names_of(name) for name in ("linux-x86_64", "linux-aarch64", "macos-arm64"))
    assert linux - arm == {"libtpu"} and mac - arm == {"appnope"} and arm < mac
    assert {"jax", "jaxlib", "jupyterlab", "keras", "anywidget"} < arm
    wanted = [line for line in (ROOT / "requirements.txt").read_text().splitlines() if "==" in line]
    assert len(linux) == len(wanted) - 1  # all but appnope


def test_a_pin_is_exact_and_has_no_marker():
    text = (ROOT / "requirements.txt").read_text()
    lines = build_offline.pins("linux-x86_64", "3.12")
    assert [line for line in lines if line.count("==") != 1 or ";" in line or line not in text] == []


def test_the_archive_has_the_course_the_wheels_and_the_script(monkeypatch, tmp_path, fetched, capsys):
    run(monkeypatch, tmp_path, "--platform", "linux-x86_64 macos-arm64", "--python", "3.12 3.13")
    assert fetched == [(name, python) for name in ("linux-x86_64", "macos-arm64") for python in ("3.12", "3.13")]
    file = tmp_path / "out/pallas-course-offline-linux-x86_64-macos-arm64.tar"
    with tarfile.open(file) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        assert archive.getmember("pallas-course/install.sh").mode & 0o100
        said = archive.extractfile("pallas-course/wheels/for.txt").read().decode()
    assert said == "linux-x86_64, macos-arm64 with Python 3.12, 3.13\n"
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    assert {f"wheels/{WHEEL}", "Makefile", "notebooks/01_hello_kernel.ipynb", "tools/setup.sh"} < names
    assert not [name for name in names if name.startswith((".venv", "build/", ".git/"))]
    assert len(names & set(tracked)) > 1000
    assert f"tar -xf {file.name} && sh pallas-course/install.sh" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--platform", "win_amd64"], "no bundle for win_amd64: on Windows the course runs in WSL 2"),
        (["--platform", "macos-x86_64"], "no bundle for macos-x86_64: JAX has no wheels for Macs with an Intel"),
        (["--platform", "plan9"], "no bundle for plan9: PLATFORM may be linux-x86_64, linux-aarch64, macos-arm64"),
        (["--python", "3.11"], "does not run on Python 3.11: PYTHONS may be 3.12, 3.13, 3.14"),
    ],
)
def test_what_the_course_does_not_run_on_is_refused(monkeypatch, tmp_path, fetched, options, says):
    with pytest.raises(SystemExit, match=says):
        run(monkeypatch, tmp_path, *options)
    assert fetched == [] and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("pip_says", "says"),
    [
        (
            "ERROR: No matching distribution found for libtpu==1",
            "no ready-made libtpu==1 for linux-x86_64 with Python 3.13",
        ),
        ("HTTPConnection: NameResolutionError: no address", "the package index cannot be reached"),
        ("OSError: [Errno 28] No space left on device", "the disk is full: free about 2 GB"),
        ("ERROR: something else", "pip failed: ERROR: something else"),
    ],
)
def test_what_pip_says_is_explained_in_a_line(monkeypatch, tmp_path, pip_says, says):
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\necho '{pip_says}'\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(OfflineError, match=says):
        build_offline.fetch("linux-x86_64", "3.13", tmp_path, lambda text: None)


def test_how_far_it_is(monkeypatch, tmp_path):
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho 'Collecting a'\necho 'Saved ./a.whl'\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    said, count = [], len(build_offline.pins("macos-arm64", "3.12"))
    build_offline.fetch("macos-arm64", "3.12", tmp_path, said.append)
    assert said[0] == f"fetching wheels for macos-arm64, Python 3.12: looking up 1 of {count}"
    assert said[1] == f"fetching wheels for macos-arm64, Python 3.12: 1 of {count}"


def test_without_a_clone_it_says_so(monkeypatch, tmp_path, fetched):
    monkeypatch.setattr(build_offline, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(SystemExit, match="it needs a clone of the course and git: fatal: not a git repository"):
        run(monkeypatch, tmp_path)


def test_this_machine_has_a_name():
    assert build_offline.here().partition("-")[0] in ("linux", "macos", "windows")
    assert build_offline.this_python() in build_offline.PYTHONS


# The real thing, in three minutes: `make test` has each of its parts, above and in test_setup.py.

ROOM = """set -e
tar -xf "$1"
sh pallas-course/install.sh
cd pallas-course
.venv/bin/python check.py
.venv/bin/python -m jupyter nbconvert --to notebook --execute --stdout notebooks/01_hello_kernel.ipynb >executed.ipynb
BROWSER=none PORT=8917 sh tools/lab.sh .venv >lab.log 2>&1 &
for second in $(seq 60); do
    sleep 1
    .venv/bin/python ask.py 2>/dev/null && exit 0
done
cat lab.log
exit 1
"""
ASK = """import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:8917/api").read())
"""
CHECK = """import socket
try:
    socket.create_connection(("192.0.2.1", 80), 2)
except OSError as error:
    print("without a network:", error)
import jax
from jax.experimental import pallas as pl
from course_lib import checks
def add_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]
checks.check("01.1", lambda x, y: pl.pallas_call(add_kernel, out_shape=x)(x, y))
"""


@pytest.mark.sweep
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap, to take the network away")
def test_an_empty_machine_without_a_network_installs_checks_and_opens(monkeypatch, tmp_path):
    """No network, no settings of pip, and none of the places from which this machine installs."""
    run(monkeypatch, tmp_path)
    (archive,) = (tmp_path / "out").iterdir()
    room = tmp_path / "room"
    room.mkdir()
    with tarfile.open(archive, "a") as bundle:
        for name, text in (("check.py", CHECK), ("ask.py", ASK)):
            (tmp_path / name).write_text(text)
            bundle.add(tmp_path / name, f"pallas-course/{name}")
    python = pathlib.Path(sys._base_executable).resolve().parent
    settings = {"PATH": f"{python}:/usr/bin:/bin", "HOME": str(room), "PIP_CONFIG_FILE": os.devnull, "LANG": "C.UTF-8"}
    box = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/opt", "--tmpfs", "/dev/shm"]
    box += ["--bind", room, room, "--chdir", room, "--unshare-net", "--unshare-pid", "--die-with-parent"]
    done = subprocess.run([*box, "sh", "-c", ROOM, "sh", archive], env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "without a network: " in done.stdout and "01.1 passed" in done.stdout and '"version"' in done.stdout
    assert (room / "pallas-course/executed.ipynb").read_text().count('"outputs"') > 10
