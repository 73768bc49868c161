"""A page of the book in a browser, opened as a file: what it logs, what it loads, and how its widgets react."""

import contextlib
import pathlib
from collections.abc import Iterator
from importlib.resources import files

from playwright.sync_api import Browser, Locator, Page

LIMIT_MS = 20_000
# The state of a widget that one can see: its elements, the values of its controls, and what its canvases show.
SEEN = """(live) => live.innerHTML
    + [...live.querySelectorAll("input, select")].map((control) => `${control.value} ${control.checked}`)
    + [...live.querySelectorAll("canvas")].map((canvas) => canvas.toDataURL())"""
BUTTON = "button:enabled:not([aria-disabled=true])"
CONTROLS = f"input:checked, input[type=range], select, [role=grid], [tabindex='0'], input, {BUTTON}"
KEYS = ("ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp")
CLICKED = f"{BUTTON}, label:has(input[type=radio]:not(:checked)), input[type=range], [role=row]"


@contextlib.contextmanager
def open_page(browser: Browser, file: pathlib.Path, **how) -> Iterator[Page]:
    """The page of a file. Fails if it has asked anything of the network or said anything in the console."""
    context = browser.new_context(**how)
    page = context.new_page()
    page.set_default_timeout(LIMIT_MS)
    page.said, page.asked = [], []
    page.on("console", lambda message: page.said.append(message.text))
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(file.as_uri())
    yield page
    assert page.said == [], page.said
    assert [url for url in page.asked if not url.startswith(("file:", "blob:", "data:"))] == []
    context.close()


def draw(place: Locator) -> Locator:
    """Bring a widget's place into view, and return the widget once it is drawn."""
    place.evaluate(
        "(place) => { for (let fold = place; fold = fold.parentElement?.closest('details');) fold.open = true; }"
    )
    place.scroll_into_view_if_needed()
    place.page.wait_for_function("(place) => place.matches('.drawn')", arg=place.element_handle())
    return place.locator(".live")


def reacts_to_a_key(live: Locator) -> bool:
    """Whether an arrow key on one of the widget's controls changes what is seen."""
    before = live.evaluate(SEEN)
    for control in live.locator(CONTROLS).all()[:4]:
        control.focus()
        for key in KEYS:
            live.page.keyboard.press(key)
            if live.evaluate(SEEN) != before:
                return True
    return False


def reacts_to_the_mouse(live: Locator) -> bool:
    """Whether a click on one of the widget's controls, or another choice in a menu, changes what is seen."""
    before = live.evaluate(SEEN)
    for control in live.locator(CLICKED).all()[:6]:
        for share in (0.2, 0.8):  # a slider may be at one of the two already
            width, height = control.evaluate("(e) => [e.offsetWidth, e.offsetHeight]")
            control.click(position={"x": width * share, "y": height / 2})
            if live.evaluate(SEEN) != before:
                return True
    for menu in live.locator("select:enabled").all():
        menu.select_option(index=menu.evaluate("(menu) => (menu.selectedIndex + 1) % menu.options.length"))
        if live.evaluate(SEEN) != before:
            return True
    return False


def serious_faults(page: Page) -> list[str]:
    """What axe-core finds on the page that is serious or critical: "rule: element", an entry for each."""
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text())
    # It would load the style sheets once more, which a browser refuses a page that is a file.
    found = page.evaluate("axe.run(document, {resultTypes: ['violations'], preload: false})")["violations"]
    grave = [violation for violation in found if violation["impact"] in ("serious", "critical")]
    return [f"{violation['id']}: {node['html'][:160]}" for violation in grave for node in violation["nodes"]]
