"""The widgets on attention: what they compute beside NumPy, what they say and draw, what they refuse.

In a browser: tests/browser/test_softmax_stepper.py and tests/browser/test_every_widget.py.
"""

import itertools
import math
import random
import re

import numpy as np
import pytest
from viz_samples import BLOCKS, SCORES, boxes, is_legible, parsed, words

from course_lib import chips, viz
from course_lib.viz.choices.attention_costs import LENGTHS, Layer, fused, turn, unfused
from course_lib.viz.choices.block_kinds import Scores, counted, kinds
from course_lib.viz.common import draw
from course_lib.viz.softmax_stepper.softmax_steps import ended, figure, plain, result, said, score_words, steps

INF = math.inf


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
    ((3.0,), "scores=3.0 is not a row of numbers; each must be a number from -100 to 100, or -inf for a masked key"),
    (("1234",), "scores='1234' is not a row"),
    (([1, 2, 3, math.nan],), r"scores\[3\] is nan, but must be a number from -100 to 100, or -inf for a masked key"),
    (([1, 2, INF, 3],), r"scores\[2\] is inf"),
    (([1, 101, 2, 3],), r"scores\[1\] is 101"),
    (([1, "2", 2, 3],), r"scores\[1\] is '2'"),
    (([[1, 2], 3, 4, 5],), r"scores\[0\] is \[1, 2\]"),
    (([1, 2, 3, 4], [1, 2, 3]), "values has 3 numbers, but must have one for each of the 4 scores"),
    (([1, 2, 3, 4], [1, 2, 3, -INF]), r"values\[3\] is -inf, but must be a number from -1000 to 1000\."),
    (([1, 2, 3, 4], None, 0), "block=0 is not a number of keys for a step: it must be an integer from 1 to 4"),
    (([1, 2, 3, 4], None, 5), "block=5 is not a number"),
    (([1, 2, 3, 4], None, 2.0), "block=2.0 is not a number"),
]


@pytest.mark.parametrize("given, says", NO_ROW, ids=range(len(NO_ROW)))
def test_what_is_no_row_of_scores_is_refused(given, says):
    with pytest.raises(ValueError, match=f"softmax_stepper: {says}"):
        viz.softmax_stepper(*given)


# Blocks of scores

MAPS = {
    "square": (1024, 1024, 128, 128, 300, (200, 500, 324)),
    "flat blocks": (512, 512, 64, 256, 1, (1, 511)),
    "ragged": (300, 300, 64, 128, 70, (64, 64, 172)),
    "one block": (7, 7, 16, 16, 3, (7,)),
    "largest": (4096, 4096, 256, 256, 10_000, (256,) * 16),
    "one query": (1, 500, 1, 128, None, ()),
}


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("mask", ["none", "causal", "window"])
@pytest.mark.parametrize("apart", [False, True])
def test_blocks_are_counted_as_numpy_counts_them(name, mask, apart):
    scores = Scores(*MAPS[name])
    if scores.queries != scores.keys and (apart or mask != "none"):
        return
    q, k = np.arange(scores.queries)[:, None], np.arange(scores.keys)
    counts = np.ones((scores.queries, scores.keys), bool)
    if mask != "none":
        counts &= k <= q
    if mask == "window":
        counts &= k > q - scores.window
    if apart:
        document = np.repeat(np.arange(len(scores.segments)), scores.segments)
        counts &= document[:, None] == document
    found = counted(scores, mask, apart)
    for i, j in np.ndindex(found.shape):
        block = counts[i * scores.bq : (i + 1) * scores.bq, j * scores.bk : (j + 1) * scores.bk]
        assert found[i, j] == block.sum()
        whole = block.all() and block.shape[1] == scores.bk
        assert kinds(scores, mask, apart)[i][j] == ("full" if whole else "partial" if block.any() else "skipped")


