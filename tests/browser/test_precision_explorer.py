"""The precision explorer in a browser, without a kernel: the cursor by keys and mouse, curves off and on, widths."""

import chromium
import pytest
from test_viz_precision import CYCLES, ERRORS
from widget_page import open_widget

from course_lib import viz

RINGS = """() => [...document.querySelectorAll('[data-at]')].filter((each) => each.getBoundingClientRect().width)
    .map((each) => Number(each.dataset.at))"""


browser = chromium.browser


@pytest.fixture
def open_explorer(browser):
    return lambda **page: open_widget(browser, viz.precision_explorer(ERRORS, CYCLES), **page)


def rows(page) -> list[list[str]]:
    return [row.locator("th, td").all_inner_texts() for row in page.locator("tbody tr").all()]


def test_the_cursor_by_keys(open_explorer):
    with open_explorer() as page:
        page.locator(".course-slider").focus()
        for key, cursor in (("Home", 0), ("ArrowLeft", 0), ("ArrowRight", 1), ("End", 2), ("ArrowDown", 1)):
            page.keyboard.press(key)
            assert page.evaluate("model.get('cursor')") == cursor
        assert page.locator(".course-at").inner_text() == "K = 512"
        assert [row[1:3] for row in rows(page)] == [
            ["2.4e-3", "2.6 digits"],
            ["2.2e-3", "2.7 digits"],
            ["1.3e-5", "4.9 digits"],
            ["no figure", ""],
        ]
        assert [row[3].strip() for row in rows(page)] == ["20,000", "23,000", "", "120,000"]
        assert page.evaluate(RINGS) == [1, 1, 1], "on the curves that have a figure there"


@pytest.mark.parametrize("width", [900, 480])
def test_the_cursor_by_mouse(open_explorer, width):
    with open_explorer(width=width) as page:
        drawing = page.evaluate("model.get('drawings')")[int(width < 700)]
        plot = page.locator(".course-plot > svg:visible")
        for cursor in (0, 2, 1):
            plot.click(position={"x": drawing["x"][cursor] + 20, "y": 90})
            assert page.evaluate("model.get('cursor')") == cursor
            moved = page.locator(f".course-{'narrow' if width < 700 else 'broad'} [data-cursor]").get_attribute(
                "transform"
            )
            assert moved == f"translate({drawing['x'][cursor]} 0)"
        box = plot.bounding_box()
        page.mouse.down()
        page.mouse.move(box["x"] + drawing["x"][2] - 9, box["y"] + 200)
        page.mouse.up()
        assert page.evaluate("model.get('cursor')") == 2
        page.mouse.move(box["x"] + drawing["x"][0], box["y"] + 200)
        assert page.evaluate("model.get('cursor')") == 2, "no button is held"
        page.keyboard.press("ArrowLeft")
        assert page.evaluate("model.get('cursor')") == 1, "the keys go on from there"


def test_a_curve_is_switched_off_and_on(open_explorer):
    with open_explorer() as page:
        curve = page.locator(".course-broad [data-curve='1']")
        page.get_by_role("checkbox", name="f32, one pass").click()
        assert page.evaluate("model.get('hidden')") == [1] and not curve.is_visible()
        assert "one pass" not in page.locator(".course-status").inner_text()
        page.get_by_role("checkbox", name="f32, one pass").click()
        assert page.evaluate("model.get('hidden')") == [] and curve.is_visible()
        page.evaluate("model.set('hidden', [0, 2])")
        assert page.locator(".course-off").count() == 2
