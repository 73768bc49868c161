"""The cost bars: which rows are shown, in which order, how long, and their still. In a browser: tests/browser."""

import pytest
from shapes import words_on_words
from viz_samples import HOSTILE, boxes, overflowing, words

from course_lib import compiler, viz
from course_lib.compiler import OpPrice, OpPrices
from course_lib.viz.common import draw

PRICES = OpPrices(
    versions="jax 0.11.2, libtpu 0.0.48.1",
    columns=("f32, v5e", "int32, v5e"),
    rows={
        "sin(x)": OpPrice(says="expensive", cycles={"f32, v5e": 37.0}, slots={"VPU": 148}),
        "x + y": OpPrice(says="cheap", cycles={"f32, v5e": 1.0, "int32, v5e": 1.0}, slots={"VPU": 1}),
        "x // y": OpPrice(says="medium", cycles={"f32, v5e": 14.2, "int32, v5e": 86.3}, slots={"VPU": 57, "EUP": 2}),
        "erfc(x)": OpPrice(says="", cycles={"f32, v5e": None}, slots={}),
        HOSTILE: OpPrice(says="", cycles={"f32, v5e": 0.1}, slots={}),
    },
)


def names(bars) -> list[str]:
    return [row["name"] for row in bars.shown]


def test_rows_are_in_the_order_of_their_prices():
    assert names(viz.cost_bars(PRICES)) == ["x + y", "x // y", "sin(x)"]
    assert names(viz.cost_bars(PRICES, "int32, v5e")) == ["x + y", "x // y"]
    assert names(viz.cost_bars(PRICES, all_rows=True)) == [HOSTILE, "x + y", "x // y", "sin(x)", "erfc(x)"]
    assert viz.cost_bars(PRICES).rows[2]["slots"] == "57 VPU, 2 EUP"


def test_bars_are_as_long_as_the_logarithm_of_a_price():
    svg = viz.cost_bars(PRICES)._repr_mimebundle_()[0]["image/svg+xml"]
    (cheap,), (medium,), (dear,) = (boxes(svg, colour) for colour in (draw.GREEN, draw.ORANGE, draw.RED))
    assert cheap[2] < medium[2] < dear[2]
    assert (dear[2] - cheap[2]) / (medium[2] - cheap[2]) == pytest.approx(1.361, abs=0.01)  # log 37 / log 14.2


def test_what_it_says():
    said = viz.cost_bars(PRICES, all_rows=True)._repr_mimebundle_()[0]["text/plain"]
    assert "sin(x): 37\nerfc(x): refused\nCycles for 1,024 elements, predicted (compiler), jax 0.11.2" in said


@pytest.mark.parametrize("bars", [viz.cost_bars(PRICES, all_rows=True), viz.cost_bars(compiler.op_prices())])
def test_the_still(bars):
    svg = bars._repr_mimebundle_()[0]["image/svg+xml"]
    assert overflowing(svg) == [] == words_on_words(svg)
    assert "<script" not in svg and "x + y" in " ".join(words(svg))


def test_an_unknown_column_is_refused():
    with pytest.raises(ValueError, match="column='f64' is not a column of the prices. Choose f32, v5e; int32, v5e"):
        viz.cost_bars(PRICES, "f64")
