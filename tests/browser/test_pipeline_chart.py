"""The pipeline chart in a browser, without a kernel: its steps beside Python's; controls, keys, play, widths."""

import dataclasses
import itertools

import chromium
import numpy as np
import pytest
from test_viz_pipeline_chart import CHARTS
from widget_page import computed, is_too_wide, open_widget, smallest_letters

from course_lib import viz
from course_lib.roofline import pipeline
from course_lib.viz.common.draw import stride
from course_lib.viz.pipeline_chart import pipeline_lanes, pipeline_words
from course_lib.viz.pipeline_chart.pipeline_lanes import Settings

COMPARED = """(module, data, settings) => settings.map((s) => {
    const found = module.played(data, s), bars = module.bars(found, s);
    return { ...found, bars, lanes: module.lanes(data, s), title: module.title(data, s),
        readout: module.readout(data, s, found), hints: module.hints(data, s, found),
        bubbled: found.bubbles.map(([n, from, to]) => module.bubble(n, to - from, found.steps.length)),
        stride: module.stride(found.end) };
})"""
# Words on the plot that lie on others, or reach out of it.
COVERED = """() => {
    const plot = document.querySelector('.course-plot').getBoundingClientRect();
    const all = [...document.querySelectorAll('.course-plot text')];
    const words = all.map((text) => [text.textContent, text.getBoundingClientRect()]);
    const outside = words.filter(([, box]) => box.left < plot.left - 1 || box.right > plot.right + 1);
    const meet = (a, b) => a.left < b.right && b.left < a.right && a.top + 4 < b.bottom && b.top + 4 < a.bottom;
    const over = ([one, a], n) => words.slice(n + 1).filter(([, b]) => meet(a, b)).map(([other]) => [one, other]);
    return [outside.map(([text]) => text), words.flatMap(over)];
}"""


browser = chromium.browser


@pytest.fixture
def open_chart(browser):
    return lambda chart=None, **more: open_widget(browser, chart or viz.pipeline_chart(), **{"width": 760} | more)


def shown(page) -> dict:
    names, values = page.locator("dt").all_text_contents(), page.locator("dd").all_text_contents()
    return dict(zip(names, values, strict=True))


def step(page) -> int:
    return page.evaluate("model.get('step')")


def caption(page) -> str:
    return page.locator(".course-caption").inner_text()


WAYS = [  # buffers, block, work, shown, latency
    (1, 1.0, 40.0, 8, "compiler"),
    (2, 1.0, 250.0, 8, "compiler"),
    (3, 0.25, 700.5, 5, "timings"),
    (8, 16.0, 9000.0, 32, "compiler"),
    (2, 0.5, 12.0, 20, "timings"),
]


def test_the_browser_plays_what_python_plays(open_chart):
    charts = {name: make() for name, make in CHARTS.items()}
    ways = [Settings(**dict(zip(("buffers", "block", "work", "shown", "latency"), way, strict=True))) for way in WAYS]
    with open_chart() as page:
        for name, chart in charts.items():
            own = [chart.settings, *ways]
            theirs = computed(page, chart._esm, COMPARED, chart.data, list(map(dataclasses.asdict, own)))
            for s, their in zip(own, theirs, strict=True):
                compare(chart.data, s, their, name)


