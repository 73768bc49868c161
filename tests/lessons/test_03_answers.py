"""Answers to the exercises of lesson 3 that people give, and the sentences that meet them."""

import pytest
from lesson_files import asking

from course_lib.checks import unfit
from course_lib.checks.exercise import exercise
from course_lib.checks.kinds import compute, predict, several
from course_lib.lessons.lesson_03 import e09_blocks_too_small as blocks


@pytest.mark.parametrize(
    "name, answer, says",
    [
        ("ring", "707 us", "You added the hops"),
        ("ring", "349.5 us", "an axis of the torus, a ring, has two"),
        ("ring", "667 us", "64 Mi is 64 times 1,048,576"),
        ("line", "1.07 ms", "64 Mi is 64 times 1,048,576"),
        ("line", "746 us", "Two slips: "),
        ("small", "8 us", "That is the ring of sixteen"),
        ("small", "3.07 us", "You added the bytes"),
        ("ring", "720 us", "Close, but a little too large"),
    ],
)
def test_slips_with_an_all_gather(name, answer, says):
    assert says in predict.result(asking(exercise("03.6").asks.parts[name]), answer).message


@pytest.mark.parametrize(
    "claim, answer, says",
    [
        ("C", ("falls", "491 TFLOP/s"), "C: it is not 491 TFLOP/s"),
        ("B", ("stands", "5567 us"), "That is what is said to be saved"),
        ("E", ("falls", "4 MiB"), "That is one row of blocks"),
    ],
)
def test_where_number_and_verdict_are_wrong_the_number_comes_first(claim, answer, says):
    assert says in str(several.result(exercise("03.7"), {claim: answer}))


def test_an_example_is_one_that_the_answer_gets_wrong():
    """Without a mask the first case is right."""
    said = compute.result(
        exercise("03.5"), lambda t, k, heads, kv, causal: (4 * t * t * k * heads, 4 * t * k * (heads + kv))
    )
    assert "attention_cost(2048, 128, 8, 8, True) should give 8,589,934,592 FLOPs" in said.next


@pytest.mark.parametrize("answer", ["33.5 MB", "33,554,432 B", "32 MiB"])
def test_the_bytes_of_claim_e_may_be_rounded(answer):
    _, number = exercise("03.7").asks.parts["E"]
    assert predict.result(asking(number), answer).passed


def test_blocks_for_some_sizes_only_are_refused():
    with pytest.raises(unfit.Unfit, match=r"choose_blocks\(8192, 8192, 8192\) returned None; it has to return three"):
        blocks.with_blocks(lambda m, k, n: (m, k, n) if m < 8192 else None)


@pytest.mark.parametrize("sizes, times", [((256, 256, 256), 3.4), ((512, 1024, 128), 2.7)])
def test_blocks_that_are_too_small_for_a_large_product_are_refused(sizes, times):
    said, advice = blocks.serve_a_large_product(lambda m, k, n: sizes)
    assert f"{times} times the arithmetic" in said and "larger blocks" in advice
