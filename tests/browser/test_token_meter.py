"""The token meter in a browser, without a kernel: its arithmetic and words beside Python's, its controls, its bars."""

import itertools

import chromium
import pytest
from test_viz_token_meter import LLAMA, SETTINGS, memory
from widget_page import computed, is_too_wide, open_widget

from course_lib import viz
from course_lib.viz.token_meter.decode_costs import Cost, Model, binds, cost, fits, milliseconds, rate
from course_lib.viz.token_meter.token_meter import CHIPS

browser = chromium.browser
COMPUTED = """({ cost, milliseconds, rate, binds, fits }, all) => all.map(([model, setting, memory]) => {
    const found = cost(model, setting, memory);
    return [found, [milliseconds(found.kept_s), rate(found.total), binds(found), fits(found, memory)]];
})"""
MODELS = (LLAMA, Model(1e6, 1, 1, 1), Model(70.6e9, 80, 8, 128), Model(1e13, 1000, 1024, 1024))
# In percent of the track: where each part begins, and how long it is.
SHARES = (
    """(all) => all.map((e) => [e.offsetLeft, e.offsetWidth].map((n) => (100 * n) / e.parentElement.clientWidth))"""
)
CUT = "(all) => all.filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.textContent)"


@pytest.fixture
def page(browser):
    with open_widget(browser, viz.token_meter()) as page:
        yield page


def said(page, part: str) -> str:
    return page.locator(f".course-{part}").inner_text()


def test_the_browser_computes_and_says_what_python_does(page):
    cases = list(itertools.product(MODELS, SETTINGS, map(memory, CHIPS)))
    given = [[each._asdict() for each in case] for case in cases]
    theirs = computed(page, viz.TokenMeter._esm, COMPUTED, given)
    for case, (figures, words) in zip(cases, theirs, strict=True):
        ours = cost(*case)
        assert Cost(**figures) == pytest.approx(ours, rel=1e-12)
        assert words == [milliseconds(ours.kept_s), rate(ours.total), binds(ours), fits(ours, case[2])]


def test_it_opens_with_eight_sequences_on_a_v5e(page):
    assert said(page, "total") == "395 tokens/s in all" and said(page, "each") == "49.3 tokens/s for each sequence"
    assert page.locator(".course-words").all_inner_texts()[:2] == ["9.79 ms, 7.479 GiB", "10.5 ms, 8 GiB"]
    assert said(page, "binds") == "The KV cache takes longer: 52 % of a step." and "It fits" in said(page, "fits")
    first, second, *kept = page.locator(".course-track i").evaluate_all(SHARES)
    assert (
        first[0] == 0 and first[1] == pytest.approx(second[0], abs=0.5) and sum(second) == pytest.approx(100, abs=0.5)
    )
    assert page.evaluate("model.saved") == []
    assert kept[0][1] == pytest.approx(kept[1][0], abs=0.5) and sum(kept[1]) < 100, (
        "what is left of the memory is empty"
    )


def test_every_control_changes_its_trait(page):
    sequences, context = page.locator(".course-sequences input"), page.locator(".course-context input")
    sequences.focus()
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("model.get('sequences')") == 7 and said(page, "binds").startswith("The weights take longer")
    page.keyboard.press("End")
    assert page.evaluate("model.get('sequences')") == 256
    assert said(page, "fits").startswith("It does not fit") and page.locator(".course-over").count() == 1
    context.focus()
    page.keyboard.press("Home")
    assert page.evaluate("model.get('context')") == 256
    page.keyboard.press("ArrowRight")
    assert page.evaluate("model.get('context')") == 384
    page.keyboard.press("End")
    assert page.evaluate("model.get('context')") == 131_072
    assert context.get_attribute("aria-valuetext") == "131,072 tokens"
    page.get_by_label("Weights").select_option("2")
    page.get_by_label("KV cache").select_option("1")
    page.get_by_label("Chip").select_option("v5p")
    names = ("weight_bytes", "kept_bytes", "chip")
    assert [page.evaluate("(name) => model.get(name)", name) for name in names] == [2, 1, "v5p"]
    found = cost(LLAMA, SETTINGS[-1]._replace(kept_bytes=1), memory("v5p"))
    assert said(page, "total") == f"{rate(found.total)} in all"
    assert {"chip": "v5p"} in page.evaluate("model.saved")


def test_a_context_that_the_slider_does_not_have_is_shown_as_it_is(page):
    page.evaluate("model.set('context', 1000)")
    assert page.locator(".course-context b").inner_text() == "1,000 tokens"
    assert page.locator(".course-context input").input_value() == "4", "1,024 is the nearest"
    assert page.evaluate("model.saved") == []


@pytest.mark.parametrize("width", [320, 760, 1200])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_words_stay_in_their_places(browser, model, width):
    with open_widget(browser, viz.token_meter(*model), width=width) as page:
        for sequences, context in ((8, 8192), (1, 256), (256, 131_072)):
            page.evaluate("(given) => model.put(given)", {"sequences": sequences, "context": context})
            for part in (".course-words", ".course-name", ".course-field", ".course-rates > *", "p"):
                assert page.locator(part).evaluate_all(CUT) == []
            assert not is_too_wide(page)
        page.evaluate("model.put({sequences: 8, context: 8192})")
        chromium.screenshot(page, f"token_meter-{model.layers}-{width}")
