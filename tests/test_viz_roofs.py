"""Three roofs: points lie where their numbers say, and predicted and measured look different."""

import dataclasses
import itertools
import math

import pytest
from viz_samples import HOSTILE, SVG, overflowing, parsed, words

from course_lib import chips, roofline
from course_lib.viz.common import draw
from course_lib.viz.roof_plot import axes, names, roofs

CHIP = roofs.Roofs(chip="v5e", flop_rate=200e12, bandwidth=800e9)


def matmul(**changes) -> roofs.Point:
    return roofs.Point(**dict(name="matmul", flops=1e12, hbm_bytes=2e9, seconds=10e-3) | changes)


def marks(svg: str) -> list[tuple[str, str]]:
    """(kind, figures) of each mark that stands for a kernel, not of those in the key."""
    found = [(node.get("class"), node.find(f"{SVG}title").text) for node in parsed(svg).iter() if node.get("class")]
    return [(kind, title) for kind, title in found if title != kind]


def test_the_chips_roofs_are_the_registrys():
    chip = chips.chip("v5e")
    assert roofs.of_chip(chip="v5e") == roofs.Roofs(chip="v5e", flop_rate=chip.bf16_flops, bandwidth=chip.hbm_bandwidth)
    assert CHIP.ridge == 250
    assert (CHIP.at(25), CHIP.at(250), CHIP.at(2500)) == (20e12, 200e12, 200e12)
    assert roofs.of_chip(chip="v5e").ridge == pytest.approx(roofline.ridge_point(chip="v5e"))


def test_marks_lie_where_their_numbers_say():
    svg = roofs.svg([matmul()], CHIP)
    circle = next(node for node in parsed(svg).iter(f"{SVG}circle"))
    plot = roofs._axes([matmul()], CHIP)
    assert float(circle.get("cx")) == pytest.approx(plot.left(500), abs=0.1)
    assert float(circle.get("cy")) == pytest.approx(plot.top(100e12), abs=0.1)
    bend = next(node for node in parsed(svg).iter(f"{SVG}path") if node.get("stroke-width") == "2").get("d")
    assert f"L{draw.number(plot.left(250))} {draw.number(plot.top(200e12))}H{draw.number(axes.RIGHT)}" in bend


def test_predicted_is_filled_and_measured_is_hollow():
    svg = roofs.svg(
        [matmul(), matmul(name="XLA", seconds=6e-3), matmul(name="published", measured_by="the book, 2024")], CHIP
    )
    assert [kind for kind, _ in marks(svg)] == ["predicted first", "predicted", "measured"]
    hollow = [node.get("fill") for node in parsed(svg).iter() if node.get("class") == "measured"]
    filled = [node.get("fill") for node in parsed(svg).iter() if "predicted" in (node.get("class") or "")]
    assert set(hollow) == {"none"} and "none" not in filled
    assert "published, measured by the book, 2024: 500 FLOPs/byte, 100 TFLOP/s, 10 ms" in dict(marks(svg)).values()
    assert {"matmul, predicted (model)", "others, predicted (model)", "measured by the book, 2024"} <= set(words(svg))


def test_the_third_roof_is_the_cost_of_the_steps():
    slow = matmul(seconds=50e-3, steps_s=40e-3)
    assert {"grid steps: 25 TFLOP/s", "Three roofs of v5e"} <= set(words(roofs.svg([slow], CHIP)))
    assert "grid steps of matmul: 25 TFLOP/s" in words(roofs.svg([slow, matmul(name="XLA")], CHIP)), "whose roof it is"
    assert roofs.sentence([slow], CHIP) == (
        "matmul, predicted (model), reaches 20 TFLOP/s, 10 % of the compute roof above it. "
        "Its grid steps alone keep it below 25 TFLOP/s."
    )
    assert "grid steps" not in " ".join(words(roofs.svg([matmul()], CHIP)))
    assert "Two roofs of v5e" in words(roofs.svg([matmul()], CHIP)), "the heading counts what is drawn"
    assert "grid steps" not in roofs.sentence([matmul(steps_s=1e-6)], CHIP), "a roof far above binds nothing"


