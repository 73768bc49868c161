"""The precision explorer: what it takes, what it says at a K, and its still. In a browser: tests/browser."""

import re

import numpy as np
import pytest
from shapes import words_on_words
from viz_samples import HOSTILE, boxes, overflowing, parsed, words

from course_lib import viz
from course_lib.viz.common import draw
from course_lib.viz.precision_explorer import precision_data, precision_plot

ERRORS = {
    "bf16 operands": {128: 2.3e-3, 512: 2.4e-3, 2048: 2.5e-3},
    "f32, one pass": {128: 2.1e-3, 512: 2.2e-3, 2048: 2.3e-3},
    "f32, three passes": {128: 1.1e-5, 512: 1.3e-5, 2048: 1.9e-5},
    "f32, six passes": {128: 1.3e-7, 2048: 5.0e-7},
}
CYCLES = {"bf16 operands": 20_000, "f32, one pass": 23_000, "f32, six passes": 120_000}
LONG = "a name that is longer than there is any room for in a picture " + HOSTILE
SAMPLES = {
    "all": (ERRORS, CYCLES),
    "no cycles": (ERRORS, None),
    "one point": ({"a": {64: 1e-3}}, None),
    "exact decade": ({"a": {64: 1e-3, 128: 1e-3}}, {"a": 1}),
    "many": ({f"{n} {LONG}": {2**k: 10.0 ** (n - k) for k in range(20)} for n in range(6)}, {f"0 {LONG}": 10**9}),
    "numpy": ({"a": {np.int64(64): np.float32(1e-3)}}, {"a": np.int64(7)}),
}


def bundle(name: str, **traits) -> dict:
    widget = viz.precision_explorer(*SAMPLES[name])
    for trait, value in traits.items():
        setattr(widget, trait, value)
    return widget._repr_mimebundle_()[0]


def test_what_it_says_at_a_size():
    assert bundle("all", cursor=1)["text/plain"] == (
        "K = 512. bf16 operands: 2.4e-3, about 2.6 digits correct, 20,000 cycles; f32, one pass: 2.2e-3, about 2.7 "
        "digits correct, 23,000 cycles; f32, three passes: 1.3e-5, about 4.9 digits correct; f32, six passes: no "
        "figure, 120,000 cycles. Cycles of one matmul, predicted (compiler)."
    )
    assert (
        bundle("no cycles")["text/plain"].startswith("K = 2,048.") and "cycles" not in bundle("no cycles")["text/plain"]
    )


WORDS = [
    (1e-3, "1.0e-3", "3.0 digits"),
    (0.5, "5.0e-1", "0.3 digits"),
    (1.0, "1.0e0", "no digit"),
    (7.0, "7.0e0", "no digit"),
    (9.99e-8, "1.0e-7", "7.0 digits"),
    (None, "no figure", ""),
]


@pytest.mark.parametrize("error, shown, digits", WORDS)
def test_an_error_in_words(error, shown, digits):
    assert (precision_data.error_words(error), precision_data.digits_words(error)) == (shown, digits)


def test_lower_is_better_and_further_right_is_longer():
    curves = precision_data.checked(*SAMPLES["all"])
    place = precision_plot._Place(curves, draw.INNER)
    assert place.y(1e-7) > place.y(1e-5) > place.y(1e-3)
    assert place.y(1e-5) - place.y(1e-4) == pytest.approx(place.y(1e-4) - place.y(1e-3))
    assert place.x(2048) - place.x(512) == pytest.approx(place.x(512) - place.x(128)), "a log axis"


def test_the_bars_are_in_proportion_to_the_cycles():
    bars = boxes(bundle("all")["image/svg+xml"], draw.GREY)
    assert [bar[2] / bars[-1][2] for bar in bars] == pytest.approx([20 / 120, 23 / 120, 1], abs=0.01)
    rows = viz.precision_explorer(ERRORS, CYCLES).curves
    assert [row["share"] for row in rows] == pytest.approx([20 / 120, 23 / 120, 0, 1])
    assert boxes(bundle("no cycles")["image/svg+xml"], draw.GREY) == []


@pytest.mark.parametrize("name", SAMPLES)
def test_the_still(name):
    svg = bundle(name)["image/svg+xml"]
    assert overflowing(svg) == [] == words_on_words(svg)
    assert "data-at" not in svg and "data-cursor" not in svg and "<script" not in svg
    assert len(svg) < 20_000 or name == "many"
    for drawing in viz.precision_explorer(*SAMPLES[name]).drawings:
        assert words_on_words(drawing["svg"]) == [] and parsed(drawing["svg"]) is not None
        inside = [0 < x < drawing["width"] for x in drawing["x"]]
        assert all(inside) and drawing["x"] == sorted(drawing["x"])


def test_the_still_has_its_cursor_where_it_is_set():
    for cursor, k in ((0, "128"), (2, "2,048")):
        svg = bundle("all", cursor=cursor)["image/svg+xml"]
        assert f"at K = {k}" in words(svg)
        assert len(re.findall(r'r="9"', svg)) == 4, "a ring on each curve"
    assert len(re.findall(r'r="9"', bundle("all", cursor=1)["image/svg+xml"])) == 3, "one has no figure there"


WRONG = [
    ((None,), "errors=None is not a dict of curves"),
    (({},), "errors={} is not a dict of curves"),
    (({"a": {}},), r"errors\['a'\]={} is not a curve"),
    (({"a": [1e-3]},), r"errors\['a'\]=\[0.001\] is not a curve"),
    (({"a": {128: 0.0}},), r"errors\['a'\]\[128\]=0.0 cannot be shown on a log axis"),
    (({"a": {128: float("nan")}},), "cannot be shown on a log axis"),
    (({"a": {128: "small"}},), "='small' cannot be shown"),
    (({"a": {0: 1e-3}},), r"K=0 in errors\['a'\] is not a size"),
    (({"a": {1.5: 1e-3}},), "K=1.5 in"),
    (({str(n): {1: 1} for n in range(7)},), "7 curves, but there is room for 6"),
    ((ERRORS, [1]), r"cycles=\[1\] is neither a dict"),
    ((ERRORS, {"f16": 3}), r"cycles\['f16'\] belongs to no curve. errors has: 'bf16 operands', "),
    ((ERRORS, {"f32, one pass": 0}), r"cycles\['f32, one pass'\]=0 is not a number of cycles"),
    ((ERRORS, {"f32, one pass": None}), "=None is not a number of cycles"),
]


@pytest.mark.parametrize("given, says", WRONG, ids=range(len(WRONG)))
def test_what_is_no_figure_is_refused(given, says):
    with pytest.raises(ValueError, match=f"precision_explorer: .*{says}"):
        viz.precision_explorer(*given)
