"""The arguments of every exercise can tell right from wrong: what rounding may do is small beside the answer."""

import numpy as np
import pytest
from sweeps import daily

from course_lib import judges
from course_lib.checks.exercise import exercises

JUDGED = {task.id: task for task in exercises().values() if task.reference is not None}
FIRST = {id[:2]: id for id in reversed(JUDGED)}.values()  # of each lesson


@pytest.mark.parametrize("id", daily(*FIRST, of=JUDGED))
def test_the_bound_on_rounding_is_small_beside_the_answer(id):
    task = JUDGED[id]
    for case in task.arguments():
        for want in judges.expected(task.reference, case):
            if want.exact is not None:
                assert np.median(want.bound) <= 0.05 * np.sqrt(np.mean(want.exact**2))
            nonzero = np.asarray(want.value != 0)  # a relu writes zeros, and rows of no group are
            nearly = judges.right(np.zeros_like(want.value), want)[nonzero]
            assert nearly.sum() <= 0.5 * nearly.size, "a kernel that writes zeros would be nearly right"
