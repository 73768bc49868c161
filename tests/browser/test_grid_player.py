"""The grid player on a bare page: keys, mouse, sizes, what it says of a step, and that it asks no kernel anything."""

import json

import chromium
import pytest
from player_samples import SAMPLES, by_hand
from playwright.sync_api import Page, expect
from widget_page import open_widget

from course_lib import viz
from course_lib.viz.grid_player import grid_step

STEP = "document.querySelector('.course-slider').value"
PAINTED = """(canvas) => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height), colours = new Set();
    for (let n = 0; n < data.length; n += 4) if (data[n + 3]) colours.add(data.slice(n, n + 3).join());
    return [...colours];
}"""
WATCH_FLIGHTS = """() => {
    window.flown = { in: 0, out: 0 };
    const count = (changes) => changes.forEach((change) => change.addedNodes.forEach((node) => {
        for (const way of ['in', 'out']) flown[way] += Boolean(node.classList?.contains(`course-flying-${way}`));
    }));
    new MutationObserver(count).observe(document.body, { childList: true, subtree: true });
}"""
FITS = """() => {
    const width = (name) => document.querySelector(name).getBoundingClientRect().width;
    return Math.abs(width('.course-timeline') - width('.course-strip')) < 1;
}"""
BLUE, RED = "0,114,178", "213,94,0"


browser = chromium.browser


def player(name: str, step: int = 0):
    fn, args = SAMPLES[name]
    widget = viz.grid_player(fn, *args)
    widget.step = step
    return widget


@pytest.fixture
def page(browser):
    """The matmul, 4 x 4 x 4 steps, with the keyboard on its slider."""
    with open_widget(browser, player("matmul"), width=724) as page:
        page.locator(".course-slider").focus()
        yield page


def at_step(page: Page, step: int) -> None:
    """Wait until the caption and the slider show a step, counted from 0."""
    expect(page.locator(".course-slider")).to_have_value(str(step))
    assert page.locator(".course-caption").inner_text().startswith(f"Step {step + 1:,} of ")


def ledger(page: Page) -> list[list[str]]:
    rows = page.locator(".course-ledger tbody tr, .course-ledger tfoot tr").all()
    return [row.locator("th, td").all_inner_texts() for row in rows]


