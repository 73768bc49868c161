"""The systolic stepper in a browser, without a kernel: buttons, keys, play, widths; each cycle as Python made it."""

import chromium
import pytest
from widget_page import is_too_wide, open_widget

from course_lib import viz
from course_lib.viz.systolic_stepper import systolic

browser = chromium.browser


@pytest.fixture
def open_stepper(browser):
    return lambda rows=4, columns=4, **more: open_widget(browser, viz.systolic_stepper(rows, columns), **more)


def caption(page) -> str:
    return page.locator(".course-caption").inner_text()


@pytest.mark.parametrize("size", [(4, 4), (1, 1), (2, 5), (8, 3)])
def test_every_cycle_is_drawn_as_python_says(open_stepper, size):
    with open_stepper(*size) as page:
        x, w = given(page)
        for cycle in range(systolic.cycles(x, w) + 1):
            page.evaluate("(cycle) => model.set('cycle', cycle)", cycle)
            assert caption(page) == systolic.caption(x, w, cycle)
            cells = [systolic.cell(x, w, cycle, row, column) for row in range(size[0]) for column in range(size[1])]
            totals = [f"= {cell.total}" for cell in cells if cell]
            assert page.locator(".course-pe b").all_inner_texts() == totals
            y = systolic.out(x, w, cycle)
            left = [str(y[m][column]) for m, column in systolic.just_out(x, w, cycle)]
            assert page.locator(".course-out").all_inner_texts() == left
            shown = page.locator(".course-matrix").nth(1).locator("td").all_inner_texts()
            assert shown == ["·" if n is None else str(n) for row in y for n in row]


def test_forth_and_back_by_buttons_keys_and_slider(open_stepper):
    with open_stepper() as page:
        assert caption(page).startswith("Before the first cycle.") and page.locator(".course-works").count() == 0
        assert page.get_by_role("button", name="One cycle back").is_disabled()
        page.get_by_role("button", name="One cycle forward").click()
        assert page.evaluate("model.get('cycle')") == 1 and page.locator(".course-works").count() == 1
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        assert "Out comes y[0, 0]. The first result, after 4 cycles" in caption(page)
        assert page.locator(".course-out").all_inner_texts() == [str(systolic.out(*given(page), 4)[0][0])]
        page.keyboard.press("ArrowLeft")
        assert page.evaluate("model.get('cycle')") == 3 and "Nothing is out yet" in caption(page)
        page.keyboard.press("End")
        assert caption(page).endswith("All of y is out.")
        assert page.get_by_role("button", name="One cycle forward").is_disabled()
        page.get_by_label("Cycle", exact=True).fill("7")
        assert page.locator(".course-works").count() == 16
        page.get_by_role("button", name="Reset").click()
        assert page.evaluate("model.get('cycle')") == 0


def given(page) -> tuple:
    return page.evaluate("model.get('x')"), page.evaluate("model.get('w')")


def test_it_plays_and_pauses(open_stepper):
    with open_stepper() as page:
        page.get_by_role("button", name="Play").click()
        page.wait_for_function("model.get('cycle') >= 1")
        page.get_by_role("button", name="Pause").click()
        stopped = page.evaluate("model.get('cycle')")
        page.keyboard.press("ArrowRight")
        assert page.evaluate("model.get('cycle')") == stopped + 1


@pytest.mark.parametrize("size", [4, 8])
def test_what_a_cell_adds_can_be_read(open_stepper, size):
    with open_stepper(size, size, width=480) as page:
        page.evaluate("model.set('cycle', 6)")
        assert not is_too_wide(page)
        cut = page.locator(".course-pe").evaluate_all("all => all.filter((e) => e.scrollWidth > e.clientWidth).length")
        assert cut == 0
