"""The widgets on attention: what they compute beside NumPy, what they say and draw, what they refuse.

In a browser: tests/browser/test_softmax_stepper.py and tests/browser/test_every_widget.py.
"""

import math
import random

import numpy as np
import pytest
from shapes import words_on_words
from viz_samples import SCORES, boxes, overflowing, parsed, words

from course_lib import viz
from course_lib.viz.common import draw
from course_lib.viz.softmax_stepper.softmax_steps import ended, figure, plain, result, said, score_words, steps

INF = math.inf


def is_legible(svg: str) -> bool:
    """Whether a picture is whole, and its words stay in it and apart."""
    return parsed(svg) is not None and overflowing(svg) == [] == words_on_words(svg)


# Online softmax


def rows() -> list[tuple[list[float], list[float], int]]:
    """Rows of many lengths, scales and block sizes, a fifth of their scores masked."""
    random.seed(0)
    found = []
    for number in range(60):
        length, scale = random.randint(4, 24), (1, 5, 100)[number % 3]
        scores = [-INF if random.random() < 0.2 else random.uniform(-scale, scale) for _ in range(length)]
        found.append((scores, [random.uniform(-9, 9) for _ in range(length)], random.randint(1, length)))
    return [*found, ([-INF] * 5, [1, 2, 3, 4, 5], 2), ([-INF] * 4 + [2.0], [1, 2, 3, 4, 5], 2)]


