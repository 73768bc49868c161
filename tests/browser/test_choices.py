"""Pictures to choose from in a browser, without a kernel: keys and mouse, the picture of the choice."""

import itertools

import chromium
import pytest
from widget_page import open_widget

from course_lib import viz

browser = chromium.browser


@pytest.fixture
def open_painter(browser):
    return lambda **page: open_widget(browser, viz.mask_painter((20, 300), (8, 128), (2, 2)), **page)


def caption(page) -> str:
    return page.locator(".course-caption").inner_text()


def test_every_choice_shows_its_own_picture(open_painter):
    with open_painter() as page:
        captions = page.evaluate("model.get('captions')")
        for number, (i, j, mask) in enumerate(itertools.product(range(3), range(3), range(4))):
            groups = page.locator("fieldset").all()
            for group, n in zip(groups, (i, j, mask), strict=True):
                group.locator("input").nth(n).check()
            assert page.evaluate("model.get('at')") == [i, j, mask]
            assert caption(page) == captions[number]
            assert page.locator(".course-drawing > svg").get_attribute("aria-label") == captions[number]
        assert len(set(captions)) > 12


def test_by_keys_alone(open_painter):
    with open_painter() as page:
        page.locator("fieldset").nth(2).locator("input:checked").focus()
        for key, mask in (("ArrowRight", 1), ("ArrowDown", 2), ("ArrowRight", 3), ("ArrowLeft", 2)):
            page.keyboard.press(key)
            assert page.evaluate("model.get('at')") == [2, 2, mask]
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("ArrowLeft")
        assert page.evaluate("model.get('at')") == [2, 1, 2]


def test_what_python_sets_is_shown(open_painter):
    with open_painter() as page:
        page.evaluate("model.set('at', [0, 0, 3])")
        assert caption(page).startswith("Rows 0 to 7, all of them the table's")
        assert page.locator("fieldset").nth(2).locator("input:checked").count() == 1
