"""The formula of a step, beside the compiler's cycles: a few of the kernels of benchmarks/step_kernels.py."""

import importlib.util
import pathlib
import sys

import pytest
from conftest import needs_libtpu

FILE = pathlib.Path(__file__).resolve().parent.parent / "benchmarks/step_kernels.py"
spec = importlib.util.spec_from_file_location("step_kernels", FILE)
step_kernels = sys.modules["step_kernels"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(step_kernels)
STEPS = step_kernels.steps()
FEW = {1, 5, 10, 14, 17, 20, 28}  # in, both, out; work; one buffer and four; a product


def test_there_are_thirty_and_no_two_are_one():
    assert len({step.name for step in STEPS}) == 30


@needs_libtpu
@pytest.mark.parametrize(
    "step",
    [
        pytest.param(step, id=step.name, marks=() if number in FEW else pytest.mark.sweep)
        for number, step in enumerate(STEPS)
    ],
)
def test_a_step_takes_what_the_formula_says(step):
    cycles, busy = step_kernels.by_compiler(step)
    assert step_kernels.formula(step, busy) == pytest.approx(cycles, rel=0.1)


def test_the_formula():
    def cycles(busy, **of):
        return step_kernels.formula(step_kernels.Step(name="", call=lambda steps: (), **of), busy)

    size = 10 * step_kernels.RATE
    read, write = (latency + 10 for latency in step_kernels.roofline.LATENCY_CYCLES["v5e"])
    assert cycles(50, reads=size) == (read + 50) / 2
    assert cycles(50, reads=size, read_buffers=4) == (read + 50) / 4
    assert cycles(5000, reads=size, writes=size) == 5000
    assert cycles(50, writes=size) == (write + 50) / 2
    assert cycles(50, reads=size, writes=size, read_buffers=1, write_buffers=1) == read + write + 50