def compare(data: dict, s: Settings, their: dict, name: str) -> None:
    """What the browser makes of a chart with these settings, beside what Python makes of it."""
    found = pipeline_lanes.played(data, s)
    assert set(their["steps"][0]) == set(pipeline.Step._fields)
    theirs = [[numbered(step[field]) for field in pipeline.Step._fields] for step in their["steps"]]
    ours = [list(map(numbered, step)) for step in found.steps]
    np.testing.assert_allclose(theirs, ours, rtol=1e-9, atol=1e-6, err_msg=f"{name}, {s}")
    assert {part: numbered(value) for part, value in their["parts"].items()} == pytest.approx(
        {part: numbered(value) for part, value in found.parts.items()}
    )
    for figure in ("read", "work", "step", "end"):
        assert their[figure] == pytest.approx(getattr(found, figure), rel=1e-9), (name, figure, s)
    assert their["bound"] == found.bound and their["stride"] == stride(found.end, 8)
    assert [number for number, *_ in their["bubbles"]] == [number for number, *_ in found.bubbles]
    drawn = pipeline_lanes.bars(found, s)
    assert [tuple(bar[:3]) for bar in their["bars"]] == [bar[:3] for bar in drawn], (name, s)
    ends = [[bar[3:] for bar in bars] for bars in (their["bars"], drawn)]
    assert list(itertools.chain(*ends[0])) == pytest.approx(list(itertools.chain(*ends[1])), abs=1e-6), (name, s)
    assert their["lanes"] == pipeline_lanes.lanes(data, s) and their["title"] == pipeline_words.title(data, s)
    assert list(map(tuple, their["readout"])) == pipeline_words.readout(data, s, found)
    assert their["hints"] == pipeline_words.hints(data, s, found)
    bubbles = [bar for bar in drawn if bar.kind == "bubble"]
    assert their["bubbled"] == [pipeline_words.bubble(bar, len(found.steps)) for bar in bubbles]


def numbered(time: float | None) -> float:
    return -1.0 if time is None else time


EVERY_SECOND = {"reads": [32 << 10, 0] * 128}
SAID = [
    ("plain", {}, 1, "fills buffer 1 until 1,277. The core does not wait. It works from 1,459 to 1,709."),
    ("plain", {}, 2, "Step 2: its read, requested at 1,459, fills buffer 0 until 2,736. The core waits 1,027 cycles "
     "for it. It works from 2,736 to 2,986. The result leaves from 2,986 on and is gone at 3,502."),
    ("plain", EVERY_SECOND, 3, "Step 3 reads nothing ahead. The core does not wait."),
    ("plain", EVERY_SECOND, 4, "Step 4: its read, requested at 2,986, fills buffer 0 until"),
    ("plain, many buffers", {}, 10, "buffer 2 until 1,915. The core waits 194 cycles for the write of step 8."),
    ("one buffer", {}, 1, "fills buffer 0 until 2,571. The core waits 1,209 cycles for it."),
    ("a row alone", {}, 4, "until 4,920. A block that has one buffer is requested at 4,920. The core waits 1,861"),
    ("a row alone", {}, 5, "until 5,368. The core does not wait."),
]  # fmt: skip


def test_a_step_in_words(open_chart):
    with open_chart() as page:
        for name, changes, step, says in SAID:
            chart = CHARTS[name]()
            caption = "(module, data, s, n) => module.caption(s, module.played(data, s), n)"
            given = chart.data | changes, dataclasses.asdict(chart.settings), step
            assert says in computed(page, chart._esm, caption, *given), (name, step)


def test_the_controls_change_the_pipeline(open_chart):
    with open_chart() as page:
        assert shown(page)["binds"] == "grid steps"
        page.get_by_label("buffers").select_option("4")
        assert page.locator(".course-plot text", has_text="buffer 3").count() == 1
        assert "emit_pipeline" in page.locator(".course-hints").inner_text()
        page.get_by_label("work, cycles a step").fill("1500")
        page.get_by_label("work, cycles a step").press("Enter")
        assert shown(page)["binds"] == "compute" and page.evaluate("model.get('work')") == 1500
        page.get_by_label("block").select_option(label="64 KiB")
        assert page.get_by_label("work, cycles a step").input_value() == "3000", "the work grows with the block"
        assert page.evaluate("model.get('work')") == 1500
        page.get_by_label("steps shown").fill("3")
        page.get_by_label("steps shown").press("Enter")
        assert shown(page)["bubbles"] == "1 in the 3 steps shown"
        page.get_by_label("latency").select_option("timings")
        assert "Latency of a read 742 cycles" in page.locator(".course-hints").inner_text()
        page.get_by_role("button", name="Back to the kernel's own pipeline").click()
        assert page.evaluate("[model.get('buffers'), model.get('block'), model.get('work'), model.get('shown')]") == [
            2, 1, 250, 8,
        ]  # fmt: skip


