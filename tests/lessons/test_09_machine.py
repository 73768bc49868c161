"""The machine of 09.7: a benchmark has to measure it."""

import pytest

from course_lib import checks
from course_lib.lessons.lesson_09 import machine

SECONDS = machine.Machine(_layer_s=1e-3, _kernel_s=2e-3, _eager_s=3e-3)


def test_its_seconds_cannot_be_read_off():
    with checks.rehearsal():
        said = checks.check("09.7", lambda machine: (machine._layer_s, machine._kernel_s))
    assert said.outcome == "not yet"
    assert "AttributeError" in str(said)


@pytest.mark.parametrize("private", ["_layer_s", "_kernel_s", "now_s", "free_s"])
def test_what_a_benchmark_is_given_has_no_seconds(private):
    assert hasattr(SECONDS, private)
    assert not hasattr(machine.outside(SECONDS), private)


def test_what_a_benchmark_is_given_works_as_the_machine_does():
    given = machine.outside(SECONDS)
    fn = given.jit(given.kernel)
    fn(given.batch(0)).block_until_ready()
    began = given.clock()
    fn(given.batch(1)).block_until_ready()
    assert given.clock() - began == pytest.approx(2e-3 + 1e-4)