def test_the_caption_counts_blocks_and_says_what_is_left():
    widget = viz.block_map(**BLOCKS)
    assert widget.groups == [
        {"name": "mask", "options": ["none", "causal", "window"]},
        {"name": "segments", "options": ["off", "on"]},
    ]
    assert widget.at == [2, 1], "everything that the arguments allow"
    assert widget.captions[2] == (
        "Each query sees its own key and all keys before it. Of 64 blocks, 28 are full (no mask), 8 are partial "
        "(masked), and 28 are skipped (no matmul, no copy). So 56 % of the matmuls are left, and 50 % of the scores "
        "count."
    )
    assert widget.captions[0].startswith(
        "Each query sees every key. Of 64 blocks, 64 are full (no mask), 0 are partial"
    )
    starts = [widget.captions[n].split(".")[0] for n in (1, 4, 5)]
    assert starts == [
        "Each query sees every key within its own document, one of 3",
        "Each query sees its own key and the 299 keys before it",
        "Each query sees its own key and the 299 keys before it within its own document, one of 3",
    ]
    alone = viz.block_map(8, 8, 2, 2, window=1)
    assert alone.groups == [{"name": "mask", "options": ["none", "window"]}]
    assert alone.captions[1].startswith("Each query sees only its own key. Of 16 blocks, 0 are full (no mask), 4 are")


def test_where_nothing_is_to_be_chosen_the_map_is_a_picture():
    picture = viz.block_map(1000, 300, 300, 128)
    assert isinstance(picture, viz.Picture) and is_legible(picture.svg)
    assert picture.text.endswith(
        "Of 12 blocks, 8 are full (no mask), 4 are partial (masked), and 0 are skipped (no matmul, no copy). So 100 % "
        "of the matmuls are left, and 100 % of the scores count. The last block of keys reaches past the array, so it "
        "always needs a mask."
    )
    seen = words(picture.svg)
    assert [seen.count(letter) for letter in "FPS"] == [8 + 1, 4 + 1, 1], "one of each in the legend"
    assert {"8 full", "4 partial", "0 skipped", "100 % left"} <= set(seen)


def test_blocks_differ_by_more_than_color():
    widget = viz.block_map(**BLOCKS)
    for svg, caption in zip(widget.drawings, widget.captions, strict=True):
        full, partial, skipped = (int(part.split()[0]) for part in re.findall(r"\d+ are", caption))
        seen = words(svg)
        assert [seen.count(letter) for letter in "FPS"] == [full + 1, partial + 1, skipped + 1]
        hatches = [path for path in parsed(svg).iter("{http://www.w3.org/2000/svg}path")]
        assert len(hatches) == partial + 1


@pytest.mark.parametrize("name", [name for name, given in MAPS.items() if given[-1]])
def test_every_map_is_legible(name):
    queries, keys, bq, bk, window, segments = MAPS[name]
    widget = viz.block_map(queries, keys, bq, bk, causal=True, window=window, segments=segments)
    for svg in (*widget.drawings, widget._repr_mimebundle_()[0]["image/svg+xml"]):
        assert is_legible(svg) and len(svg) < 70_000
    assert len(widget.drawings) == len(list(itertools.product(*(group["options"] for group in widget.groups))))


NO_MAP = [
    ((0, 8, 1, 1), {}, "queries=0 is not a size: it must be an integer above 0"),
    ((8, 8.0, 1, 1), {}, "keys=8.0 is not a size"),
    ((8, 8, 1, True), {}, "bk=True is not a size"),
    ((8, 8, 1, 1), {"window": 0}, "window=0 is not a size"),
    ((1700, 8, 100, 1), {}, "bq=100 cuts 1,700 queries into 17 blocks, but there is room for 16; take a larger bq"),
    ((8, 17, 1, 1), {}, "bk=1 cuts 17 keys into 17 blocks"),
    ((8, 16, 1, 1), {"causal": True}, "queries=8 and keys=16 differ, but must be equal for causal, window and segm"),
    ((8, 16, 1, 1), {"window": 3}, "queries=8 and keys=16 differ"),
    (
        (8, 8, 1, 1),
        {"segments": [3, 4]},
        r"segments=\[3, 4\] is not a tuple of documents: it must hold lengths above 0 that sum to",
    ),
    ((8, 8, 1, 1), {"segments": [8, 0]}, r"segments=\[8, 0\] is not a tuple of documents"),
    ((8, 8, 1, 1), {"segments": []}, r"segments=\[\] is not a tuple of documents"),
    ((8, 8, 1, 1), {"segments": 8}, "segments=8 is not a tuple of documents"),
]


@pytest.mark.parametrize("sizes, masks, says", NO_MAP, ids=range(len(NO_MAP)))
def test_what_is_no_map_is_refused(sizes, masks, says):
    with pytest.raises(ValueError, match=f"block_map: {says}"):
        viz.block_map(*sizes, **masks)


# Attention under the roofs

