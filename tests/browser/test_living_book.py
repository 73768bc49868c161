"""The book in a browser, as files: widgets without a kernel, search, themes, a phone, the keyboard, paper."""

import book_samples
import chromium
import pytest
from book import pages, site
from book_page import draw, open_page, reacts_to_a_key, reacts_to_the_mouse, serious_faults
from building import targets, widget_state
from conftest import pinned
from lesson_files import LESSONS
from viz_widgets import WIDGETS
from widget_page import is_too_wide

browser = chromium.browser
THEME = "document.documentElement.dataset.theme"
PAPER = "getComputedStyle(document.body).backgroundColor"
CARD = "(card) => getComputedStyle(card).filter"
# Pixels of A4 at 96 to the inch, less margins of 1 cm.
A4_WIDTH, A4_HEIGHT = 718, 1047
CUT = """(height) => [...document.querySelectorAll("main img, main .output:not(pre)")].filter((e) => e.offsetHeight)
    .filter((e) => getComputedStyle(e).breakInside !== "avoid" || e.offsetHeight > height)
    .map((e) => `${e.outerHTML.slice(0, 80)} ${e.offsetHeight}`)"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The small book, written."""
    folder = tmp_path_factory.mktemp("book") / "book"
    site.write(folder, *book_samples.book())
    return folder


@pytest.fixture
def page(browser, folder):
    with open_page(browser, folder / "notebooks/01_hello_kernel.html", viewport={"width": 1400, "height": 900}) as page:
        yield page


def test_widgets_live_without_a_kernel(page):
    places = page.locator(".widget")
    assert places.count() == 2
    for place in places.all():
        live = draw(place)
        assert place.locator(".still").is_hidden()
        assert reacts_to_a_key(live) and reacts_to_the_mouse(live)
    chromium.screenshot(page, "book-lesson")


def test_a_widget_that_fails_leaves_its_still(browser, folder):
    text = (folder / "notebooks/01_hello_kernel.html").read_text()
    (folder / "notebooks/broken.html").write_text(text.replace('data-kind="MemoryLadder"', 'data-kind="Gone"'))
    with open_page(browser, folder / "notebooks/broken.html") as page:
        draw(page.locator(".widget").first)
        page.locator(".still").last.scroll_into_view_if_needed()
        page.locator(".widget.failed .still").wait_for()
        assert len(page.said) == 1
        page.said.clear()


def test_an_output_to_predict_opens_with_the_keyboard(page):
    answer = page.get_by_text("the answer")
    assert answer.is_hidden()
    page.locator(".predicted > summary").focus()
    page.keyboard.press("Enter")
    assert answer.is_visible()


def test_a_search_leads_to_a_word_with_the_keyboard_alone(page):
    page.keyboard.press("/")
    page.keyboard.type("arithmetic intens")
    page.locator("#hits a").first.wait_for()
    assert page.locator("#found-count").inner_text().endswith(("section", "sections"))
    assert page.locator("#hits .where").first.inner_text().endswith(": arithmetic intensity")
    chromium.screenshot(page, "book-search")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_url("**/docs/glossary.html#word-arithmetic-intensity")
    assert page.locator(":target").inner_text().startswith("arithmetic intensity")


def test_a_search_that_finds_nothing_says_so_and_closes(page):
    page.locator("#query").fill("zzz")
    page.get_by_text("No sections").wait_for()
    page.keyboard.press("Escape")
    assert page.locator("#found").is_hidden()
    assert page.locator("#query").evaluate("(box) => box === document.activeElement")


def test_the_theme_is_chosen_and_kept_and_cards_follow_it(page):
    card = draw(page.locator(".widget").first).locator(".course-card").first
    assert (page.evaluate(THEME), card.evaluate(CARD)) == ("light", "none")
    button = page.locator("#theme-button")
    button.click()
    button.click()
    assert (button.inner_text(), page.evaluate(THEME)) == ("Theme: dark", "dark")
    assert card.evaluate(CARD) == "invert(0.9) hue-rotate(180deg)" and page.evaluate(PAPER) == "rgb(21, 25, 30)"
    chromium.screenshot(page, "book-dark")
    page.locator("a[rel=next]").click()
    page.wait_for_url("**/exercises/01_hello_kernel.html")
    assert page.evaluate(THEME) == "dark"


def test_the_theme_follows_the_system_until_one_is_chosen(browser, folder):
    with open_page(browser, folder / "index.html", color_scheme="dark") as page:
        assert page.evaluate(PAPER) == "rgb(21, 25, 30)"
        page.emulate_media(color_scheme="light")
        page.wait_for_function(f"{PAPER} === 'rgb(255, 255, 255)'")


def test_without_scripts_a_page_can_be_read(browser, folder):
    how = {"java_script_enabled": False, "color_scheme": "dark"}
    with open_page(browser, folder / "notebooks/01_hello_kernel.html", **how) as page:
        assert page.locator(".still img").first.is_visible()
        assert page.locator("#theme-button").is_hidden() and page.locator("#query").is_hidden()


@pytest.mark.parametrize("source", ["notebooks/01_hello_kernel", "docs/zoo", "docs/glossary", "index"])
def test_a_page_fits_a_phone(browser, folder, source):
    with open_page(browser, folder / f"{source}.html", viewport={"width": 390, "height": 800}) as page:
        for place in page.locator(".widget").all():
            draw(place)
        assert not is_too_wide(page)
        chromium.screenshot(page, f"book-phone-{source.replace('/', '-')}")