@pytest.mark.parametrize("name", SAMPLES)
def test_it_says_what_python_says(browser, name):
    widget = player(name)
    (kernel,) = widget.kernels
    wrong = grid_step.problem_steps(kernel).tolist()
    steps = {0, 1, kernel["steps"] // 2, grid_step.telling_step(kernel), kernel["steps"] - 1, *wrong[:3]}
    with open_widget(browser, widget) as page:
        for step in sorted(step for step in steps if step < kernel["steps"]):
            page.evaluate("(step) => { model.set('step', step) }", step)
            expect(page.locator(".course-caption")).to_have_text(grid_step.caption(kernel, step))
            said = " ".join(grid_step.problems(kernel, step))
            if said:
                expect(page.locator(".course-problem > span")).to_have_text(f"✗ {said}")
            else:
                expect(page.locator(".course-problem.here")).to_have_count(0)
            rows = [(row["copies"], row["of"], row["bytes"], row["of_bytes"]) for row in grid_step.ledger(kernel, step)]
            total = tuple(map(sum, zip(*rows, strict=True)))
            assert [row[2:] for row in ledger(page)] == [[f"{n:,}" for n in row] for row in [*rows, total]]


def test_what_is_carried_is_shown_part_by_part(browser):
    with open_widget(browser, player("carried"), width=724) as page:
        rows = page.locator(".course-carried-row")
        assert rows.locator("strong").all_inner_texts() == ["p_ref", "acc_ref"]
        parts = "(row) => [...row.querySelectorAll('i')].map((each) => each.className)"
        for step, words, classes in (
            (0, "garbage → zeroed → 1 of 4 parts", ["now", "", "", ""]),
            (2, "3 of 4 parts", ["in", "in", "now", ""]),
            (3, "4 of 4 parts → stored to o_ref", ["in", "in", "in", "now"]),
        ):
            page.evaluate("(step) => { model.set('step', step) }", step)
            expect(rows.nth(1).locator("span")).to_have_text(words)
            assert rows.nth(1).evaluate(parts) == [name and f"course-part-{name}" for name in classes]
        assert "course-garbage" in rows.nth(0).get_attribute("class")
        assert "course-garbage" not in rows.nth(1).get_attribute("class")
        for step in (7, 11, 11):
            page.get_by_role("button", name="Go to the next step at which acc_ref holds all parts").click()
            at_step(page, step)


def test_where_nothing_is_carried_nothing_is_shown(browser):
    with open_widget(browser, player("ragged")) as page:
        assert page.locator(".course-carried").count() == 0


def test_keys(page):
    for keys, step in (
        ("ArrowRight", 1),
        ("ArrowRight ArrowUp ArrowRight ArrowLeft", 2),
        ("ArrowUp ArrowDown ArrowLeft", 0),
        ("Shift+ArrowRight", 4),
        ("PageUp PageUp PageDown", 4),
        ("Shift+PageUp", 16),
        ("End", 63),
        ("End ArrowRight", 63),
        ("End Shift+ArrowLeft", 59),
        ("End Home", 0),
    ):
        page.keyboard.press("Home")
        for key in keys.split():
            page.keyboard.press(key)
        at_step(page, step)
        expect(page.locator(".course-slider")).to_be_focused()


def test_keys_work_on_buttons_too(page):
    page.locator(".course-next").focus()
    page.keyboard.press("Space")
    at_step(page, 1)
    page.keyboard.press("ArrowRight")
    at_step(page, 2)


def test_buttons_and_slider(page):
    page.locator(".course-next").click()
    at_step(page, 1)
    page.locator(".course-back").click()
    page.locator(".course-back").click()
    at_step(page, 0)
    page.locator(".course-slider").fill("40")
    at_step(page, 40)
    page.locator(".course-next-copy").click()
    at_step(page, 41)
    page.get_by_role("button", name="Go to the next copy of o_ref out of the core").click()
    at_step(page, 43)


def test_a_click_on_a_block_goes_to_the_next_step_that_sees_it(page):
    x, y, o = page.locator(".course-plane").all()
    for plane, block, step in ((o, [1, 2], 24), (x, [1, 2], 26), (y, [0, 0], 32), (o, [0, 0], 0), (o, [3, 3], 60)):
        across, down = plane.evaluate("(plane, block) => plane.blockCentre(block)", block)
        plane.click(position={"x": across, "y": down})
        at_step(page, step)


def test_a_click_on_the_timeline_goes_there(page):
    strip = page.locator(".course-timeline")
    box = strip.bounding_box()
    strip.click(position={"x": box["width"] * 20.5 / 64, "y": 5})
    at_step(page, 20)
    page.mouse.move(box["x"] + box["width"] * 20.5 / 64, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 50.5 / 64, box["y"] + 5, steps=4)
    page.mouse.up()
    at_step(page, 50)
    page.keyboard.press("ArrowRight")
    at_step(page, 51)


def test_blocks_in_vmem_and_what_is_copied(page):
    page.locator(".course-slider").fill("5")
    assert page.locator(".course-slot").all_inner_texts() == [
        "(0, 0)",
        "(0, 1)",
        "(0, 1)",
        "(1, 1)",
        "(0, 0)",
        "(0, 1)",
    ]
    assert page.locator(".course-slot.current").all_inner_texts() == ["(0, 1)", "(1, 1)", "(0, 1)"]
    assert page.locator(".course-status").all_inner_texts() == ["copied in, 32 KiB"] * 2 + ["stays: no copy"]
    page.locator(".course-slider").fill("7")
    assert page.locator(".course-status").last.inner_text() == "written back, 32 KiB"


def test_one_two_or_three_buffers(browser):
    with open_widget(browser, player("many operands", 9)) as page:
        slots = [box.locator(".course-slot").all_inner_texts() for box in page.locator(".course-operand").all()]
        assert slots[:3] == [["(2, 0)", "(2, 1)"], ["(2, 0)"], ["(0, 1)", "(0, 3)", "(0, 0)"]]
        places = page.locator(".course-vmem .course-place").all_inner_texts()
        assert places == ["VMEM"] * 4 + ["SMEM"] + ["VMEM"] * 3


def test_copies_fly_and_skipped_ones_do_not(page):
    page.evaluate(WATCH_FLIGHTS)
    page.locator(".course-next").click()
    expect(page.locator(".course-flyer")).to_have_count(0)  # all have landed
    assert page.evaluate("flown") == {"in": 2, "out": 0}, "x and y are copied, o stays"
    page.locator(".course-slider").fill("2")
    page.locator(".course-next").click()
    assert page.evaluate("flown") == {"in": 4, "out": 1}, "o is written back after its fourth step"


def test_nothing_flies_where_motion_is_unwelcome(browser):
    with open_widget(browser, player("matmul"), reduced_motion=True) as page:
        page.evaluate(WATCH_FLIGHTS)
        page.locator(".course-next").click()
        at_step(page, 1)
        page.locator(".course-speed").select_option("10")
        page.locator(".course-play").click()
        page.wait_for_function(f"{STEP} > 5")
        page.locator(".course-play").click()
        assert page.evaluate("flown") == {"in": 0, "out": 0}


def test_it_plays_to_the_end_and_stops(page):
    page.locator(".course-speed").select_option("100")
    page.keyboard.press("Space")
    expect(page.locator(".course-play")).to_have_text("Pause")
    expect(page.locator(".course-play")).to_have_text("Play")
    at_step(page, 63)
    expect(page.locator(".course-caption")).to_have_attribute("aria-live", "polite")
    page.locator(".course-play").click()  # from the beginning again
    expect(page.locator(".course-play")).to_have_text("Pause")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".course-play")).to_have_text("Play")


