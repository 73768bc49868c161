"""traffic and gradient_flow: bytes, times, what is kept, and their stills. The player itself: tests/browser."""

import dataclasses
import re

import pytest
from flow_samples import FUSED, GELU, MIB, RECOMPUTED, SAVED, SOFTMAX, UNFUSED
from shapes import words_on_words
from viz_samples import HOSTILE, boxes, overflowing, parsed, words

from course_lib import chips, text, viz
from course_lib.viz.common import draw
from course_lib.viz.flow_player import flow_picture, stages

LONG = "a long name of something that nobody would ever write " * 3
CROWD = [viz.Stage(LONG + HOSTILE, {f"{HOSTILE} {LONG} {n}": 10**14 + n for n in range(8)})] * 3
TRAFFIC = {
    "softmax": SOFTMAX,
    "one": {"alone": FUSED},
    "crowd": {f"{LONG} {n}": CROWD for n in range(3)},
    "nothing moves": {"still": [viz.Stage("idle", {"x": 0})]},
}
GRADIENTS = {
    "gelu": GELU,
    "one": {"alone": (FUSED, [viz.Stage("back", {"do": MIB}, {"dx": MIB})])},
    "crowd": {LONG + HOSTILE: (CROWD, CROWD)},
}


def still(widget) -> str:
    return widget._repr_mimebundle_()[0]["image/svg+xml"]


def arrows(svg: str) -> list[float]:
    """How thick the shafts are, in the order drawn."""
    paths = [
        path.get("d") for path in parsed(svg).iter("{http://www.w3.org/2000/svg}path") if path.get("fill") != "none"
    ]
    corners = [[tuple(map(float, point.split())) for point in re.findall(r"-?[\d.]+ -?[\d.]+", d)] for d in paths]
    return [round(points[-1][1] - points[0][1], 1) for points in corners]


def test_the_totals_are_the_bytes_and_their_time():
    said = viz.traffic(SOFTMAX).text
    moved = {name: sum(stage.bytes for stage in each) for name, each in SOFTMAX.items()}
    assert moved == {"unfused": 384 * MIB + 4 * (32 << 10), "fused": 128 * MIB}
    seconds = moved["unfused"] / chips.chip("v5e").hbm_bandwidth
    assert f"4 stages: {text.size(moved['unfused'])}, {text.duration(seconds)}." in said
    assert "1 stage: 128 MiB, 164 us." in said
    assert "at the 820 GB/s of a v5e's HBM, predicted (model). fused moves 3 times fewer bytes than unfused." in said
    assert "subtract, exp reads x (64 MiB), m (32 KiB) and writes e (64 MiB)" in said


def test_another_chip_has_another_bandwidth():
    assert "81.8 us" in viz.traffic({"fused": FUSED}, chip="v6e").text
    with pytest.raises(ValueError, match="v5e"):
        viz.traffic(SOFTMAX, chip="v99")
    with pytest.raises(ValueError, match="v5e"):
        viz.gradient_flow(GELU, chip="v99")


def test_arrows_are_as_wide_as_their_bytes_on_one_scale():
    found = arrows(still(viz.traffic(SOFTMAX)))
    wide, thin = flow_picture.thickness(64 * MIB, 64 * MIB), 1.5
    as_moved = [wide, thin, wide, thin, wide, wide, thin, wide, thin, wide, wide, wide]
    assert found == pytest.approx(as_moved, abs=0.11), "coordinates are rounded to a tenth"
    assert flow_picture.thickness(32 * MIB, 64 * MIB) == wide / 2


def test_what_goes_out_and_comes_back_is_marked():
    assert stages.read_back(UNFUSED) == {"m", "e", "s"} and stages.read_back(FUSED) == set()
    marked = boxes(still(viz.traffic(SOFTMAX)), flow_picture.MARKED)
    assert len(marked) == 2 + 3 + 2 + 1, "e is read twice; and the legend"
    again = [viz.Stage("a", {"y": 1}, {"y": 1})]
    assert stages.read_back(again) == set(), "read before it is written"


def test_bars_compare_the_totals():
    bars = boxes(still(viz.traffic({"one": FUSED, "two": FUSED * 2})), draw.ORANGE)
    assert len(bars) == 3 and bars[0][2] == pytest.approx(bars[1][2], abs=0.2)
    assert sum(bar[2] + 1 for bar in bars[1:]) == pytest.approx(332, abs=0.3)


def test_what_is_kept_for_the_way_back():
    assert stages.residuals(*SAVED) == {"x": 64 * MIB, "w": 8 * MIB, "y": 128 * MIB}
    assert stages.residuals(*RECOMPUTED) == {"x": 64 * MIB, "w": 8 * MIB}
    made = [viz.Stage("again", {"x": 8}, {"y": 4}), viz.Stage("use", {"y": 4}, {"dx": 8})]
    forward = [viz.Stage("f", {"x": 8}, {"y": 4})]
    assert stages.residuals(forward, made) == {"x": 8}, "the backward stages make y anew"
    twice = [viz.Stage("f", {"x": 16, "w": 8}, {"y": 4}), viz.Stage("g", {"y": 12}, {"o": 4})]
    assert stages.residuals(twice, [viz.Stage("b", {"x": 8, "y": 20}, {"dx": 8})]) == {"x": 8, "y": 4}
    assert stages.residuals(forward, [viz.Stage("b", {"dy": 4}, {"dx": 8})]) == {}