def test_nonsense_in_a_box_is_said_and_not_taken(open_chart):
    with open_chart() as page:
        for nonsense, taken in (("", "250"), ("2.5", "250"), ("0", "1"), ("99999999", "1000000")):
            page.get_by_label("work, cycles a step").fill(nonsense)
            page.get_by_label("work, cycles a step").press("Enter")
            assert "is not valid" in page.locator(".course-message").inner_text(), nonsense
            assert page.get_by_label("work, cycles a step").input_value() == taken
            page.get_by_role("button", name="Back to the kernel's own pipeline").click()
        assert page.locator(".course-message").inner_text() == ""


def test_the_keyboard_goes_through_the_steps(open_chart):
    with open_chart() as page:
        page.locator(".course-plot").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        assert step(page) == 2 and caption(page).startswith("Step 2: its read")
        assert page.locator(".course-plot").get_attribute("aria-valuetext") == caption(page)
        page.keyboard.press("End")
        assert step(page) == 7 and page.locator(".course-plot").get_attribute("aria-valuenow") == "7"
        page.keyboard.press("ArrowRight")
        assert step(page) == 7
        page.keyboard.press("Home")
        page.keyboard.press("ArrowLeft")
        assert step(page) == 0
        page.keyboard.press("ArrowUp")
        assert page.evaluate("model.get('buffers')") == 3
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        assert page.evaluate("model.get('buffers')") == 1
        assert "nothing hides it" in page.locator(".course-hints").inner_text()
        assert page.evaluate("document.activeElement.className") == "course-plot", "the focus stays"


def test_the_mouse_chooses_a_step(open_chart):
    with open_chart() as page:
        page.locator(".course-work[data-step='4']").click()
        assert step(page) == 4 and caption(page).startswith("Step 4")
        page.locator(".course-latency[data-step='5']").click()
        assert step(page) == 5
        page.locator(".course-plot text", has_text="step").click(force=True)
        assert step(page) == 0, "the place in time counts where there is no bar"
        assert page.evaluate("model.saved.length") == 3


@pytest.mark.parametrize("still", [False, True])
def test_it_plays_to_the_last_step(open_chart, still):
    chart = viz.pipeline_chart(shown=2)
    with open_chart(chart, reduced_motion=still) as page:
        page.get_by_role("button", name="Play the steps").click()
        assert page.locator(".course-play").inner_text() == "Pause"
        page.wait_for_function("model.get('step') === 1")
        cursor = page.locator(".course-cursor").get_attribute("visibility")
        assert cursor == ("hidden" if still else "visible")
        page.wait_for_function("document.querySelector('.course-play').textContent === 'Play'")
        assert step(page) == 1 and page.evaluate("model.saved.at(-1)") == {"step": 1}
        page.locator(".course-plot").focus()
        page.keyboard.press("Space")
        assert page.locator(".course-play").inner_text() == "Pause" and step(page) == 0, "from the start again"
        page.keyboard.press("Space")
        assert page.locator(".course-play").inner_text() == "Play"


def test_what_the_kernel_sets_is_shown(open_chart):
    with open_chart() as page:
        page.evaluate("model.set('buffers', 5)")
        assert page.locator(".course-plot text", has_text="buffer 4").count() == 1
        page.evaluate("model.set('step', 99)")
        assert caption(page).startswith("Step 7")


@pytest.mark.parametrize("width", [480, 1100])
def test_it_fits_its_width_and_no_words_lie_on_others(open_chart, width):
    for name in ("a row alone", "by hand"):
        with open_chart(CHARTS[name](), width=width) as page:
            for buffers, number in ((2, 8), (8, 32), (1, 5)):
                page.evaluate("([b, n]) => { model.set('buffers', b); model.set('shown', n); }", [buffers, number])
                assert not is_too_wide(page) and smallest_letters(page) >= 13, name
                assert page.evaluate(COVERED) == [[], []], (name, buffers, number)
