"""Slides, a handout and a timing card in a browser, as files: keys, notes, the clock, widgets, paper."""

import re

import book_samples
import chromium
import pytest
from book import pages
from book_page import draw, open_page, reacts_to_the_mouse, serious_faults
from lesson_files import LESSONS
from pack import cuts, files
from widget_page import is_too_wide

browser = chromium.browser
STEM = "01_hello_kernel"
FIRST, SHOWN = ".slide.shown", "Number(document.querySelector('.slide.shown').id)"
SIDEWAYS = "(slide) => slide.querySelector('.content').scrollWidth > slide.querySelector('.content').clientWidth"
# Slides whose content is cut off, measured as slides.js does, while all stand in a column.
CUT = """() => {
    document.documentElement.classList.remove("deck");
    return [...document.querySelectorAll(".content")]
        .filter((box) => box.scrollHeight > box.clientHeight + 2 || box.scrollWidth > box.clientWidth + 2)
        .map((box) => box.parentElement.getAttribute("aria-label"));
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The pack of one lesson, made up in the tests, with two widgets."""
    notebook, states = book_samples.lesson()
    notebook.cells[0].source = notebook.cells[0].source.replace("# A sample\n", "# A sample\n\n*5 minutes.*\n", 1)
    course = book_samples.course(notebook) | {
        source: page for source, page in pages.course().items() if source.startswith("docs/instructor")
    }
    folder = tmp_path_factory.mktemp("pack")
    for path, text in files.files(course, {book_samples.LESSON: states}, cuts.start_of("9:00")).items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    return folder


@pytest.fixture
def page(browser, folder):
    with open_page(browser, folder / f"slides/{STEM}.html", viewport={"width": 1280, "height": 720}) as page:
        page.locator(FIRST).wait_for()
        yield page


def test_keys_and_buttons_turn_the_slides(page):
    last = page.locator(".slide").count()
    assert page.evaluate(SHOWN) == 1 and page.locator("h1").inner_text() == "A sample"
    page.keyboard.press("ArrowRight")
    assert page.evaluate(SHOWN) == 2 and page.url.endswith("#2")
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(SHOWN) == last
    page.keyboard.press("Home")
    page.locator("#next").click()
    page.locator("#back").click()
    assert page.evaluate(SHOWN) == 1
    page.locator("#keys").click()
    assert page.locator("#help").is_visible()
    page.reload()
    page.goto(re.sub("#.*", "", page.url) + "#3")
    page.wait_for_function(f"{SHOWN} === 3")


def test_an_answer_appears_with_a_key_and_stays_when_one_comes_back(page):
    hidden = page.locator(".slide:has(.reveal)").first
    page.evaluate(f"location.hash = '#{hidden.get_attribute('id')}'")
    page.locator(f".slide.shown[id='{hidden.get_attribute('id')}']").wait_for()
    assert hidden.locator(".reveal").is_hidden()
    page.keyboard.press(" ")
    assert hidden.locator(".reveal").is_visible()
    page.keyboard.press("PageDown")
    page.keyboard.press("PageUp")
    assert hidden.locator(".reveal").is_visible() and page.evaluate(SHOWN) == int(hidden.get_attribute("id"))


def test_notes_stand_below_the_slide_or_in_a_window_that_follows(page):
    page.keyboard.press("s")
    assert page.locator(f"{FIRST} .notes").is_visible()
    page.keyboard.press("s")
    assert page.locator(f"{FIRST} .notes").is_hidden()
    with page.expect_popup() as opened:
        page.keyboard.press("n")
    notes = opened.value
    assert "A sample" in notes.locator("h2").inner_text()
    page.keyboard.press("ArrowRight")
    notes.get_by_text("Minute 0 to 5.").wait_for()
    notes.keyboard.press("ArrowRight")  # the window has the same keys
    page.wait_for_function(f"{SHOWN} === 3")


