"""Declared slips: whose numbers an answer has is what it is told, and a right answer has none of them."""

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from lesson_files import TASKS

from course_lib import judges
from course_lib.checks.exercise import exercise
from course_lib.checks.kinds import kernel, slips

WITH_SLIPS = [pytest.param(task, id=task.id) for task in TASKS if task.slips]


def found(task, computed, case):
    return slips.found(task, judges.Trial(computed, task.reference, case))


@pytest.mark.parametrize("task", WITH_SLIPS)
def test_each_slip_gets_its_own_sentence_at_every_size(task):
    for case in task.arguments():
        for computed, what, next in task.slips:
            assert found(task, computed, case) == (what, next)


@pytest.mark.parametrize("task", WITH_SLIPS)
def test_a_right_answer_is_no_slip(task):
    assert [found(task, task.reference, case) for case in task.arguments()] == [None] * len(task.arguments())


def in_a_kernel(computed):
    """What ``computed`` makes of a block, as a kernel in one block."""

    def fn(x):
        def body(x_ref, o_ref):
            o_ref[...] = computed(x_ref[...])

        return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    return fn


def test_the_verdict_is_the_numbers_judges_with_the_sentence_of_the_slip():
    task = exercise("02.10")
    said = kernel.result(task, in_a_kernel(task.slips[0][0]))
    assert said.judge == "numbers" and said.headline == "the numbers judge refused it."
    assert said.message.endswith(task.slips[0][1]) and said.next == task.slips[0][2]


def test_other_wrong_numbers_are_told_where_they_are_wrong():
    said = kernel.result(exercise("02.10"), in_a_kernel(jnp.sin))
    assert said.judge == "numbers" and "The output at [0, 0] is" in said.message


def test_what_cannot_be_run_has_no_slip():
    task = exercise("02.10")
    assert found(task, lambda x: jax.lax.while_loop(lambda c: c, lambda c: c, x), task.arguments()[0]) is None
