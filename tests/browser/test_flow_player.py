"""Traffic and gradients in a browser, without a kernel: keys, mouse, play, the choice of a variant, widths."""

import chromium
import pytest
from flow_samples import GELU, SOFTMAX
from widget_page import open_widget

from course_lib import viz

PALE = """(n) => [...document.querySelectorAll(`.course-flow:not([hidden]) [data-stage="${n}"]`)]
    .filter((each) => each.getBoundingClientRect().width).map((each) => Number(each.style.opacity) < 1)"""
SAID = """() => [...document.querySelectorAll('.course-flow:not([hidden]) [data-at]')]
    .filter((each) => each.getBoundingClientRect().width).map((each) => each.textContent)"""


browser = chromium.browser


def traffic(browser, **page):
    return open_widget(browser, viz.traffic(SOFTMAX), **page)


def gradient(browser, **page):
    return open_widget(browser, viz.gradient_flow(GELU), **page)


def step(page) -> int:
    return page.evaluate("model.get('step')")


def test_stage_by_stage_by_keys_and_slider(browser):
    widget = viz.traffic(SOFTMAX)
    with open_widget(browser, widget) as page:
        assert step(page) == 4 and page.evaluate(PALE, 4) == [False, False], "complete at first: box and bar"
        page.locator(".course-slider").focus()
        for key, at in (
            ("Home", 0),
            ("ArrowRight", 1),
            ("ArrowUp", 2),
            ("ArrowLeft", 1),
            ("End", 4),
            ("ArrowRight", 4),
        ):
            page.keyboard.press(key)
            assert step(page) == at
            expected = [flow["says"][min(at, len(flow["says"]) - 1)] for flow in widget.flows]
            assert page.locator(".course-caption p").all_inner_texts() == expected
        page.get_by_label("Stages so far").fill("2")
        assert page.evaluate(PALE, 2) == [False, False] and page.evaluate(PALE, 3) == [True, True]
        assert page.evaluate(PALE, 1) == [False] * 4, "of both"
        assert page.evaluate(SAID) == ["2 of 4 stages: 192.1 MiB, 246 us", "1 stage: 128 MiB, 164 us"]


def test_buttons_and_where_the_keys_go_on(browser):
    with traffic(browser) as page:
        assert page.get_by_role("button", name="One stage forward").is_disabled()
        page.get_by_role("button", name="One stage back").click()
        page.locator("svg").first.click()
        page.keyboard.press("ArrowLeft")
        assert step(page) == 2 and page.locator(".course-now").count() == 2, "a stage and its piece of the bar"
        page.evaluate("model.set('step', 0)")
        assert page.get_by_role("button", name="One stage back").is_disabled()
        assert page.locator("svg").first.get_attribute("aria-label").startswith("unfused: unfused: 0 of 4 stages")


def test_it_plays_from_the_beginning_and_pauses(browser):
    with traffic(browser) as page:
        page.clock.install()
        page.get_by_role("button", name="Play").click()
        assert step(page) == 0
        page.clock.run_for(2500)
        assert step(page) == 2
        page.get_by_role("button", name="Pause").click()
        page.clock.run_for(5000)
        assert step(page) == 2
        page.keyboard.press("Control+ArrowRight")
        assert step(page) == 2, "not ours"
        page.get_by_role("button", name="Play").click()
        page.clock.run_for(9000)
        assert step(page) == 4 and page.get_by_role("button", name="Play").is_visible()


def test_one_variant_of_a_gradient_is_chosen(browser):
    widget = viz.gradient_flow(GELU)
    with open_widget(browser, widget) as page:
        assert page.locator(".course-flow:visible").count() == 1 and step(page) == 5
        page.get_by_role("radio", name="recompute y").click()
        assert page.evaluate("model.get('shown')") == 1
        caption = page.locator(".course-caption p")
        assert caption.all_inner_texts() == [widget.flows[1]["says"][4]], "complete stays complete"
        page.locator(".course-slider").focus()
        page.keyboard.press("ArrowLeft")
        assert step(page) == 3 and page.evaluate(PALE, 4) == [True, True]
        page.keyboard.press("1")
        assert page.get_by_role("radio", name="save y").is_checked()
        assert caption.all_inner_texts() == [widget.flows[0]["says"][3]]
        page.evaluate("model.set('shown', 1)")
        assert page.get_by_role("radio", name="recompute y").is_checked()


@pytest.mark.parametrize("opened", [traffic, gradient])
@pytest.mark.parametrize("width", [800, 480])
def test_letters_keep_their_size(browser, opened, width):
    with opened(browser, width=width) as page:
        shrunk = """() => [...document.querySelectorAll('svg')].filter((each) => each.getBoundingClientRect().width)
            .map((each) => each.getBoundingClientRect().width / each.viewBox.baseVal.width)"""
        assert all(0.99 < scale < 1.01 for scale in page.evaluate(shrunk))
