"""The cost bars in a browser, without a kernel: columns and rows are chosen, and ordered as Python orders them."""

import chromium
from test_viz_cost_bars import PRICES, names
from widget_page import open_widget

from course_lib import viz

browser = chromium.browser


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
