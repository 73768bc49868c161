"""The cost bars in a browser, without a kernel: columns and rows are chosen, and ordered as Python orders them."""

import chromium
import pytest
from test_viz_cost_bars import PRICES, names
from widget_page import is_too_wide, open_widget, smallest_letters

from course_lib import compiler, viz


@pytest.fixture(scope="module")
def browser():
    with chromium.open_browser() as browser:
        yield browser


def shown(page) -> list[str]:
    return page.locator("tbody .course-name").all_text_contents()


def test_columns_and_rows_are_chosen(browser):
    bars = viz.cost_bars(PRICES)
    with open_widget(browser, bars) as page:
        assert shown(page) == names(bars)
        page.get_by_role("checkbox").click()
        bars.all_rows = True
        assert page.evaluate("model.get('all_rows')") is True
        assert [name[:6] for name in shown(page)] == [name[:6] for name in names(bars)]
        assert page.locator("tbody b").last.inner_text() == "refused"
        page.locator(".course-column").select_option("int32, v5e")
        bars.column = "int32, v5e"
        assert page.evaluate("model.get('column')") == "int32, v5e" and shown(page) == names(bars)
        widths = [each.bounding_box()["width"] for each in page.locator(".course-price").all()]
        assert widths[0] < widths[1]
        assert "int32, v5e: 2 operations" in page.locator(".course-status").inner_text()
        page.evaluate("unmount()")
        page.evaluate("model.set('column', 'f32, v5e')")
        assert shown(page) == names(bars) and page.errors == []


@pytest.mark.parametrize("width, dark", [(860, False), (480, True)])
def test_it_fits_its_width_and_stays_a_white_card(browser, width, dark):
    with open_widget(browser, viz.cost_bars(compiler.op_prices(), all_rows=True), width=width, dark=dark) as page:
        assert not is_too_wide(page) and smallest_letters(page) >= 13
        style = "(name) => getComputedStyle(document.querySelector('.course-costs'))[name]"
        assert page.evaluate(style, "backgroundColor") == "rgb(255, 255, 255)"
        chromium.screenshot(page, f"cost-bars-{width}")