def test_the_clock_of_an_exercise_runs_and_stops(page):
    slide = page.locator(".slide.exercise").first
    page.evaluate(f"location.hash = '#{slide.get_attribute('id')}'")
    clock = slide.locator(".clock")
    clock.wait_for()
    assert clock.inner_text() == "30:00"
    page.keyboard.press("t")
    page.wait_for_function("document.querySelector('.slide.shown .clock').textContent === '29:58'")
    page.keyboard.press("t")
    page.wait_for_timeout(1200)
    assert clock.inner_text() in ("29:58", "29:57")


def test_a_widget_lives_on_its_slide_and_keeps_its_keys(page):
    slide = page.locator(".slide.picture").first
    page.evaluate(f"location.hash = '#{slide.get_attribute('id')}'")
    live = draw(slide.locator(".widget"))
    page.wait_for_function("document.querySelector('.slide.shown .live').style.zoom")
    inside, room = live.bounding_box(), slide.locator(".content").bounding_box()
    assert inside["width"] > 900 and inside["y"] >= room["y"] and not slide.evaluate(SIDEWAYS)
    assert reacts_to_the_mouse(live)
    before = page.evaluate(SHOWN)
    live.locator("button:enabled, input").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate(SHOWN) == before


def test_the_theme_changes_with_a_key_and_a_small_window_shows_a_whole_slide(page):
    page.set_viewport_size({"width": 800, "height": 600})
    box = page.locator(FIRST).bounding_box()
    assert (round(box["width"]), round(box["height"]), round(box["y"])) == (800, 450, 75)
    page.keyboard.press("d")
    page.keyboard.press("d")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_on_paper_each_slide_is_a_page_with_its_answer(page):
    count = page.locator(".slide").count()
    pages_of = re.findall(rb"/Type\s*/Page\b(?!s)", page.pdf(prefer_css_page_size=True, print_background=True))
    assert len(pages_of) == count
    page.emulate_media(media="print")
    assert all(answer.is_visible() for answer in page.locator(".reveal").all())
    assert page.locator(".notes").first.is_hidden() and page.locator(".control").is_hidden()


def test_without_scripts_the_slides_are_a_column(browser, folder):
    with open_page(browser, folder / f"slides/{STEM}.html", java_script_enabled=False) as page:
        assert page.locator(".slide").last.is_visible() and page.locator(".control").is_hidden()


@pytest.mark.parametrize("name", [f"slides/{STEM}", f"handouts/{STEM}", "cards/two_days", "index"])
def test_axe_finds_no_serious_fault(browser, folder, name):
    with open_page(browser, folder / f"{name}.html", reduced_motion="reduce") as page:
        assert serious_faults(page) == []
        chromium.screenshot(page, f"pack-{name.replace('/', '-')}")


def test_a_card_of_three_days_is_one_page_and_a_handout_has_room_to_write(browser, folder):
    with open_page(browser, folder / "cards/three_days.html") as page:
        assert len(re.findall(rb"/Type\s*/Page\b(?!s)", page.pdf(prefer_css_page_size=True))) == 1
    with open_page(browser, folder / f"handouts/{STEM}.html", viewport={"width": 390, "height": 800}) as page:
        assert page.locator(".blank").first.bounding_box()["height"] > 60 and not is_too_wide(page)


# The whole pack. `make test` has the deck of a lesson made up in the tests, above.


@pytest.fixture(scope="module")
def whole():
    return files.files(pages.course(), {}, cuts.start_of("9:00"))


@pytest.mark.sweep
@pytest.mark.parametrize("stem", LESSONS)
def test_every_slide_of_every_lesson_fits(browser, whole, tmp_path, stem):
    file = tmp_path / "deck.html"
    file.write_text(whole[f"slides/{stem}.html"])
    with open_page(browser, file, viewport={"width": 1280, "height": 720}) as page:
        page.locator(FIRST).wait_for()
        assert serious_faults(page) == []
        assert page.evaluate(CUT) == []
