"""What every widget does in a browser, without a kernel: opens, takes the keyboard, fits any width, goes away."""

import chromium
import pytest
from viz_widgets import WIDGETS
from widget_page import is_too_wide, open_widget, smallest_letters

browser = chromium.browser
CONTROLS = "input, select, button, [tabindex]"
STYLE = "(element) => [getComputedStyle(element).backgroundColor, getComputedStyle(element).color]"
# JupyterLab tells its theme so.
FILTER = "(element, light) => { document.body.dataset.jpThemeLight = light; return getComputedStyle(element).filter; }"
# Of all controls those that have no name for who hears the page; and which keys, typed on a control, the page hears.
NAMELESS = """(all) => all.filter((e) => !(e.ariaLabel || e.labels?.length || e.textContent.trim()))
    .map((e) => e.outerHTML)"""
HEARD = """(all) => all.map((control) => {
    const heard = [];
    const listen = (event) => heard.push([event.key, event.ctrlKey, event.metaKey, event.shiftKey]);
    document.addEventListener("keydown", listen);
    for (const how of [{key: "d"}, {key: "Enter"}, {key: "ArrowDown"}, {key: "Enter", shiftKey: true},
                       {key: "s", ctrlKey: true}, {key: "s", metaKey: true}])
        control.dispatchEvent(new KeyboardEvent("keydown", {bubbles: true, ...how}));
    document.removeEventListener("keydown", listen);
    return heard;
})"""
FOR_JUPYTERLAB = [["Enter", False, False, True], ["s", True, False, False], ["s", False, True, False]]


@pytest.fixture(params=WIDGETS)
def kind(request):
    return WIDGETS[request.param]


@pytest.fixture
def page(browser, kind):
    with open_widget(browser, kind.make()) as page:
        page.locator(kind.control).first.wait_for()
        yield page


def shown(page, kind) -> str:
    return page.locator(f".{kind.root}").inner_text()


def value(page, kind):
    return page.evaluate("(trait) => model.get(trait)", kind.trait)


def set_by_kernel(page, kind, new) -> None:
    page.evaluate("([trait, value]) => model.set(trait, value)", [kind.trait, new])


def test_it_opens_and_asks_no_kernel(page, kind):
    assert page.locator(f"#widget > .{kind.root} .course-title").inner_text()
    assert page.evaluate("model.saved") == []


def test_a_key_changes_it_and_the_focus_stays(page, kind):
    before, words = value(page, kind), shown(page, kind)
    page.locator(kind.control).first.focus()
    page.keyboard.press(kind.key)
    page.wait_for_function("(trait) => model.saved.some((each) => trait in each)", arg=kind.trait)
    assert value(page, kind) != before and shown(page, kind) != words
    assert page.evaluate("(root) => document.activeElement.closest(`.${root}`) !== null", kind.root)


def test_every_control_has_a_name_and_keeps_its_keys(page):
    controls = page.locator(CONTROLS)
    assert controls.count()
    assert controls.evaluate_all(NAMELESS) == []
    assert all(heard == FOR_JUPYTERLAB for heard in controls.evaluate_all(HEARD))


def test_what_the_kernel_sets_is_shown_until_it_goes_away(page, kind):
    before, words = value(page, kind), shown(page, kind)
    set_by_kernel(page, kind, kind.other)
    assert shown(page, kind) != words
    assert page.evaluate("model.saved") == [], "the kernel is not told what it said"
    for play in page.locator(".course-play").all():
        play.click()
    page.evaluate("unmount()")
    said = shown(page, kind)
    set_by_kernel(page, kind, before)
    assert shown(page, kind) == said, "nothing listens, and nothing plays on"


def test_its_card_turns_dark_with_jupyterlab(page, kind):
    card = page.locator(f".{kind.root}")
    assert [card.evaluate(FILTER, light) for light in ("true", "false")] == ["none", "invert(0.9) hue-rotate(180deg)"]


@pytest.mark.parametrize("width, dark", [(1200, False), (480, True), (320, False)])
def test_it_is_a_white_card_that_fits_its_width(browser, request, kind, width, dark):
    with open_widget(browser, kind.make(), width=width, dark=dark) as page:
        page.locator(kind.control).first.wait_for()
        assert not is_too_wide(page) and smallest_letters(page) >= kind.letters
        assert page.locator(f".{kind.root}").evaluate(STYLE) == ["rgb(255, 255, 255)", "rgb(31, 41, 51)"]
        chromium.screenshot(page, f"{request.node.callspec.params['kind']}-{width}")
