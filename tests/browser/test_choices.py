"""Pictures to choose from in a browser, without a kernel: keys and mouse, the picture of the choice."""

import itertools

import chromium
import pytest
from widget_page import open_widget

from course_lib import viz

browser = chromium.browser
CHOSEN = """(numbers) => {
    document.querySelectorAll('fieldset').forEach((group, g) => group.querySelectorAll('input')[numbers[g]].click());
    const [words, picture] = ['.course-caption', '.course-drawing > svg'].map((each) => document.querySelector(each));
    return [model.get('at'), words.textContent, picture.ariaLabel];
}"""


@pytest.fixture
def open_painter(browser):
    return lambda **page: open_widget(browser, viz.mask_painter((20, 300), (8, 128), (2, 2)), **page)


def caption(page) -> str:
    return page.locator(".course-caption").inner_text()


def test_every_choice_shows_its_own_picture(open_painter):
    with open_painter() as page:
        captions = page.evaluate("model.get('captions')")
        for number, chosen in enumerate(itertools.product(range(3), range(3), range(4))):
            assert page.evaluate(CHOSEN, chosen) == [list(chosen), captions[number], captions[number]]
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
        assert caption(page).startswith("Rows 0 to 7, all of them in the table")
        assert page.locator("fieldset").nth(2).locator("input:checked").count() == 1
