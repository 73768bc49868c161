"""The capability matrix in a browser, without a kernel: its words beside Python's, what fades, keys and mouse."""

import itertools

import chromium
import pytest
from widget_page import computed, open_widget

from course_lib import viz
from course_lib.viz.capability_matrix import matrix_still
from course_lib.viz.capability_matrix.capabilities import ENGINES, NEEDS, NO, said, standing

browser = chromium.browser
NEEDED = [[], [0], [1, 4], [3, 5, 11], list(range(len(NEEDS)))]
SAID = "({ said }, engines, rows, all) => all.map((needs) => said(engines, rows, needs))"
EXPLAINED = "({ explained }, engines, rows, all) => all.map((at) => explained(engines, rows, at))"
FADED = "(cells) => cells.map((cell) => cell.classList.contains('course-out'))"


def test_it_says_what_python_says(browser):
    widget = viz.capability_matrix()
    cells = list(itertools.product(range(len(NEEDS)), range(len(ENGINES))))
    with open_widget(browser, widget) as page:
        assert computed(page, widget._esm, SAID, widget.engines, widget.rows, NEEDED) == [said(n) for n in NEEDED]
        explained = computed(page, widget._esm, EXPLAINED, widget.engines, widget.rows, cells)
        assert explained == [matrix_still.explained(*cell) for cell in cells]


@pytest.mark.parametrize("needs", NEEDED, ids=str)
def test_engines_that_lack_something_fade(browser, request, needs):
    with open_widget(browser, viz.capability_matrix()) as page:
        for need in needs:
            page.get_by_label(NEEDS[need].name, exact=True).check()
        assert page.evaluate("model.get('needs')") == needs
        assert page.locator(".course-verdict").inner_text() == said(needs)
        out = [bool(needs) and standing(needs, number) == NO for number in range(len(ENGINES))]
        assert page.locator(".course-cell").evaluate_all(FADED) == out * len(NEEDS)
        chromium.screenshot(page, f"capability_matrix-{len(needs)}")
        for need in needs:
            page.get_by_label(NEEDS[need].name, exact=True).uncheck()
        assert page.evaluate("model.get('needs')") == []


def test_a_cell_is_picked_by_mouse_or_keys(browser):
    with open_widget(browser, viz.capability_matrix()) as page:
        picked = lambda: page.evaluate("model.get('picked')")  # noqa: E731
        page.get_by_role("button", name=f"{ENGINES[2].name}, {NEEDS[3].name}: no").click()
        assert picked() == [3, 2]
        assert page.locator(".course-caption").inner_text() == matrix_still.explained(3, 2)
        for key, where in (("ArrowDown", [4, 2]), ("ArrowRight", [4, 3]), ("End", [4, 4]), ("ArrowRight", [4, 4]),
                           ("Home", [4, 0]), ("ArrowUp", [3, 0]), ("Control+ArrowDown", [3, 0])):  # fmt: skip
            page.keyboard.press(key)
            assert picked() == where, key
        assert page.locator(".course-cell[tabindex='0']").count() == 1, "one stop of Tab for all cells"


def test_arrows_on_a_box_are_not_the_matrixs(browser):
    with open_widget(browser, viz.capability_matrix()) as page:
        page.locator("input").first.focus()
        page.keyboard.press("ArrowDown")
        assert page.evaluate("model.get('picked')") == [0, 0]
        page.keyboard.press("Space")
        assert page.evaluate("model.get('needs')") == [0]