V5E = chips.chip("v5e")


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("size", [64, 128, 256])
@pytest.mark.parametrize("causal", [False, True])
def test_costs_are_those_of_the_arrays(length, size, causal):
    layer = Layer(V5E, 8, 2, size, causal)
    whole, apart = fused(layer, length), unfused(layer, length)
    operand, scores = np.empty((8, length, size), np.float16).nbytes, 8 * length * length
    products = 2 * (2 * scores * size)  # of q with k, and of the weights with v
    assert (apart.flops, whole.flops) == (products, products / 2 if causal else products)
    assert whole.hbm_bytes == 4 * operand
    assert apart.hbm_bytes == 4 * operand + 4 * scores * np.dtype(np.float32).itemsize
    for cost in (whole, apart):
        assert cost.seconds == max(cost.flops / V5E.bf16_flops, cost.hbm_bytes / V5E.hbm_bandwidth)
    assert apart.bound == "HBM"
    near = abs(whole.compute_s / whole.hbm_s - 1) < 0.05
    assert near or whole.bound == ("HBM" if length < turn(layer) else "compute")


@pytest.mark.parametrize("chip", chips.NAMES)
def test_the_fused_kernel_turns_where_both_take_as_long(chip):
    for itemsize, causal in itertools.product((1, 2, 4), (False, True)):
        layer = Layer(chips.chip(chip), 8, itemsize, 128, causal)
        at = fused(layer, turn(layer))
        assert at.compute_s == pytest.approx(at.hbm_s)


def test_the_caption_says_times_bytes_and_what_is_assumed():
    widget = viz.attention_roof()
    assert widget.at == [1, 0]
    assert widget._repr_mimebundle_()[0]["text/plain"] == widget.captions[2]
    assert widget.captions[2] == (
        "At T = 4,096, the fused kernel takes 349 us and moves 65 times fewer bytes than the unfused one, which takes "
        "2.66 ms; at T = 32,768, it moves 513 times fewer. The fused kernel is bound by HBM up to T = 480 and bound by "
        "compute beyond. It reads q, k and v and writes o, in 2 bytes an element. The unfused one also writes and "
        "reads the T x T scores of each head, and then the softmax weights, both in float32. Times are predicted "
        "(model) for one v5e core, 8 heads and one sequence: the longer of compute and HBM."
    )
    assert "up to T = 961" in widget.captions[3] and "The fused kernel skips half of the scores" in widget.captions[3]
    assert "is bound by compute at every T shown" in viz.attention_roof(itemsize=1).captions[0], "T = 240"


def test_the_plot_marks_the_turn_and_lists_some_lengths():
    widget = viz.attention_roof()
    seen = words(widget.drawings[2])
    assert "T = 480: HBM = compute" in seen and "T = 961: HBM = compute" in words(widget.drawings[3])
    assert not any("HBM = compute" in each for each in words(viz.attention_roof(itemsize=1).drawings[0]))
    start = seen.index("2,048", seen.index("fewer bytes"))
    assert seen[start : start + 6] == ["2,048", "87.2 us", "compute", "675 us", "HBM", "33 times"]
    assert any("predicted (model)" in each and "4 x T x T x 128 FLOPs a head" in each for each in seen)
    assert any("2 x T x T x 256 FLOPs a head" in each for each in words(widget.drawings[5]))


@pytest.mark.parametrize("chip", chips.NAMES)
@pytest.mark.parametrize("heads, itemsize", [(1, 1), (8, 2), (1024, 4)])
def test_every_plot_of_attention_is_legible(chip, heads, itemsize):
    widget = viz.attention_roof(chip=chip, heads=heads, itemsize=itemsize)
    for svg in (*widget.drawings, widget._repr_mimebundle_()[0]["image/svg+xml"]):
        assert is_legible(svg) and len(svg) < 20_000
        assert not any("…" in each for each in words(svg))


NO_LAYER = [
    ({"chip": "v9"}, "chip='v9' is not known. Choose one of: v4, v5e"),
    ({"heads": 0}, "attention_roof: heads=0 is not a number of heads; it may be 1 to 1,024"),
    ({"heads": 2.0}, "attention_roof: heads=2.0 is not a number"),
    ({"itemsize": 3}, "attention_roof: itemsize=3 is not the size of an element; it may be 1, 2 or 4 bytes"),
    ({"itemsize": True}, "attention_roof: itemsize=True is not the size"),
]


@pytest.mark.parametrize("given, says", NO_LAYER, ids=range(len(NO_LAYER)))
def test_what_is_no_layer_is_refused(given, says):
    with pytest.raises(ValueError, match=says):
        viz.attention_roof(**given)
