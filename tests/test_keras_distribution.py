"""FusedDense and FlashAttention under keras.distribution: their twins' losses and communication, by kernels."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from sweeps import daily

from course_lib import compiler

FOLDER = pathlib.Path(__file__).parent
COLLECTIVES = {"DataParallel": {"all-reduce": 1}, "ModelParallel": {"all-reduce": 2}}


def trained(how: str) -> dict:
    """What keras_distribution.py found, in a process of its own that has 8 devices."""
    libtpu = ["libtpu"] if compiler.libtpu_version() else []
    path = os.pathsep.join([str(FOLDER.parent), os.environ.get("PYTHONPATH", "")])
    out = subprocess.run(
        [sys.executable, FOLDER / "keras_distribution.py", how, *libtpu],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
        timeout=600,
    )
    assert out.returncode == 0, out.stderr[-2000:]
    return json.loads(out.stdout.splitlines()[-1])


@pytest.mark.parametrize("how", daily("ModelParallel", of=["DataParallel", "ModelParallel"]))
def test_the_losses_and_the_communication_are_those_of_dense(how):
    found = trained(how)
    dense, fused = found["Dense"], found["FusedDense"]
    assert fused["losses"] == pytest.approx(dense["losses"], rel=1e-5)
    assert dense["losses"][0] > dense["losses"][1], "nothing was learnt"
    if "compiled" in dense:
        assert dense["compiled"] == COLLECTIVES[how]
        kernels = fused["compiled"].pop("kernels")
        assert kernels >= 7, "three layers, and two kernels for the gradient of each but what the first need not give"
        assert fused["compiled"] == COLLECTIVES[how], "no warning either"
    theirs, ours = found["MultiHeadAttention"], found["FlashAttention"]
    assert ours["losses"] == pytest.approx(theirs["losses"], rel=1e-5)
    if "compiled" in theirs:
        assert ours["compiled"].pop("kernels") == 2
        assert ours["compiled"] == theirs["compiled"]