@pytest.mark.parametrize("flops", [60e9, 1e12, 20e12], ids=["left", "middle", "right"])
def test_the_third_roof_and_its_words_are_in_nobodys_way(flops):
    """A kernel stands a little below the roof that its steps make, and was measured there."""
    slow = [
        matmul(flops=flops, seconds=flops / 12e12, steps_s=flops / 13e12),
        matmul(flops=flops, seconds=flops / 12e12),
    ]
    svg = roofs.svg([slow[0], dataclasses.replace(slow[1], name="published", measured_by="a book")], CHIP)
    said = {
        node.text: names.at(float(node.get("x")), float(node.get("y")), node.get("text-anchor", "start"), node.text).box
        for node in parsed(svg).iter(f"{SVG}text")
        if node.text in ("matmul", "published", "grid steps of matmul: 13 TFLOP/s")
    }
    plot = roofs._axes(slow, CHIP)
    line = names.Box(axes.LEFT, plot.top(13e12) - 1, axes.RIGHT, plot.top(13e12) + 1)
    assert len(said) == 3
    assert not any(one.meets(other) for one, other in itertools.combinations([line, *said.values()], 2))


def test_int8_is_not_called_impossible():
    """1 TFLOP in 3 ms: 333 TFLOP/s, above bf16's 200 and below int8's 400."""
    assert "int8's can be twice as high" in roofs.sentence([matmul(seconds=3e-3)], CHIP)


def test_what_no_chip_can_do_is_said():
    assert "more than the chip can do" in roofs.sentence([matmul(seconds=1e-3)], CHIP)
    assert "more than the chip can do" not in roofs.sentence([matmul(seconds=5e-3)], CHIP)


def test_below_the_ridge_the_hbm_roof_counts():
    assert "50 % of the HBM roof above it" in roofs.sentence([matmul(hbm_bytes=1e10, seconds=25e-3)], CHIP)


def test_the_text_has_a_row_for_each_point():
    text = roofs.as_text([matmul(), matmul(name="published", measured_by="a very long source " * 9)], CHIP)
    assert max(map(len, text.splitlines())) <= 94
    lines = text.splitlines()
    assert lines[0] == "v5e: compute (MXU, bf16): 200 TFLOP/s; HBM: 800 GB/s; they meet at 250 FLOPs/byte."
    assert lines[1].split()[0] == "matmul" and lines[1].endswith("50 %  predicted (model)")
    assert lines[2].split()[0] == "published" and lines[2].endswith("50 %  measured")
    assert "published: measured by a very long source" in text


def test_no_points_give_the_roofs_and_a_sentence():
    assert "No kernel to place" in " ".join(words(roofs.svg([], CHIP)))
    assert "No kernel to place" in roofs.as_text([], CHIP)


@pytest.mark.parametrize("field", ["flops", "hbm_bytes", "seconds"])
@pytest.mark.parametrize("value", [0, -1, math.nan])
def test_a_point_without_a_place_is_refused(field, value):
    with pytest.raises(ValueError, match=f"matmul: {field}=.*cannot be shown on log axes"):
        matmul(**{field: value})


def test_far_points_and_hostile_names_stay_inside():
    points = [
        matmul(name=HOSTILE + "long " * 40, steps_s=1.0),
        matmul(name="tiny", flops=1, hbm_bytes=1e9),
        matmul(name="huge", flops=1e18, seconds=1e4, hbm_bytes=1),
        *(matmul(name=f"published {n}", measured_by=HOSTILE * 5, seconds=0.01 + n / 1e4) for n in range(12)),
    ]
    svg = roofs.svg(points, CHIP)
    assert overflowing(svg) == [] and "<script" not in svg
    assert len(marks(svg)) == 15
    assert not any(line.startswith("published") for line in words(svg)), "so many names would be a blot"


def prediction(**changes) -> roofline.Prediction:
    facts = dict(chip="v5e", seconds=10e-3, compute_s=5e-3, memory_s=2e-3, overhead_s=5e-3, steps=1000, steps_s=330e-6)
    return roofline.Prediction(**facts | dict(flops=10**12, hbm_bytes=2 * 10**9) | changes)


def test_predictions_become_points():
    point = roofs.point("mine", prediction())
    assert (point.intensity, point.flop_rate) == (500, 1e14)
    assert point.steps_s == 330e-6, "what its steps cost makes the third roof"
    picture = roofs.three_roofs({"mine": prediction(), "XLA": prediction(seconds=8e-3)}, [matmul(measured_by="a book")])
    assert [kind for kind, _ in marks(picture.svg)] == ["predicted first", "predicted", "measured"]
    assert "mine" in picture.text


def test_predictions_that_have_no_place_are_refused():
    with pytest.raises(ValueError, match="mine cannot be placed under the roofs: its prediction has no flops"):
        roofs.point("mine", prediction(flops=0))
    with pytest.raises(ValueError, match="predictions are for v4, v5e"):
        roofs.three_roofs({"a": prediction(), "b": prediction(chip="v4")})
    with pytest.raises(ValueError, match="predictions are for no chip"):
        roofs.three_roofs({})
    with pytest.raises(ValueError, match="matmul among measured= lacks measured_by="):
        roofs.three_roofs({"a": prediction()}, measured=[matmul()])