def test_a_gradient_in_words():
    said = viz.gradient_flow(GELU).text
    assert "Kept for the backward pass: x (64 MiB), w (8 MiB), y (128 MiB), together 200 MiB." in said
    assert "Kept for the backward pass: x (64 MiB), w (8 MiB), together 72 MiB." in said
    assert "Forward 456 MiB, backward 784 MiB: 1.59 ms." in said and "predicted (model)" in said
    nothing = viz.gradient_flow({"v": (FUSED, [viz.Stage("back", {"do": MIB})])}).text
    assert "Nothing is kept for the backward pass." in nothing


def test_the_backward_stages_run_up_and_the_forward_ones_down():
    shown = words(still(viz.gradient_flow({"save y": SAVED})))
    assert shown.index("product") < shown.index("gelu")
    assert shown.index("product for") < shown.index("gelu", shown.index("gelu") + 1), "the last stands above the first"
    assert {"forward ↓", "backward ↑", "HBM", "kept for the backward pass"} <= set(shown)


def test_every_step_has_words_and_its_running_total():
    traffic, gradient = viz.traffic(SOFTMAX), viz.gradient_flow(GELU)
    unfused, fused = traffic.flows
    assert [len(unfused["says"]), len(fused["says"]), traffic.step] == [5, 2, 4], "complete at first"
    assert unfused["says"][0] == "unfused: 0 of 4 stages: 0 bytes, 0 ns."
    assert unfused["says"][1].endswith("writes m (32 KiB). 1 of 4 stages: 64.03 MiB, 81.9 us.")
    saved = gradient.flows[0]["says"]
    assert saved[2].startswith("gelu reads y (128 MiB) and writes o (128 MiB). Forward 456 MiB: ")
    assert "Forward 456 MiB, backward 384 MiB: " in saved[3] and "Kept for the backward pass" in saved[3]
    for flow in (*traffic.flows, *gradient.flows):
        for svg in flow["drawings"]:
            numbers = {int(n) for n in re.findall(r'data-stage="(\d+)"', svg)}
            assert numbers == set(range(1, len(flow["says"])))
            assert [int(n) for n in re.findall(r'data-at="(\d+)"', svg)] == list(range(len(flow["says"])))


@pytest.mark.parametrize("name", TRAFFIC)
def test_the_still_of_traffic(name):
    look_at(viz.traffic(TRAFFIC[name]))


@pytest.mark.parametrize("name", GRADIENTS)
def test_the_still_of_a_gradient(name):
    look_at(viz.gradient_flow(GRADIENTS[name]))


def look_at(widget):
    svg = still(widget)
    assert words_on_words(svg) == [] == overflowing(svg)
    assert "<script" not in svg and "data-at" not in svg, "complete, and alone"
    assert len(svg) < 20_000 or "nobody" in svg
    for flow in widget.flows:
        for drawing in flow["drawings"]:
            parsed(drawing)  # as XML, and nothing comes from elsewhere
            assert "<script" not in drawing


WRONG_STAGES = [
    (dict(name=""), "Stage: name='' is not a name"),
    (dict(name=3), "Stage: name=3 is not a name"),
    (dict(name="a"), "Stage: 'a' neither reads nor writes an array"),
    (dict(name="a", reads=["x"]), r"Stage: reads=\['x'\] is not a dict of array -> bytes"),
    (dict(name="a", reads={"x": -1}), r"Stage: reads\['x'\]=-1 is not a number of bytes"),
    (dict(name="a", writes={"x": 1.5}), r"Stage: writes\['x'\]=1.5 is not a number of bytes"),
    (dict(name="a", writes={"x": True}), r"Stage: writes\['x'\]=True is not a number of bytes"),
    (dict(name="a", reads={" ": 1}), "for an array that has a name"),
    (dict(name="a", reads={str(n): 1 for n in range(9)}), "moves 9 arrays, but there is room for 8"),
]


@pytest.mark.parametrize("given, says", WRONG_STAGES, ids=range(len(WRONG_STAGES)))
def test_a_stage_that_is_none(given, says):
    with pytest.raises(ValueError, match=says):
        viz.Stage(**given)


def test_a_stage_stays_as_it_is():
    reads = {"x": 4}
    stage = viz.Stage("copy", reads)
    reads["y"] = 8
    assert stage.bytes == 4
    with pytest.raises(dataclasses.FrozenInstanceError):
        stage.name = "other"


WRONG_VARIANTS = [
    (viz.traffic, [], r"traffic: variants=\[\] is not a dict of name -> stages"),
    (viz.traffic, {}, "traffic: variants={} is not a dict"),
    (viz.traffic, {"a": []}, r"traffic: variants\['a'\] is \[\]. Give a list of viz.Stage"),
    (viz.traffic, {"a": FUSED[0]}, r"traffic: variants\['a'\] is Stage"),
    (viz.traffic, {"a": ["matmul"]}, r"traffic: variants\['a'\] is \['matmul'\]"),
    (viz.traffic, {"a": FUSED * 13}, "has 13 stages, but there is room for 12"),
    (viz.traffic, {str(n): FUSED for n in range(5)}, "5 variants are too many to compare. Give at most 4"),
    (viz.gradient_flow, {"a": FUSED}, r"gradient_flow: variants\['a'\] is .* Give two lists of stages"),
    (viz.gradient_flow, {"a": (FUSED, [])}, r"gradient_flow: variants\['a'\]\[1\], backward, is \[\]"),
    (viz.gradient_flow, {"a": (None, FUSED)}, r"gradient_flow: variants\['a'\]\[0\], forward, is None"),
]


@pytest.mark.parametrize("show, given, says", WRONG_VARIANTS, ids=range(len(WRONG_VARIANTS)))
def test_variants_that_are_none(show, given, says):
    with pytest.raises(ValueError, match=says):
        show(given)