@pytest.mark.parametrize("scores, values, block", rows())
def test_the_steps_end_where_plain_softmax_does(scores, values, block):
    found = steps(scores, values, block)
    assert len(found) == -(-len(scores) // block) and found[-1].end == len(scores)
    for step in found:
        seen, m = np.array(scores[: step.end]), max(scores[: step.end])
        weights = np.exp(seen - m) if m > -INF else np.zeros(step.end)
        assert step.m == m
        assert step.total == pytest.approx(weights.sum())
        assert step.acc == pytest.approx(weights @ values[: step.end], abs=1e-12)
    assert result(found[-1]) == pytest.approx(plain(scores, values), abs=1e-12)


def test_a_masked_row_gives_0_and_no_step_is_nan():
    found = steps([-INF] * 5, [1, 2, 3, 4, 5], 2)
    assert [(step.m, step.shrink, step.total, step.acc) for step in found] == [(-INF, 0, 0, 0)] * 3
    assert result(found[-1]) == plain([-INF] * 5, [1] * 5) == 0
    assert ended([-INF] * 5, [1] * 5, 2) == (
        "Every score of the row is masked, so l is 0, and the result is 0 by convention."
    )
    assert said(found, 3) == (
        "Block 2 has key 4. Every score so far is masked, so m stays -inf. The kernel subtracts 0 instead of m, and l "
        "and acc stay 0."
    )


def test_the_caption_says_what_happened():
    found = steps(SCORES, range(1, 13), 4)
    assert [said(found, number) for number in range(4)] == [
        "Before the first block, m is -inf, and l and acc are 0.",
        "Block 0 has keys 0 to 3. The maximum becomes 2.0, and there is nothing to rescale yet.",
        "Block 1 has keys 4 to 7. The maximum grows from 2.0 to 5.0, so what was summed so far is multiplied by "
        "exp(2.0 - 5.0) = 0.050.",
        "Block 2 has keys 8 to 11. The maximum stays, so nothing is rescaled.",
    ]
    below, far = steps([-3, -1, -2, -2], [1] * 4, 1), steps([-9, 0.25, 0, 0], [1] * 4, 1)
    assert said(below, 2).endswith(
        "from -3.0 to -1.0, so what was summed so far is multiplied by exp(-3.0 - (-1.0)) = 0.135."
    )
    assert said(far, 2).endswith("exp(-9.0 - 0.25) < 0.001.")
    assert ended(SCORES, range(1, 13), 4) == (
        "o = acc / l = 11.159 / 1.682 = 6.633. Plain softmax over the whole row gives 6.633."
    )


def test_figures_have_no_minus_zero_and_hide_no_small_value():
    assert [figure(value) for value in (0, -0.0, 0.0004, -0.0004, 0.0005, 1, -2.5)] == [
        "0.000", "0.000", "<0.001", ">-0.001", "0.001", "1.000", "-2.500",
    ]  # fmt: skip
    assert [score_words(value) for value in (2, -0.0, 0.25, -1.5, -INF)] == ["2.0", "0.0", "0.25", "-1.5", "-inf"]


def test_the_still_shows_the_table_after_all_steps():
    widget = viz.softmax_stepper(SCORES)
    assert (widget.values, widget.step, widget.low, widget.high) == (list(range(1, 13)), 0, -2, 7)
    bundle = widget._repr_mimebundle_()[0]
    seen, said = words(bundle["image/svg+xml"]), bundle["text/plain"]
    for line in (["0: keys 0 to 3", "-inf", "2.0", "0.000", "1.641", "2.604"], ["2: keys 8 to 11", "5.0", "5.0"]):
        start = seen.index(line[0])
        assert seen[start : start + len(line)] == line
    assert "1: keys 4 to 7        2.0      5.0   0.050  1.168   5.766" in said
    assert said.endswith("6.633. Plain softmax over the whole row gives 6.633.")
    widget.scores = [None, *widget.scores[1:]]
    assert words(widget._repr_mimebundle_()[0]["image/svg+xml"])[1] == "-inf", "what the browser has changed"


ROWS = {
    "lesson": viz.softmax_stepper(SCORES),
    "masked": viz.softmax_stepper([-INF] * 4),
    "long": viz.softmax_stepper([-1.25, 2] * 11 + [-INF, -100], [-999.99] * 24, 1),
    "one block": viz.softmax_stepper(np.linspace(-3, 3, 24), block=24),
}


@pytest.mark.parametrize("name", ROWS)
def test_every_still_of_a_row_is_legible(name):
    svg, _ = ROWS[name]._still()
    assert is_legible(svg) and len(svg) < 30_000
    assert len(boxes(svg, draw.BLUE)) == sum(score is not None for score in ROWS[name].scores)


NO_ROW = [
    (([1, 2, 3],), "scores has 3 numbers, but must have 4 to 24"),
    ((range(25),), "scores has 25 numbers"),
    ((3.0,), "scores=3.0 is no row of numbers; each must be a number from -100 to 100, or -inf for a masked key"),
    (("1234",), "scores='1234' is no row"),
    (([1, 2, 3, math.nan],), r"scores\[3\] is nan, but must be a number from -100 to 100, or -inf for a masked key"),
    (([1, 2, INF, 3],), r"scores\[2\] is inf"),
    (([1, 101, 2, 3],), r"scores\[1\] is 101"),
    (([1, "2", 2, 3],), r"scores\[1\] is '2'"),
    (([[1, 2], 3, 4, 5],), r"scores\[0\] is \[1, 2\]"),
    (([1, 2, 3, 4], [1, 2, 3]), "values has 3 numbers, but must have one for each of the 4 scores"),
    (([1, 2, 3, 4], [1, 2, 3, -INF]), r"values\[3\] is -inf, but must be a number from -1000 to 1000\."),
    (([1, 2, 3, 4], None, 0), "block=0 is no number of keys for a step, but must be an integer from 1 to 4"),
    (([1, 2, 3, 4], None, 5), "block=5 is no number"),
    (([1, 2, 3, 4], None, 2.0), "block=2.0 is no number"),
]


@pytest.mark.parametrize("given, says", NO_ROW, ids=range(len(NO_ROW)))
def test_what_is_no_row_of_scores_is_refused(given, says):
    with pytest.raises(ValueError, match=f"softmax_stepper: {says}"):
        viz.softmax_stepper(*given)
