"""Make the course as one archive for machines without a network: all files that git tracks, and the wheels of the pins.

    make offline                                             for this machine's system and Python
    make offline PLATFORM="linux-x86_64 macos-arm64" PYTHONS="3.12 3.13"     for several, in one archive

Unpacked, `sh install.sh` installs from the wheels, and `make lab` opens the course (docs/offline.md).
"""

import argparse
import pathlib
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable

from building import ROOT
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.tags import mac_platforms

from course_lib.compiler import progress

NAME = "pallas-course"  # the folder in the archive
PYTHONS = ("3.12", "3.13", "3.14")
# What the machines have at least: glibc 2.31, which libtpu needs, came with Debian 11, Ubuntu 20.04 and RHEL 9.
_GLIBC, _MACOS = 31, (14, 0)


def _manylinux(machine: str) -> list[str]:
    old = [f"manylinux{year}_{machine}" for year in (2014, 2010, 1)]
    return [*(f"manylinux_2_{minor}_{machine}" for minor in range(_GLIBC, 4, -1)), *old, f"linux_{machine}"]


# By name: what a marker in requirements.txt asks about, and the tags of wheels that fit.
PLATFORMS = {
    "linux-x86_64": ({"sys_platform": "linux", "platform_machine": "x86_64"}, _manylinux("x86_64")),
    "linux-aarch64": ({"sys_platform": "linux", "platform_machine": "aarch64"}, _manylinux("aarch64")),
    "macos-arm64": ({"sys_platform": "darwin", "platform_machine": "arm64"}, list(mac_platforms(_MACOS, "arm64"))),
}
_INSTEAD = {
    "win": "on Windows the course runs in WSL 2, which takes the bundle of linux-x86_64",
    "macos-x86_64": "JAX has no wheels for Macs with an Intel processor: use Colab there",
}


class OfflineError(Exception):
    """A bundle that cannot be made; the message says why, and what to do."""


def main() -> None:
    options = _options()
    try:
        wanted = chosen(options.platform.split() or [here()], options.python.split() or [this_python()])
        file = options.out / f"{NAME}-offline-{'-'.join(dict.fromkeys(name for name, _ in wanted))}.tar"
        with tempfile.TemporaryDirectory(prefix="course-wheels-") as folder, progress.shown("fetching wheels") as tell:
            wheels = pathlib.Path(folder)
            for name, python in wanted:
                fetch(name, python, wheels, tell)
            tell("packing")
            pack(wheels, wanted, file)
    except OfflineError as error:
        sys.exit(f"make offline: {error}")
    print(f"{file}, {file.stat().st_size / 2**20:.0f} MiB, for {_in_words(wanted)}.")
    if changed := _git("status", "--porcelain", "--untracked-files=no").decode().splitlines():
        print(f"It has the last commit: {len(changed)} changed files are in it as they were.")
    print(f"On the other machine: tar -xf {file.name} && sh {NAME}/install.sh")


def chosen(platforms: list[str], pythons: list[str]) -> list[tuple[str, str]]:
    """Return every pair of platform and Python. Raise OfflineError for one that the course does not run on."""
    for name in platforms:
        if name not in PLATFORMS:
            why = next((why for start, why in _INSTEAD.items() if name.lower().startswith(start)), "")
            known = f"PLATFORM may be {', '.join(PLATFORMS)}, or several of them with blanks between"
            raise OfflineError(f"there is no bundle for {name}: {why or known}.")
    for python in pythons:
        if python not in PYTHONS:
            raise OfflineError(f"the course does not run on Python {python}: PYTHONS may be {', '.join(PYTHONS)}.")
    return [(name, python) for name in platforms for python in pythons]


def here() -> str:
    """Return the name of this machine's platform."""
    system = {"Darwin": "macos"}.get(platform.system(), platform.system().lower())
    return f"{system}-{platform.machine()}"


