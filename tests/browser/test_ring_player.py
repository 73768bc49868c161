"""The ring player in a browser, without a kernel: moments as Python made them, buttons, keys, a click."""

import chromium
import pytest
from test_viz_ring_player import PLAYERS
from widget_page import is_too_wide, open_widget

from course_lib import viz
from course_lib.viz.ring_player import ring_data

browser = chromium.browser
CUT = "(all) => all.filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.textContent)"


def at(page) -> int:
    return page.evaluate("model.get('step')")


@pytest.mark.parametrize("name", PLAYERS)
def test_every_moment_is_drawn_as_python_says(browser, name):
    widget = viz.ring_player(PLAYERS[name])
    found = widget.found
    with open_widget(browser, widget) as page:
        assert page.locator(".course-lane-name").all_inner_texts() == list(found.lanes)
        assert page.locator(".course-share").all_inner_texts() == ring_data.shares(found)
        for number, now in enumerate(found.times):
            page.evaluate("(step) => model.set('step', step)", number)
            busy = [bar for bar in found.bars if bar.begin <= now < bar.end]
            on_links = [bar for bar in busy if ring_data.kind_of(found.lanes[bar.lane], found.ring) < 2]
            waiting = {device for device, begin, end, _ in found.waits if begin <= now < end}
            assert page.locator(".course-caption").inner_text() == ring_data.said(found, number)
            assert page.locator(".course-now").count() == len(busy)
            assert page.locator(".course-arrow").count() == len(on_links)
            assert page.locator(".course-waits").count() == len(waiting)
            assert page.locator(".course-cause").count() == len({bar.cause for bar in busy} - {-1})


def test_forth_and_back_by_buttons_keys_slider_and_a_click(browser):
    with open_widget(browser, viz.ring_player(PLAYERS["one way"])) as page:
        on, back = (page.get_by_role("button", name=f"One moment {where}") for where in ("forward", "back"))
        last = page.evaluate("model.get('times').length") - 1
        assert back.get_attribute("aria-disabled") == "true"
        on.click()
        page.keyboard.press("ArrowRight")
        assert at(page) == 2
        page.keyboard.press("End")
        assert at(page) == last and on.get_attribute("aria-disabled") == "true"
        page.keyboard.press("Home")
        slider = page.get_by_label("Moment", exact=True)
        slider.press("ArrowUp")
        assert at(page) == 1 and slider.get_attribute("aria-valuetext") == "9.1 us"
        page.locator(".course-track").nth(2).locator(".course-bar").nth(1).click()
        assert page.locator(".course-at").inner_text() == "10.1 us"
        on.focus()
        page.keyboard.press("Control+ArrowRight")
        assert page.locator(".course-at").inner_text() == "10.1 us", "which is not ours"


@pytest.mark.parametrize("name", ["both ways", "eight"])
@pytest.mark.parametrize("width", [320, 760])
def test_words_stay_in_their_places(browser, request, name, width):
    widget = viz.ring_player(PLAYERS[name])
    with open_widget(browser, widget, width=width) as page:
        page.evaluate("(step) => model.set('step', step)", ring_data.telling_moment(widget.found))
        for part in (".course-lane-name", ".course-share", ".course-caption"):
            assert page.locator(part).evaluate_all(CUT) == []
        assert not is_too_wide(page)
        chromium.screenshot(page, f"ring_player-{name}-{width}")
