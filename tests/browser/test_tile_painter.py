"""The tile painter in a browser, without a kernel: it counts as Python does, and is moved by keys and by typing."""

import chromium
from test_viz_tile_painter import SAMPLES
from widget_page import computed, open_widget

from course_lib import viz
from course_lib.viz.tile_painter import tile_plan

PLANS = "({ plan, sentence }, all) => all.map((each) => [plan(...each), sentence(...each)])"
MANY = [
    (shape, dtype)
    for dtype in tile_plan.DTYPES
    for shape in [
        *(sample[0] for sample in SAMPLES),
        *((rows, lanes) for rows in (1, 2, 3, 5, 12, 31, 32, 33, 200) for lanes in (1, 100, 128, 129, 1000)),
        (7, 3, 5, 130),
        (1, 1, 1, 1, 1),
    ]
]


browser = chromium.browser


def test_the_browser_counts_as_python_does(browser):
    found = computed(browser.new_page(), viz.TilePainter._esm, PLANS, MANY)
    for (shape, dtype), (plan, said) in zip(MANY, found, strict=True):
        ours = tile_plan.plan(shape, dtype)._asdict()
        ours["drawn"] = [[list(tile) for tile in tiles] for tiles in ours["drawn"]]
        assert plan == ours, (shape, dtype)
        assert said == tile_plan.sentence(shape, dtype)


def test_typing_and_keys(browser):
    with open_widget(browser, viz.tile_painter()) as page:
        typed, words = page.locator(".course-shape"), page.locator(".course-words")
        typed.fill("(1024, 1)")
        assert page.evaluate("model.get('shape')") == [1024, 1]
        assert "128 registers" in words.inner_text() and page.locator(".course-register").count() == 18
        assert page.locator(".course-more").inner_text() == "and 110 more"
        typed.press("ArrowUp")
        assert page.evaluate("model.get('shape')") == [1024, 2] and typed.input_value() == "1024, 2"
        typed.press("ArrowDown")
        page.locator(".course-dtype").select_option("int8")
        assert page.evaluate("model.get('dtype')") == "int8" and "32 registers" in words.inner_text()
        typed.fill("1024")
        assert "Type two to five whole numbers" in words.inner_text()
        assert page.evaluate("model.get('shape')") == [1024, 1], "what is not a shape changes nothing"
        page.evaluate("model.set('shape', [8, 128])")
        assert "1,024 elements in 1 register." in words.inner_text()