def this_python() -> str:
    """Return the version of the Python that runs, "3.13"."""
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def pins(name: str, python: str) -> list[str]:
    """Return the lines of requirements.txt that hold on a platform with a Python, without their markers."""
    environment = default_environment() | PLATFORMS[name][0] | {"python_version": python, "python_full_version": python}
    lines = (line.partition("#")[0].strip() for line in (ROOT / "requirements.txt").read_text().splitlines())
    read = [Requirement(line) for line in lines if line]
    return [f"{one.name}{one.specifier}" for one in read if one.marker is None or one.marker.evaluate(environment)]


def fetch(name: str, python: str, folder: pathlib.Path, tell: Callable[[str], None]) -> None:
    """Download the wheels of all pins into ``folder``. Raise OfflineError if one is missing or the network is."""
    wanted = pins(name, python)
    abi = f"cp{python.replace('.', '')}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input", "--no-color"]
    command += ["--progress-bar=off", "--disable-pip-version-check", f"--dest={folder}", "--implementation=cp"]
    command += [f"--python-version={python}", f"--abi={abi}", "--abi=abi3", "--abi=none"]
    command += [f"--platform={tag}" for tag in PLATFORMS[name][1]]
    said = []
    with subprocess.Popen([*command, *wanted], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        for line in pip.stdout:
            said.append(line)
            tell(f"fetching wheels for {name}, Python {python}: {_done(said)} of {len(wanted)}")
    if pip.returncode:
        raise OfflineError(_why("".join(said), name, python))


def _done(said: list[str]) -> str:
    saved = sum(line.startswith(("Saved ", "File was already downloaded ")) for line in said)
    return str(saved) if saved else f"looking up {sum(line.startswith('Collecting ') for line in said)}"


def _why(said: str, name: str, python: str) -> str:
    if re.search(r"NewConnectionError|NameResolutionError|Timeout|ProxyError|Network is unreachable", said):
        return "the package index cannot be reached: check the network or the proxy, then run the same command again."
    if missing := re.search(r"No matching distribution found for (\S+)", said):
        return (
            f"there is no ready-made {missing[1]} for {name} with Python {python}: try another Python (PYTHONS=3.13)."
        )
    if re.search(r"(?i)no space left", said):
        return "the disk is full: free about 2 GB, then run the same command again."
    lines = [line for line in said.splitlines() if line.strip()]
    return f"pip failed: {lines[-1] if lines else 'it gave no reason'}"


def pack(wheels: pathlib.Path, wanted: list[tuple[str, str]], file: pathlib.Path) -> None:
    """Write the archive: the files of the last commit, install.sh beside them, and the wheels."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(_git("archive", "--format=tar", f"--prefix={NAME}/", "HEAD"))
    (wheels / "for.txt").write_text(_in_words(wanted) + "\n")  # what tools/setup.sh says if nothing fits
    with tarfile.open(file, "a") as archive:
        archive.add(ROOT / "tools/offline/install.sh", f"{NAME}/install.sh")
        for wheel in sorted(wheels.iterdir()):
            archive.add(wheel, f"{NAME}/wheels/{wheel.name}")


def _in_words(wanted: list[tuple[str, str]]) -> str:
    pythons = ", ".join(dict.fromkeys(python for _, python in wanted))
    return f"{', '.join(dict.fromkeys(name for name, _ in wanted))} with Python {pythons}"


def _git(*command: str) -> bytes:
    try:
        return subprocess.run(["git", *command], cwd=ROOT, check=True, capture_output=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", b"").decode().strip() or error
        raise OfflineError(
            f"it takes the files that git tracks, so it needs a clone of the course and git: {said}"
        ) from None


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--platform", default="", help=f"of {', '.join(PLATFORMS)}: this machine's")
    parser.add_argument("--python", default="", help=f"of {', '.join(PYTHONS)}: this one")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build", metavar="FOLDER", help="build")
    return parser.parse_args()


if __name__ == "__main__":
    main()
