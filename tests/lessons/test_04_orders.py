"""Lesson 4: the orders of 04.4 are those of the page, and blocks of another height are refused in 04.1."""

import contextlib

import jax
import pytest
from lesson_files import code_cells

from course_lib import grid
from course_lib.checks.exercise import exercise
from course_lib.checks.unfit import Unfit
from course_lib.lessons.lesson_04.e01_reverse import call_reverse
from course_lib.lessons.lesson_04.e04_three_orders import batched

ORDERS = exercise("04.4").asks.parts


@pytest.mark.parametrize("order", ORDERS)
def test_each_order_has_a_sentence_for_six_slips_or_more(order):
    assert len(ORDERS[order].near) >= 6


def test_the_number_of_another_order_gets_a_question_about_what_differs():
    """In jbi and bji x is copied alike and w is not; bij has another axis last."""
    near = {order: part.near for order, part in ORDERS.items()}
    value = {order: part.value for order, part in ORDERS.items()}
    assert near["bji"][value["jbi"]].endswith("x is copied as often. How often does j change when b comes first?")
    assert near["jbi"][value["bji"]].endswith("x is copied as often. How often does j change when j comes first?")
    for order, other in (("bij", "jbi"), ("bij", "bji"), ("jbi", "bij"), ("bji", "bij")):
        assert near[order][value[other]].endswith("Which of x and w then gets a new block at every step?")


@pytest.mark.parametrize("order", ORDERS)
def test_the_product_of_the_task_is_the_one_that_is_counted(order):
    """04.4 shows a function to read: its ledger is that of the declaration's."""
    (given,) = [
        c.source for c in code_cells("solutions/src", "04_grids_and_blockspecs") if c.metadata.get("given") == "04.4"
    ]
    names = {}
    exec("import jax, jax.numpy as jnp\nfrom jax.experimental import pallas as pl\n" + given, names)
    x, w = (jax.ShapeDtypeStruct(shape, "bfloat16") for shape in ((3, 256, 384), (384, 640)))
    shown, counted = (grid.walk(make(order), x, w).calls[0] for make in (names["batched"], batched))
    assert shown.grid == counted.grid
    for one, other in zip(shown.operands, counted.operands, strict=True):
        assert (one.indices == other.indices).all() and one.block_shape == other.block_shape


@pytest.mark.parametrize("height, fits", [(1, False), (4, False), (8, True), (16, False), (64, False)])
def test_eight_rows_stay_together(height, fits):
    answer = lambda rows, columns: ((1,), (height, columns), lambda i: (i, 0), lambda i: (i, 0))  # noqa: E731
    with contextlib.nullcontext() if fits else pytest.raises(Unfit, match="Eight rows stay together"):
        call_reverse(answer)
