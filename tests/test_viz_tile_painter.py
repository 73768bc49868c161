"""The tile painter: how registers are counted and worded, and its still. In a browser: tests/browser."""

import pytest
from shapes import words_on_words
from viz_samples import boxes, overflowing, words

from course_lib import grid, viz
from course_lib.viz.common import draw
from course_lib.viz.tile_painter import tile_plan

SAMPLES = [
    ((8, 128), "float32", 1, 0, 1),
    ((20, 200), "float32", 6, 0.349, 6),
    ((1024, 1), "float32", 128, 0.992, 18),
    ((1024, 1, 1), "float32", 1024, 0.999, 18),
    ((1, 1024), "float32", 1, 0, 1),
    ((3, 300), "float32", 2, 0.561, 2),
    ((4, 2, 128), "float32", 4, 0.75, 4),
    ((8, 128), "bfloat16", 1, 0.5, 1),
    ((24, 128), "bfloat16", 2, 0.25, 2),
    ((64, 130), "int8", 4, 0.492, 4),
]


@pytest.mark.parametrize("shape, dtype, registers, empty, drawn", SAMPLES)
def test_the_plan_of_an_array(shape, dtype, registers, empty, drawn):
    plan = tile_plan.plan(shape, dtype)
    assert (plan.registers, len(plan.drawn)) == (registers, drawn)
    assert plan.registers == grid.registers(shape, dtype) and plan.empty == pytest.approx(empty, abs=5e-4)
    if registers == drawn:
        numbers = sum(tile.rows * tile.lanes for tiles in plan.drawn for tile in tiles)
        assert numbers == plan.numbers, "every number is drawn once"


def test_what_it_says():
    said = viz.tile_painter((3, 20, 200))._repr_mimebundle_()[0]["text/plain"]
    assert said == (
        "float32[3, 20, 200]: 12,000 elements in 18 registers. 34.9 % of the places are empty. In memory it takes "
        "72 KiB, in tiles of 8 x 128. Each of the 3 slices of the leading axes begins new registers."
    )


@pytest.mark.parametrize("shape, dtype", [(shape, dtype) for shape, dtype, *_ in SAMPLES])
def test_the_still(shape, dtype):
    svg = viz.tile_painter(shape, dtype)._repr_mimebundle_()[0]["image/svg+xml"]
    assert overflowing(svg) == [] == words_on_words(svg)
    plan = tile_plan.plan(shape, dtype)
    assert len(boxes(svg, draw.BLUE)) == sum(len(tiles) for tiles in plan.drawn)
    assert any("more" in line for line in words(svg)) == (plan.registers > len(plan.drawn))


WRONG = [
    ({"shape": (128,)}, r"shape=\(128,\) is not a shape to paint"),
    ({"shape": (0, 8)}, "is not a shape to paint. Give two to five whole numbers"),
    ({"shape": (8, 2.0)}, "is not a shape"),
    ({"shape": (8, 10**7)}, "1 to 1,000,000"),
    ({"dtype": "float64"}, "dtype='float64' is not known. Choose one of float32, bfloat16, int8"),
]


@pytest.mark.parametrize("given, says", WRONG, ids=range(len(WRONG)))
def test_what_is_no_array_is_refused(given, says):
    with pytest.raises(ValueError, match=f"tile_painter: .*{says}"):
        viz.tile_painter(**given)
