"""The memory ladder in a browser, without a kernel: other chips, views, sizes by mouse and keys; times beside ours."""

import itertools

import chromium
import pytest
from widget_page import is_too_wide, open_widget, smallest_letters

from course_lib import text, viz
from course_lib.viz.memory_ladder import memory_rungs

MODULE = "(esm) => import(URL.createObjectURL(new Blob([esm], {type: 'text/javascript'})))"
COMPARED = f"""async ([esm, cases]) => {{
    const {{ timeWords }} = await ({MODULE})(esm);
    return cases.map((each) => timeWords(...each));
}}"""
SIZES = (4, 4096, 1 << 20, 123_456_789, 1 << 30, 64 << 30)


@pytest.fixture(scope="module")
def browser():
    with chromium.open_browser() as browser:
        yield browser


@pytest.fixture
def open_ladder(browser):
    return lambda chip="v5e", **more: open_widget(browser, viz.memory_ladder(chip=chip), **more)


def row(page, name: str) -> str:
    line = page.locator("tbody tr", has=page.get_by_text(name, exact=True))
    return " ".join(line.inner_text().split())


def test_times_in_the_browser_are_pythons(open_ladder):
    ladders = [memory_rungs.ladder(name)["rungs"] for name in memory_rungs.NAMES]
    cases = list(itertools.product(itertools.chain(*ladders), memory_rungs.VIEWS, SIZES))
    with open_ladder() as page:
        theirs = page.evaluate(COMPARED, [str(viz.MemoryLadder._esm), cases])
    assert theirs == [memory_rungs.time_words(*case) for case in cases]


def test_it_opens_with_a_v5e(open_ladder):
    with open_ladder() as page:
        assert page.locator(".course-title").inner_text() == "The memories of a v5e"
        assert "820 GB/s R" in row(page, "HBM") and row(page, "HBM").endswith("2.04 us")
        assert "not published" in row(page, "VMEM")
        bars = page.locator(".course-bandwidth .course-track i").evaluate_all("all => all.map((e) => e.offsetWidth)")
        assert bars[0] > bars[2] > bars[3] > bars[4] > bars[5] > bars[1], "registers, VMEM, HBM, link, host, SMEM"
        assert page.evaluate("model.saved") == [] and page.errors == []


def test_another_chip_the_whole_of_it_and_other_sizes(open_ladder):
    with open_ladder() as page:
        page.get_by_label("Chip", exact=True).select_option("v5p")
        assert page.locator(".course-title").inner_text() == "The memories of a v5p"
        assert "1.23 TB/s" in row(page, "HBM")
        page.get_by_label("A core, or the whole chip").select_option("chip")
        assert "2.46 TB/s" in row(page, "HBM") and "128 MiB" in row(page, "VMEM")
        assert "v5p, the whole chip: 1 MiB from HBM take 816 ns." in page.locator(".course-status").inner_text()
        slider = page.get_by_label("Bytes, on a log scale")
        slider.focus()
        for _ in range(4):
            page.keyboard.press("ArrowRight")
        assert page.evaluate("model.get('bytes')") == 2 << 20
        assert page.locator("thead").inner_text().strip().endswith("2 MiB take")
        assert row(page, "the host").endswith("at least 131 us")
        page.get_by_label("Chip", exact=True).select_option("h200")
        assert "4.8 TB/s" in row(page, "HBM") and "of all SMs" in row(page, "L2 cache")
        assert page.evaluate("model.saved").count({"chip": "h200"}) == 1
        suppressed = "[...document.querySelectorAll('.course-ladder :is(input, select)')]"
        assert page.evaluate(f"{suppressed}.every((e) => e.dataset.lmSuppressShortcuts === 'true')")
        assert page.errors == []


def test_each_figure_says_whose_it_is(open_ladder):
    with open_ladder() as page:
        named = page.locator("tbody .course-whose").evaluate_all("all => all.map((e) => [e.textContent, e.title])")
        assert dict(named).items() <= memory_rungs.WHOSE.items() and len(named) > 10
        legend = page.locator(".course-legend").inner_text()
        assert all(words in legend for words in memory_rungs.WHOSE.values())


@pytest.mark.parametrize("chip, width, dark", [("v5p", 480, False), ("tpu7x", 760, True)])
def test_it_fits_its_width_and_stays_a_white_card(open_ladder, chip, width, dark):
    with open_ladder(chip, width=width, dark=dark) as page:
        assert not is_too_wide(page) and smallest_letters(page) >= 13
        style = "(name) => getComputedStyle(document.querySelector('.course-ladder'))[name]"
        assert page.evaluate(style, "backgroundColor") == "rgb(255, 255, 255)"
        cells = page.locator(".course-ladder :is(td, th):visible")
        cut = cells.evaluate_all(
            "all => all.filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent)"
        )
        assert cut == [], "no words leave their cell"
        chromium.screenshot(page, f"memory-ladder-{width}")


def test_what_the_kernel_sets_is_shown_until_it_goes_away(open_ladder):
    with open_ladder() as page:
        page.evaluate("model.set('bytes', 4096)")
        assert page.locator(".course-bytes").inner_text() == text.size(4096)
        page.evaluate("unmount()")
        page.evaluate("model.set('chip', 'v4')")
        assert page.errors == []