def test_the_kernel_is_told_the_step_but_not_too_often(page):
    page.locator(".course-speed").select_option("30")
    page.keyboard.press("Space")
    expect(page.locator(".course-play")).to_have_text("Play")
    page.wait_for_function("model.get('step') === 63")
    told = page.evaluate("model.saved")
    assert told[-1] == {"step": 63}
    assert 2 <= len(told) <= 63 / 30 * 4 + 2


def test_the_kernel_may_set_the_step(page):
    page.evaluate("model.set('step', 17)")
    at_step(page, 17)
    page.evaluate("model.set('step', 1000)")
    at_step(page, 63)


def test_an_illegal_revisit_is_marked(browser):
    with open_widget(browser, player("revisits"), width=724) as page:
        problem, o = page.locator(".course-problem"), page.locator(".course-plane").last
        expect(problem).to_contain_text("48 steps of this grid go wrong")
        assert "48 of the steps are marked as wrong" in page.locator(".course-timeline").get_attribute("aria-label")
        assert RED in page.locator(".course-timeline").evaluate(PAINTED)
        page.locator(".course-next-problem").click()
        at_step(page, 16)
        expect(problem).to_contain_text("it is not copied in again")
        expect(page.locator(".course-wrong")).to_have_count(1)
        assert RED in o.evaluate(PAINTED)
        chromium.screenshot(page, "player-revisit")
        page.locator(".course-next-problem").click()
        at_step(page, 17)


def test_a_grid_without_problems_shows_no_mark(page):
    expect(page.locator(".course-problem")).to_be_hidden()
    assert RED not in page.locator(".course-timeline").evaluate(PAINTED)


def test_it_fits_its_width(browser):
    for name in ("matmul", "large", "many operands", "squeezed"):
        with open_widget(browser, player(name, 5), width=724) as page:
            for width in (724, 1224, 420, 724):
                page.set_viewport_size({"width": width, "height": 900})
                page.wait_for_function(FITS)
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                assert BLUE in page.locator(".course-plane").first.evaluate(PAINTED)


def test_it_is_drawn_when_it_gets_its_place_late(browser):
    """Notebooks draw a widget before they put it on the page."""
    with open_widget(browser, player("matmul")) as page:
        page.evaluate(
            """async () => {
            unmount();
            document.getElementById('widget').replaceChildren();
            const apart = document.createElement('div');
            const module = await import(URL.createObjectURL(new Blob([ESM], {type: 'text/javascript'})));
            await module.default.render({ model, el: apart });
            document.body.append(apart);
        }""".replace("ESM", json.dumps(str(viz.GridPlayer._esm)))
        )
        page.wait_for_function("document.querySelector('.course-plane').width > 100")
        page.locator(".course-next").click()
        at_step(page, 1)


def test_many_blocks_are_drawn_together_and_that_is_said(browser):
    with open_widget(browser, player("scattered", 700), width=724) as page:
        notes = page.locator(".course-notes").inner_text()
        assert "x_ref: one square of the picture stands for" in notes
        assert "One column of the timeline stands for about 7 steps" in notes


def test_a_large_grid_opens_and_plays(browser):
    with open_widget(browser, player("large"), width=724) as page:
        page.locator(".course-slider").focus()
        page.keyboard.press("Shift+PageUp")
        at_step(page, 1024)
        page.locator(".course-speed").select_option("3000")
        page.keyboard.press("Space")
        page.wait_for_function(f"{STEP} > 4000")
        page.keyboard.press("Space")
        expect(page.locator(".course-play")).to_have_text("Play")
        page.keyboard.press("End")
        at_step(page, 32_767)
        assert ledger(page)[-1][-2:] == ["2,181,038,080", "2,181,038,080"]
        chromium.screenshot(page, "player-large")


def test_one_of_several_grids_is_chosen(browser):
    fn, args = SAMPLES["matmul"]
    again, _ = SAMPLES["revisits"]
    widget = viz.grid_player(lambda x, y: again(fn(x, y), y), *args)
    with open_widget(browser, widget) as page:
        page.locator(".course-next").click()
        expect(page.locator(".course-problem")).to_be_hidden()
        page.locator(".course-chooser").focus()
        page.keyboard.press("ArrowDown")
        at_step(page, 0)
        expect(page.locator(".course-problem")).to_be_visible()
        expect(page.locator(".course-chooser")).to_be_focused()
        assert page.locator(".course-player .course-ledger").count() == 1
        assert page.evaluate("model.get('call')") == 1


def test_what_cannot_be_read_stands_below(browser):
    fn, args = by_hand(depends_on_data=True)
    with open_widget(browser, viz.grid_player(fn, *args)) as page:
        assert "The copies that kernel makes by hand are not counted" in page.locator(".course-notes").inner_text()
        assert "except what is not counted" in page.locator(".course-ledger tfoot").inner_text()
