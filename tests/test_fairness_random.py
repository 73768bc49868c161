"""Tiled kernels made at random, with a fixed seed: all are right, and none may be refused."""

import itertools

import numpy as np
import pytest
from conftest import needs_libtpu
from fairness.generated import a_product, a_row_reduction, an_elementwise
from sweeps import daily

from course_lib import judges

EACH = {a_product: 16, a_row_reduction: 12, an_elementwise: 12}
KINDS = [[make(np.random.default_rng([4, n])) for n in range(times)] for make, times in EACH.items()]
CASES, FIRST = [right for kind in KINDS for right in kind], [kind[0] for kind in KINDS]


@pytest.mark.parametrize("right", daily(*FIRST, of=CASES), ids=lambda right: right.name)
def test_a_random_right_kernel_passes(right):
    for sit in (judges.numbers_judge, judges.simulator_judge):
        verdict = sit(right.fn, right.reference, *right.args)
        assert verdict.passed, str(verdict)


@needs_libtpu
@pytest.mark.parametrize("right", daily(*FIRST, of=CASES[::4]), ids=lambda right: right.name)
def test_the_compiler_takes_it(right):
    verdict = judges.compiler_judge(right.fn, right.reference, *right.args)
    assert verdict.passed, str(verdict)


def test_the_cases_differ():
    assert len({right.name for right in CASES}) == len(CASES) == 40
    assert any("bfloat16" in right.name for right in CASES) and any("int8" in right.name for right in CASES)
    orders = {right.name[-3:] for right in CASES if "grid" in right.name}
    assert orders == {"".join(order) + "k" for order in itertools.permutations("ij")}
