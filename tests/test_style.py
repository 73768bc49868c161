"""The style of all code, as `make check` asks for it."""

import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def test_all_code_is_as_make_check_wants_it():
    makefile = (ROOT / "Makefile").read_text()
    folders = dict(re.findall(r"^(CODE|CELLS) = (.*)$", makefile, re.MULTILINE))
    commands = re.findall(r"-m (ruff .*)", makefile)
    assert len(commands) == 3
    for command in commands:
        words = shlex.split(command.replace("$(CODE)", folders["CODE"]).replace("$(CELLS)", folders["CELLS"]))
        ran = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True)
        assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}"
