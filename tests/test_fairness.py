"""Right answers written in unusual ways: no judge refuses one."""

import importlib
import pkgutil

import fairness
import pytest
from sweeps import daily

from course_lib import compiler, judges

SUBJECTS = [importlib.import_module(f"fairness.{module.name}") for module in pkgutil.iter_modules(fairness.__path__)]
SETS = [subject.RIGHT for subject in SUBJECTS if hasattr(subject, "RIGHT")]
RIGHT = [right for rights in SETS for right in rights]


@pytest.mark.parametrize(
    "right", [case for rights in SETS for case in daily(rights[0], of=rights)], ids=lambda right: right.name
)
def test_a_right_answer_passes_every_judge(right):
    verdicts = judges.judge(right.fn, right.reference, *right.args, simulate=False)
    assert judges.arithmetic_around(judges.Trial(right.fn, right.reference, right.args).walk) == []
    assert not [str(verdict) for verdict in verdicts if verdict.passed is False]
    said = {verdict.judge: verdict.passed for verdict in verdicts}
    assert set(judges.JUDGES) <= set(said)
    if compiler.libtpu_version() is not None:
        assert said["compiler"] is True, str(verdicts[-1])


def test_there_are_many_and_no_two_have_one_name():
    assert len(RIGHT) >= 25
    assert len({right.name for right in RIGHT}) == len(RIGHT)
