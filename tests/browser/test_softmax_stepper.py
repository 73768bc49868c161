"""The softmax stepper in a browser, without a kernel: its figures beside Python's, keys, mouse, masked scores."""

import chromium
import pytest
from test_viz_attention import INF, ROWS, rows
from viz_samples import SCORES
from widget_page import computed, is_too_wide, open_widget

from course_lib import viz
from course_lib.viz.softmax_stepper import softmax_steps
from course_lib.viz.softmax_stepper.softmax_still import cells

browser = chromium.browser
COMPUTED = """({ steps, plain, said, ended }, all) => all.map(([scores, values, block]) => {
    const row = scores.map((score) => score ?? -Infinity), found = steps(row, values, block);
    const says = [...found.keys(), found.length].map((n) => said(found, n));
    return [found.map((s) => [s.shrink, s.total, s.acc]), plain(row, values), says, ended(row, values, block)];
})"""

CUT = "(all) => all.filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.textContent)"


@pytest.fixture
def open_stepper(browser):
    return lambda scores=SCORES, block=4, **page: open_widget(browser, viz.softmax_stepper(scores, block=block), **page)


def table(page) -> list[list[str]]:
    return [row.locator("th, td").all_inner_texts() for row in page.locator("tbody tr").all()]


def expected(scores, block: int = 4, upto: int | None = None) -> list[list[str]]:
    """The table after ``upto`` steps, or all, as Python computes it."""
    found = softmax_steps.steps(
        [-INF if score is None else score for score in scores], range(1, len(scores) + 1), block
    )
    lines = [cells(step, number) for number, step in enumerate(found)]
    return [line if upto is None or n < upto else [line[0], *"·····"] for n, line in enumerate(lines)]


def caption(page) -> str:
    return page.locator(".course-caption").inner_text()


def drag(page, key: int, up: float) -> None:
    """Move the mouse ``up`` scores, with a bar under it."""
    box = page.locator(".course-field").nth(key).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    by = up * box["height"] / (page.evaluate("model.get('high')") - page.evaluate("model.get('low')"))
    for share in (0.3, 0.7, 1):
        page.mouse.move(x, y - share * by)
    page.mouse.up()


def test_the_browser_computes_and_says_what_python_does(open_stepper):
    cases = rows()
    given = [([None if score == -INF else score for score in scores], values, block) for scores, values, block in cases]
    with open_stepper() as page:
        theirs = computed(page, viz.SoftmaxStepper._esm, COMPUTED, given)
    for case, (figures, plain, said, ended) in zip(cases, theirs, strict=True):
        found = softmax_steps.steps(*case)
        ours = [[step.shrink, step.total, step.acc] for step in found]
        assert figures == [pytest.approx(line, abs=1e-12) for line in ours]
        assert plain == pytest.approx(softmax_steps.plain(*case[:2]), abs=1e-12)
        assert said == [softmax_steps.said(found, number) for number in range(len(found) + 1)]
        assert ended == softmax_steps.ended(*case)


def test_forth_and_back_by_buttons_and_keys(open_stepper):
    with open_stepper() as page:
        on, back = (page.get_by_role("button", name=f"One step {where}") for where in ("forward", "back"))
        assert table(page) == expected(SCORES, upto=0)
        on.click()
        page.keyboard.press("ArrowRight")
        assert page.evaluate("model.get('step')") == 2 and table(page) == expected(SCORES, upto=2)
        assert "exp(2.0 - 5.0) = 0.050." in caption(page)
        assert [page.locator(f".course-{kind}").count() for kind in ("seen", "now", "later")] == [4, 4, 4]
        on.click()
        on.press("Enter")
        assert page.evaluate("model.get('step')") == 3 and on.get_attribute("aria-disabled") == "true"
        assert page.locator(".course-end").inner_text().endswith("whole row gives 6.633.")
        page.keyboard.press("ArrowLeft")
        assert page.evaluate("model.get('step')") == 2, "the keys go on from a button that has nothing left to do"
        page.keyboard.press("Home")
        back.press("Enter")
        assert page.evaluate("model.get('step')") == 0 and caption(page).startswith("Before the first block")


def test_a_score_is_changed_by_keys(open_stepper):
    with open_stepper() as page:
        page.keyboard.press("Tab")
        page.keyboard.press("End")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Tab")
        page.keyboard.press("ArrowDown")
        changed = [3, 0.5, *SCORES[2:]]
        assert page.evaluate("model.get('scores')") == changed and table(page) == expected(changed)
        bar = page.get_by_role("slider", name="Score of key 1", exact=True)
        assert bar.get_attribute("aria-valuetext") == "0.5"
        for _ in range(9):
            page.keyboard.press("ArrowDown")
        assert page.evaluate("model.get('scores')[1]") == page.evaluate("model.get('low')"), "no further than the bars"
        page.keyboard.press("Delete")
        masked = [3, None, *SCORES[2:]]
        assert table(page) == expected(masked) and bar.get_attribute("aria-valuetext") == "masked"
        page.keyboard.press("ArrowUp")
        assert page.evaluate("model.get('scores')[1]") == 0.5
        page.get_by_role("button", name="Reset").click()
        assert page.evaluate("model.get('scores')") == SCORES and page.evaluate("model.get('step')") == 0


def test_a_score_is_changed_by_mouse(open_stepper):
    with open_stepper() as page:
        page.keyboard.press("Tab")
        page.keyboard.press("End")
        drag(page, 8, 3)
        changed = [*SCORES[:8], 6, *SCORES[9:]]
        assert page.evaluate("model.get('scores')") == changed and table(page) == expected(changed)
        assert "grows from 5.0 to 6.0" in caption(page)
        page.mouse.move(300, 20)
        page.keyboard.press("ArrowUp")
        assert page.evaluate("model.get('scores')[8]") == 6.5, "the keys go on from the bar"
        page.locator(".course-field").nth(0).dblclick()
        assert page.evaluate("model.get('scores')[0]") is None and page.locator(".course-masked").count() == 1
        drag(page, 0, -1)
        assert page.evaluate("model.get('scores')[0]") == -1


def test_a_row_masked_from_left_to_right(open_stepper):
    with open_stepper([1, 2, 3, 4, 5], 2) as page:
        page.keyboard.press("Tab")
        page.keyboard.press("End")
        for key in range(5):
            page.keyboard.press("Delete")
            page.keyboard.press("Tab")
            scores = [None] * (key + 1) + [1, 2, 3, 4, 5][key + 1 :]
            assert table(page) == expected(scores, 2) and "NaN" not in page.locator("#widget").inner_text()
        assert page.locator(".course-end").inner_text().endswith("the result is 0 by convention.")
        assert page.locator(".course-m:visible").count() == 0


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("width", [900, 320])
def test_words_stay_in_their_columns_and_the_block_in_view(browser, name, width):
    with open_widget(browser, ROWS[name], width=width) as page:
        for step in (0, 1, 24):  # 24 stands for the last
            page.evaluate("(step) => model.set('step', step)", step)
            assert page.locator(".course-row span:not(.course-block)").evaluate_all(CUT) == []
            assert not is_too_wide(page)
        now, row = page.locator(".course-now").first.bounding_box(), page.locator(".course-wide").first.bounding_box()
        assert row["x"] <= now["x"] and now["x"] + now["width"] <= row["x"] + row["width"]
