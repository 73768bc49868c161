"""Plain nbval on the solutions: it compares what the checks print with what is stored."""

import json
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
from conftest import needs_libtpu

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOLVED = ROOT / "solutions/01_hello_kernel.ipynb"
MARK = "# NBVAL_CHECK_OUTPUT"


def cells(path=SOLVED):
    return [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]


def is_check(cell):
    return cell["id"].endswith("-check")


CHECKS = [number for number, cell in enumerate(cells()) if is_check(cell)]
pytestmark = [
    needs_libtpu,  # without it the line says that the compiler is skipped
    pytest.mark.skipif(
        not all("".join(cell["source"]).startswith(f"{MARK}\n") for cell in cells() if is_check(cell)),
        reason="the check cells of the solutions do not carry NBVAL_CHECK_OUTPUT yet: run `make build`",
    ),
]


def with_other_outputs(path):
    """The solutions with another line stored below every check except the last."""
    notebook = json.loads(SOLVED.read_text())
    for cell in list(filter(is_check, notebook["cells"]))[:-1]:
        (output,) = cell["outputs"]
        output["text"] = ["".join(output["text"]).replace("passed", "Passed")]
    path.write_text(json.dumps(notebook))
    return path


def start_nbval(notebook, junit):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval-lax", f"--junitxml={junit}"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "COV_"))}
    return subprocess.Popen(
        [*command, "--nbval-current-env", "--nbval-cell-timeout=120", str(notebook)],
        cwd=ROOT,
        env=environment
        | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "nbval.plugin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def failed(junit):
    """The numbers of the code cells that failed, in order of the file."""
    cases = ET.parse(junit).getroot().findall(".//testcase")
    assert len(cases) == len(cells())
    return [number for number, case in enumerate(cases) if case.find("failure") is not None]


def test_nbval_compares_every_check_s_line(tmp_path):
    changed = with_other_outputs(tmp_path / "changed.ipynb")
    runs = [start_nbval(SOLVED, tmp_path / "solved.xml"), start_nbval(changed, tmp_path / "changed.xml")]
    said = [run.communicate(timeout=500)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 1], "\n".join(said)
    assert failed(tmp_path / "solved.xml") == []
    assert failed(tmp_path / "changed.xml") == CHECKS[:-1]
    assert said[1].count("Cell outputs differ") >= len(CHECKS) - 1  # where CI is set, pytest says it once more


def test_the_stored_lines_are_passes():
    for cell in filter(is_check, cells()):
        (output,) = cell["outputs"]
        (line,) = "".join(output["text"]).splitlines()
        assert line.startswith(f"{cell['id'].removesuffix('-check').replace('-', '.')} passed: ")
