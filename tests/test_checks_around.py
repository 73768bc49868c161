"""Arithmetic around a kernel: an exercise refuses it, whatever the judges say, unless it declares that it may stand."""

import jax.numpy as jnp
import pytest
from fairness.kernels import added

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds import kernel


def outcome_of(fn, **fields):
    task = Exercise(
        id="99.1",
        title="Twice the sum",
        kind="write",
        defines="twice_the_sum",
        hints=("one", "two", "three"),
        points=1,
        inputs=("x: f32[M,N]", "y: f32[M,N]"),
        sizes=({"M": 16, "N": 256}, {"M": 8, "N": 128}, {"M": 5, "N": 130}),
        reference=lambda x, y: 2 * (x + y),
        judges=("numbers",),
        **fields,
    )
    return kernel.result(task, fn)


def doubled_behind_the_kernel(x, y):
    return added(x, y) * 2


def test_arithmetic_around_a_kernel_is_refused_by_the_exercise():
    said = outcome_of(doubled_behind_the_kernel)
    assert (said.outcome, said.judge) == ("not yet", "exercise")
    assert said.message == "Part of the arithmetic is outside the kernel: mul."


def test_an_exercise_may_allow_it():
    assert outcome_of(doubled_behind_the_kernel, arithmetic_around=True).passed


@pytest.mark.parametrize("allowed", [False, True])
def test_an_answer_without_a_kernel_is_refused_by_a_judge_all_the_same(allowed):
    said = outcome_of(lambda x, y: 2 * (x + y), arithmetic_around=allowed)
    assert (said.outcome, said.judge) == ("not yet", "numbers") and "without a kernel" in said.message


def test_shapes_may_change_around_it():
    def in_rows(x, y):
        both = jnp.concatenate([x, y], axis=1).reshape(2 * x.shape[0], x.shape[1])
        return added(both, both)[: 2 * x.shape[0]].reshape(x.shape[0], 2, x.shape[1])[:, 0] + 0

    assert "outside the kernel: add." in outcome_of(in_rows).message
    assert "outside" not in outcome_of(lambda x, y: added(x.T, y.T).T).message
