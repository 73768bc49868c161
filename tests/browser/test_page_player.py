"""The page player in a browser, without a kernel: each step as Python made it, buttons, keys, slider, highlights."""

import chromium
import pytest
from test_viz_page_player import PLAYERS
from viz_samples import PAGED
from widget_page import is_too_wide, open_widget

from course_lib import viz
from course_lib.viz.page_player.page_steps import filled, telling_step

browser = chromium.browser
CELLS = """(all) => all.map((e) => [e.querySelector("b").textContent, e.style.getPropertyValue("--full")])"""
CUT = "(all) => all.filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.textContent)"
WIDTHS = "(all) => all.map((each) => each.offsetWidth / (each.parentElement.clientWidth))"


@pytest.fixture
def page(browser):
    with open_widget(browser, viz.page_player(**PAGED)) as page:
        yield page


def at(page) -> int:
    return page.evaluate("model.get('step')")


def marked(page) -> list[int]:
    """The pages that are highlighted."""
    return [int(number) for number in page.locator(".course-page.course-marked .course-number").all_inner_texts()]


@pytest.mark.parametrize("name", PLAYERS)
def test_every_step_is_drawn_as_python_says(browser, name):
    widget = PLAYERS[name]
    with open_widget(browser, widget) as page:
        for number, step in enumerate(widget.steps):
            page.evaluate("(step) => model.set('step', step)", number)
            taken = filled(step, widget.pool)
            cells = [
                (widget.names[taken[n][0]], taken[n][1] / widget.page) if n in taken else ("", None)
                for n in range(widget.room)
            ]
            shown = page.locator(".course-page").evaluate_all(CELLS)
            assert [letter for letter, _ in shown] == [letter for letter, _ in cells]
            for (_, full), (_, share) in zip(shown, cells, strict=True):
                assert share is None or float(full.removesuffix("%")) == pytest.approx(100 * share)
            lines = [" ".join(line.split()) for line in page.locator("tbody tr").all_inner_texts()]
            assert lines == [
                " ".join([name, row.state, *([str(row.length)] if row.length else []), ", ".join(map(str, row.pages))])
                .strip()
                for name, row in zip(widget.names, step, strict=True)
            ]  # fmt: skip
            frame = widget.frames[number]
            assert page.locator(".course-caption").inner_text() == frame["says"]
            assert page.locator(".course-words").all_inner_texts() == [frame["used"], frame["reserved"]]


def test_bars_are_as_long_as_what_is_taken(page):
    page.evaluate("model.set('step', 14)")
    paged, pieces = (
        page.locator(f".course-{kind} .course-piece").evaluate_all(WIDTHS) for kind in ("paged", "reserved")
    )
    counts = [len(pages) for _, _, pages in page.evaluate("model.get('frames')[14].rows") if pages]
    assert paged == pytest.approx([count / 24 for count in counts], abs=0.003)
    assert pieces == pytest.approx([128 / 384] * 3, abs=0.003)


def test_forth_and_back_by_buttons_keys_and_slider(page):
    on, back = (page.get_by_role("button", name=f"One step {where}") for where in ("forward", "back"))
    assert back.get_attribute("aria-disabled") == "true"
    on.click()
    page.keyboard.press("ArrowRight")
    assert at(page) == 2 and page.locator(".course-at").inner_text() == "step 2 of 66"
    page.keyboard.press("ArrowLeft")
    back.click()
    assert at(page) == 0
    page.keyboard.press("End")
    assert at(page) == 66 and on.get_attribute("aria-disabled") == "true"
    assert page.locator(".course-caption").inner_text().endswith("All pages are free again.")
    on.press("Enter")
    page.keyboard.press("Home")
    assert at(page) == 0
    slider = page.get_by_label("Step", exact=True)
    slider.fill("18")
    slider.press("ArrowUp")
    assert at(page) == 19 and slider.get_attribute("aria-valuetext") == "step 19 of 66"
    on.focus()
    page.keyboard.press("Control+ArrowRight")
    assert at(page) == 19, "which is not ours"


def test_a_sequence_that_is_focused_or_under_the_mouse_shows_its_pages(page):
    page.evaluate("model.set('step', 14)")
    assert marked(page) == []
    page.get_by_role("button", name="Highlight the pages of B").focus()
    assert marked(page) == [3, 4, 5, 6, 7, 20]
    page.keyboard.press("ArrowLeft")
    assert at(page) == 13 and marked(page) == [3, 4, 5, 6, 7, 20], "the keys go on from there, and the mark stays"
    page.locator("tbody tr").nth(4).hover()
    assert marked(page) == [14, 21]
    page.locator(".course-page").nth(0).hover()
    assert marked(page) == [0, 1, 2, 19]
    page.locator(".course-page").nth(23).hover()
    assert marked(page) == [3, 4, 5, 6, 7, 20], "a free page is nobody's"
    page.mouse.move(0, 0)
    page.get_by_label("Step", exact=True).focus()
    assert marked(page) == [] and page.locator(".course-marks").count() == 0
    page.get_by_role("button", name="Highlight the pages of G").focus()
    assert marked(page) == [] and page.locator(".course-marks").count() == 0, "it has none, so nothing is pale"


@pytest.mark.parametrize("name", ["lesson", "large", "all pages of one", "stuck"])
@pytest.mark.parametrize("width", [320, 760, 1200])
def test_words_stay_in_their_places(browser, request, name, width):
    with open_widget(browser, PLAYERS[name], width=width) as page:
        fullest = telling_step(PLAYERS[name].steps, PLAYERS[name].pool)
        for step in (0, fullest, fullest + 1, len(PLAYERS[name].steps) - 1):
            page.evaluate("(step) => model.set('step', step)", step)
            for part in (".course-page", ".course-number", "td", ".course-words", ".course-caption"):
                assert page.locator(part).evaluate_all(CUT) == []
            assert not is_too_wide(page)
        page.evaluate("(step) => model.set('step', step)", fullest)
        chromium.screenshot(page, f"page_player-{name}-{width}")