def test_what_a_search_finds_fits_a_phone(browser, folder):
    with open_page(browser, folder / "docs/zoo.html", viewport={"width": 390, "height": 800}) as page:
        page.locator("#query").fill("block")
        page.locator("#hits a").first.wait_for()
        box = page.locator("#found").bounding_box()
        assert 0 <= box["x"] and box["x"] + box["width"] <= 390 and box["y"] + box["height"] <= 800


def test_the_menu_of_a_phone_opens_and_closes_with_the_keyboard(browser, folder):
    with open_page(browser, folder / "docs/zoo.html", viewport={"width": 390, "height": 800}) as page:
        menu, button = page.locator("#contents"), page.locator("#menu-button")
        assert menu.is_hidden()
        button.focus()
        page.keyboard.press("Enter")
        assert menu.is_visible() and button.get_attribute("aria-expanded") == "true"
        page.locator("#contents [aria-current]").focus()
        page.keyboard.press("Escape")
        assert menu.is_hidden() and button.evaluate("(button) => button === document.activeElement")


def test_paper_has_stills_open_folds_and_no_cut_picture(browser, folder):
    how = {"viewport": {"width": A4_WIDTH, "height": A4_HEIGHT}, "color_scheme": "dark"}
    with open_page(browser, folder / "notebooks/01_hello_kernel.html", **how) as page:
        for place in page.locator(".widget").all():
            draw(place)
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator(".still").first.is_visible() and page.locator(".live").first.is_hidden()
        assert page.get_by_text("the answer").is_visible() and page.get_by_text("x = 1").is_hidden()
        assert page.get_by_text("It was folded.").is_visible() and page.locator(".bar").is_hidden()
        assert page.locator(".still .course-card").first.evaluate(CARD) == "none"
        assert page.evaluate(CUT, A4_HEIGHT) == [] and not is_too_wide(page)
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        page.emulate_media(media="screen")
        assert page.get_by_text("the answer").is_hidden() and page.evaluate(THEME) == "dark"
        assert page.pdf(format="A4").startswith(b"%PDF")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("source", ["notebooks/01_hello_kernel", "exercises/01_hello_kernel", "docs/zoo", "index"])
def test_axe_finds_no_serious_fault(browser, folder, source, dark):
    how = {"color_scheme": "dark" if dark else "light", "reduced_motion": "reduce"}
    with open_page(browser, folder / f"{source}.html", **how) as page:
        for place in page.locator(".widget").all():
            draw(place)
        assert serious_faults(page) == []


# The whole book. `make test` has one page with two kinds of widget, above.


@pytest.mark.sweep
def test_every_kind_of_widget_lives(browser, tmp_path, monkeypatch):
    """All on one page, which may weigh more than a page of the course."""
    monkeypatch.setattr(site, "LIMIT", 2**30)
    notebook, states = book_samples.gallery({name: kind.make() for name, kind in WIDGETS.items()})
    site.write(tmp_path / "book", *site.files(book_samples.course(notebook), {book_samples.LESSON: states}))
    file = tmp_path / "book" / "notebooks/01_hello_kernel.html"
    with open_page(browser, file, viewport={"width": 1400, "height": 900}, reduced_motion="reduce") as page:
        places = page.locator(".widget").all()
        assert len(places) == len(WIDGETS)
        for name, place in zip(WIDGETS, places, strict=True):
            live = draw(place)
            assert (reacts_to_a_key(live), reacts_to_the_mouse(live)) == (True, True), name
        assert serious_faults(page) == []
        page.set_viewport_size({"width": 390, "height": 800})
        assert not is_too_wide(page)


@pytest.fixture
def lesson(request, tmp_path, monkeypatch):
    """The page of a lesson, with the state that is kept of its widgets, or after the lesson was executed."""
    monkeypatch.setenv("COURSE_SHIPPED", "1")
    stem, course = request.param, pages.course()
    page = course[f"notebooks/{stem}.ipynb"]
    if widget_state.kept(stem, page.notebook) is None:
        targets.build(f"notebooks/{stem}")
    state = widget_state.kept(stem, page.notebook)
    assert state is not None, "run `make build`"
    few = {source: course[source] for source in (pages.FRONT, page.source, pages.INDEX)}
    site.write(tmp_path / "book", *site.files(few, {page.source: state}))
    return tmp_path / "book" / page.path


@pinned
@pytest.mark.sweep
@pytest.mark.parametrize("lesson", ["00_start_here", *LESSONS], indirect=True)
def test_every_widget_of_every_lesson_lives(browser, lesson):
    """Each draws, and reacts to a key and to the mouse; the page fits a phone and paper and has no serious fault."""
    with open_page(browser, lesson, viewport={"width": 1400, "height": 900}, reduced_motion="reduce") as page:
        for place in page.locator(".widget").all():
            live, kind = draw(place), place.get_attribute("data-kind")
            assert reacts_to_a_key(live), kind
            assert reacts_to_the_mouse(live), kind
        assert serious_faults(page) == []
        page.set_viewport_size({"width": 390, "height": 800})
        assert not is_too_wide(page)
        page.set_viewport_size({"width": A4_WIDTH, "height": A4_HEIGHT})
        page.emulate_media(media="print")
        assert page.evaluate(CUT, A4_HEIGHT) == []


@pytest.mark.sweep
def test_every_other_page_has_no_serious_fault_and_fits_a_phone(browser, tmp_path):
    """A page of each kind is tried above."""
    course = pages.course()
    site.write(tmp_path / "book", *site.files(course, {}))
    with open_page(browser, tmp_path / "book/index.html", viewport={"width": 390, "height": 800}) as page:
        for path in (other.path for other in course.values() if other.folder != "notebooks"):
            page.goto((tmp_path / "book" / path).as_uri())
            assert serious_faults(page) == [] and not is_too_wide(page), path
