"""Figures in words, text that fits, names that do not collide: what all pictures are made of."""

import base64
import math
import re
import xml.etree.ElementTree as ElementTree

import pytest
from viz_samples import HOSTILE, overflowing

from course_lib import text
from course_lib.viz import Picture
from course_lib.viz.common import draw
from course_lib.viz.roof_plot import axes, names


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (text.size(0), "0 bytes"),
        (text.size(1), "1 byte"),
        (text.size(1023), "1023 bytes"),
        (text.size(1536), "1.5 KiB"),
        (text.size(4_550_656), "4.34 MiB"),
        (text.size((1 << 20) - 1), "1 MiB"),
        (text.size(16 << 20), "16 MiB"),
        (text.size(None), "not known"),
        (text.duration(15.6e-6), "15.6 us"),
        (text.duration(999.6e-6), "1 ms"),
        (text.duration(0.5e-9), "0.5 ns"),
        (text.duration(12), "12 s"),
        (text.flop_rate(197e12), "197 TFLOP/s"),
        (text.byte_rate(819e9), "819 GB/s"),
        (text.byte_rate(None), "not known"),
        (text.intensity(240.5), "240 FLOPs/byte"),
        (text.percent(0), "0 %"),
        (text.percent(0.001), "<1 %"),
        (text.percent(0.567), "57 %"),
        (text.count(2340), "2,340"),
        (text.counted(0, "spill"), "no spills"),
        (text.counted(1, "spill"), "1 spill"),
        (text.counted(1234, "spill"), "1,234 spills"),
        (text.significant(0.00123, 2), "0.0012"),
        (text.significant(123456, 2), "123,456"),
    ],
)
def test_figures_have_exact_units(words, says):
    assert words == says


@pytest.mark.parametrize(
    ("value", "other", "says"),
    [
        (19, 10, "1.9 times more"),
        (10, 19, "1.9 times fewer"),
        (104, 100, "4 % more"),
        (96, 100, "4 % fewer"),
        (1000, 1001, "the same"),
        (0, 0, "the same"),
        (0, 7, "none"),
        (7, 0, "against none"),
        (None, 7, "not known"),
    ],
)
def test_two_figures_are_compared_in_words(value, other, says):
    assert text.compared(value, other) == says


def test_hostile_text_is_safe_in_xml():
    element = ElementTree.fromstring(f'<a b="{draw.escape(HOSTILE)}">{draw.escape(HOSTILE)}</a>')
    assert element.text == element.get("b") == HOSTILE.replace("\x00", "?").replace("\ud800", "?")


@pytest.mark.parametrize("text", ["short", "a much longer line than there is room for", "W" * 50, ""])
def test_shortened_text_fits_its_room(text):
    shown = draw.shortened(text, 120)
    assert draw.width_of(shown) <= 120
    assert shown == text or (shown.endswith("…") and text.startswith(shown[:-1]))


def test_a_paragraph_keeps_every_word_and_stays_in_its_room():
    text = "one two three four five six seven eight nine ten " * 4
    lines = draw.wrapped(text, 150)
    assert " ".join(lines).split() == text.split()
    assert max(map(draw.width_of, lines)) <= 150


def test_text_that_is_cut_is_whole_in_its_tooltip():
    element = ElementTree.fromstring(draw.label(0, 0, "x" * 100, 50))
    assert element.find("title").text == "x" * 100
    assert "title" not in draw.label(0, 0, "x", 50)


def test_neighbours_fill_the_whole():
    places = draw.columns(684, [1, 2, 4])
    assert math.isclose(sum(width for _, width in places), 684)
    assert [left for left, _ in places] == pytest.approx([0, 684 / 7, 684 * 3 / 7])


@pytest.mark.parametrize("lean", [1, -1])
def test_a_hatch_stays_in_its_box(lean):
    path = ElementTree.fromstring(draw.hatch(10, 20, 50, 30, lean=lean)).get("d")
    points = [tuple(map(float, point.split())) for point in re.findall(r"[ML]([\d.]+ [\d.]+)", path)]
    assert len(points) >= 16
    assert all(10 <= x <= 60 and 20 <= y <= 50 for x, y in points)


def test_a_picture_has_three_forms_that_agree():
    svg = draw.card(draw.paragraph(HOSTILE), HOSTILE, HOSTILE)
    bundle = Picture(svg=svg, text="words")._repr_mimebundle_(include=None, exclude=None)
    assert set(bundle) == {"text/html", "image/svg+xml", "text/plain"}
    image = ElementTree.fromstring(bundle["text/html"]).find("img")
    assert base64.b64decode(image.get("src").partition("base64,")[2]).decode() == bundle["image/svg+xml"] == svg
    assert image.get("alt") == bundle["text/plain"] == str(Picture(svg=svg, text="words")) == "words"
    assert not overflowing(svg)


def test_a_table_has_straight_columns_and_folds_its_last_cell():
    lines = text.table([["a", "1", "word " * 30], ["long", "23", "y"]], right={1})
    assert lines[0].startswith("a      1  word") and lines[1].startswith("          word") and lines[2] == "long  23  y"
    assert max(map(len, lines)) <= text.COLUMNS


def test_a_row_that_ends_early_has_the_rest_of_its_line():
    lines = text.table([["", "time", "spills"], ["mine", "1 us", "0"], ["other", "why not " * 20]], right={1, 2})
    assert lines[:2] == ["       time  spills", "mine   1 us       0"]
    assert lines[2].startswith("other  why not why not") and lines[3].startswith("       why not")
    assert max(map(len, lines)) <= text.COLUMNS


def test_one_column_of_a_table_gives_way():
    lines = text.table([["1", "long " * 40, "12"], ["2", "short", "3"]], right={2}, indent="  ", gives_way=1)
    assert [len(line) for line in lines] == [94, 94] and "…" in lines[0] and lines[1].endswith("   3")
    assert text.table([["1", "short", "3"]], gives_way=1) == ["1  short  3"]
    assert text.table([]) == text.table([], gives_way=0) == []
    beyond = text.table([["x" * 200, "a word and another"]])
    assert "".join(beyond).endswith("a word and another"), "what stands before leaves no room, and nothing is lost"


def test_names_avoid_each_other_the_line_and_the_edge():
    field = names.Box(0, 0, 400, 300)
    marks = [(200, 100), (205, 102), (396, 150), (3, 296)]
    placed = names.placed(marks, ["first", "second", "at the edge", "corner"], field, [(0, 104), (400, 104)])
    boxes = [name.box for name in placed]
    assert all(field.holds(box) for box in boxes)
    assert not any(a.meets(b) for n, a in enumerate(boxes) for b in boxes[:n])
    assert not any(box.top < 104 < box.bottom for box in boxes)


def test_boxes_that_only_touch_do_not_meet():
    assert names.Box(0, 0, 2, 2).meets(names.Box(1, 1, 3, 3))
    assert not names.Box(0, 0, 2, 2).meets(names.Box(2, 0, 3, 3))


def test_axes_hold_their_values():
    plot = axes.Axes(x=axes.decades([3, 700]), y=axes.decades([1e9]))
    assert plot.x == (0, 3) and plot.y == (9, 10)
    assert plot.left(1) == axes.LEFT and plot.left(1000) == axes.RIGHT
    assert plot.top(1e9) == axes.BOTTOM and plot.top(1e10) == 0
