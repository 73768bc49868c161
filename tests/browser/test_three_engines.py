"""The three engines in a browser, without a kernel: aspects by buttons and keys, marked lines in view."""

import chromium
import pytest
from widget_page import is_too_wide, open_widget

from course_lib import viz
from course_lib.viz.three_engines.engine_aspects import ASPECTS

browser = chromium.browser
MARKED = """(columns) => columns.map((column) => [...column.querySelectorAll('.course-marked')]
    .map((line) => Number(line.dataset.number)))"""
IN_VIEW = """(boxes) => boxes.map((box) => {
    const first = box.querySelector('.course-marked')?.getBoundingClientRect(), around = box.getBoundingClientRect();
    return !first || (first.top >= around.top && first.bottom <= around.bottom);
})"""
CUT = "(all) => all.filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.textContent)"


def at(page) -> int:
    return page.evaluate("model.get('step')")


@pytest.mark.parametrize("width", [900, 320])
def test_every_aspect_shows_its_words_and_marks_its_lines(browser, request, width):
    widget = viz.three_engines()
    with open_widget(browser, widget, width=width) as page:
        for number, aspect in enumerate(widget.aspects):
            page.evaluate("(step) => model.set('step', step)", number)
            assert page.locator(".course-says").all_inner_texts() == [cell["says"] for cell in aspect["cells"]]
            marked = page.locator(".course-column").evaluate_all(MARKED)
            assert marked == [sorted(cell["marks"]) for cell in aspect["cells"]]
            assert page.locator(".course-kernel").evaluate_all(IN_VIEW) == [True] * 3
            shown = page.locator(".course-program:visible").all_inner_texts()
            assert len(shown) == sum(bool(cell["program"]) for cell in aspect["cells"])
            assert page.locator(".course-line").evaluate_all(CUT) == [] and not is_too_wide(page)
            chromium.screenshot(page, f"three_engines-{number}-{width}")


def test_an_aspect_is_picked_or_stepped_to(browser):
    with open_widget(browser, viz.three_engines()) as page:
        picks = page.locator(".course-picks button")
        picks.nth(3).click()
        assert at(page) == 3 and picks.nth(3).get_attribute("aria-pressed") == "true"
        page.keyboard.press("ArrowRight")
        assert at(page) == 4 and picks.nth(3).get_attribute("aria-pressed") == "false"
        page.keyboard.press("End")
        assert at(page) == len(ASPECTS) - 1
        assert page.locator(".course-at").inner_text() == f"{len(ASPECTS)} of {len(ASPECTS)}: {ASPECTS[-1].name}"
        page.keyboard.press("Home")
        page.get_by_role("button", name="One aspect forward").click()
        assert at(page) == 1


def test_the_keyboard_scrolls_a_kernel(browser):
    with open_widget(browser, viz.three_engines()) as page:
        box = page.locator(".course-kernel").first
        box.evaluate("(box) => { box.scrollTop = 0; }")
        box.focus()
        page.keyboard.press("PageDown")
        page.wait_for_function("document.querySelector('.course-kernel').scrollTop > 0")
        assert at(page) == 0
