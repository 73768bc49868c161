"""The systolic stepper in a browser, without a kernel: buttons, keys, play, widths; each cycle beside Python's."""

import chromium
import pytest
from widget_page import is_too_wide, open_widget, smallest_letters

from course_lib import viz
from course_lib.viz.systolic_stepper import systolic

MODULE = "(esm) => import(URL.createObjectURL(new Blob([esm], {type: 'text/javascript'})))"
COMPARED = f"""async ([esm, x, w, last]) => {{
    const module = await ({MODULE})(esm);
    const each = (n) => Array.from({{ length: n }}, (_, i) => i);
    return each(last + 2).map((cycle) => ({{
        cells: w.map((_, r) => w[0].map((_, c) => module.cellAt(x, w, cycle, r, c))),
        waiting: w.map((_, r) => module.waiting(x, w, cycle, r)),
        out: module.out(x, w, cycle), caption: module.caption(x, w, cycle), work: module.atWork(x, w, cycle),
    }}));
}}"""


@pytest.fixture(scope="module")
def browser():
    with chromium.open_browser() as browser:
        yield browser


@pytest.fixture
def open_stepper(browser):
    return lambda rows=4, columns=4, **more: open_widget(browser, viz.systolic_stepper(rows, columns), **more)


def caption(page) -> str:
    return page.locator(".course-caption").inner_text()


def test_every_cycle_in_the_browser_is_pythons(open_stepper):
    with open_stepper() as page:
        for rows, columns in [(4, 4), (1, 1), (2, 5), (8, 3)]:
            compare(page, viz.systolic_stepper(rows, columns), rows, columns)


def compare(page, widget, rows: int, columns: int) -> None:
    x, w, last = widget.x, widget.w, systolic.cycles(widget.x, widget.w)
    for cycle, said in enumerate(page.evaluate(COMPARED, [str(widget._esm), x, w, last])):
        found = [[systolic.cell(x, w, cycle, r, c) for c in range(columns)] for r in range(rows)]
        assert said["cells"] == [[cell and cell._asdict() for cell in row] for row in found]
        assert said["waiting"] == [[list(each) for each in systolic.waiting(x, w, cycle, r)] for r in range(rows)]
        assert said["out"] == systolic.out(x, w, cycle)
        assert said["work"] == systolic.at_work(x, w, cycle)
        assert said["caption"] == systolic.caption(x, w, cycle)


def test_forth_and_back_by_buttons_keys_and_slider(open_stepper):
    with open_stepper() as page:
        assert caption(page).startswith("Before the first cycle.") and page.locator(".course-works").count() == 0
        assert page.get_by_role("button", name="One cycle back").is_disabled()
        page.get_by_role("button", name="One cycle on").click()
        assert page.evaluate("model.get('cycle')") == 1 and page.locator(".course-works").count() == 1
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        assert "Out comes y[0, 0]. The first result, after 4 cycles" in caption(page)
        assert page.locator(".course-out").all_inner_texts() == [str(systolic.out(*given(page), 4)[0][0])]
        page.keyboard.press("ArrowLeft")
        assert page.evaluate("model.get('cycle')") == 3 and "Nothing is out yet" in caption(page)
        page.keyboard.press("End")
        assert caption(page).endswith("All of y is out.")
        assert page.get_by_role("button", name="One cycle on").is_disabled()
        y = page.locator(".course-matrix").nth(1).locator("td").all_inner_texts()
        assert y == [str(n) for row in systolic.out(*given(page), 14) for n in row]
        page.get_by_label("Cycle", exact=True).fill("7")
        assert page.locator(".course-works").count() == 16
        page.get_by_role("button", name="Reset").click()
        assert page.evaluate("model.get('cycle')") == 0
        assert page.evaluate("document.querySelector('.course-systolic').dataset.lmSuppressShortcuts") == "true"
        assert page.errors == []


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
        page.get_by_role("button", name="Play").click()
        page.evaluate("unmount()")
        page.evaluate("model.set('cycle', 3)")
        assert page.errors == [], "it goes away quietly"


@pytest.mark.parametrize("size, width, dark", [((4, 4), 480, True), ((8, 8), 480, False)])
def test_it_fits_its_width_and_stays_a_white_card(open_stepper, size, width, dark):
    with open_stepper(*size, width=width, dark=dark) as page:
        page.evaluate("model.set('cycle', 6)")
        assert not is_too_wide(page) and smallest_letters(page) >= 13
        style = "(name) => getComputedStyle(document.querySelector('.course-systolic'))[name]"
        assert page.evaluate(style, "backgroundColor") == "rgb(255, 255, 255)"
        cut = page.locator(".course-pe").evaluate_all("all => all.filter((e) => e.scrollWidth > e.clientWidth).length")
        assert cut == 0, "what a cell adds can be read"
        chromium.screenshot(page, f"systolic-stepper-{size[0]}-{width}")
