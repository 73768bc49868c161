"""The memory ladder in a browser, without a kernel: other chips, views, sizes by mouse and keys; times beside ours."""

import itertools

import chromium
import pytest
from widget_page import computed, is_too_wide, open_widget

from course_lib import viz
from course_lib.viz.memory_ladder import memory_rungs

SIZES = (4, 4096, 1 << 20, 123_456_789, 1 << 30, 64 << 30)


browser = chromium.browser


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
        times = "({ timeWords }, cases) => cases.map((each) => timeWords(...each))"
        theirs = computed(page, viz.MemoryLadder._esm, times, cases)
    assert theirs == [memory_rungs.time_words(*case) for case in cases]


def test_it_opens_with_a_v5e(open_ladder):
    with open_ladder() as page:
        assert page.locator(".course-title").inner_text() == "The memories of a v5e"
        assert "820 GB/s R" in row(page, "HBM") and row(page, "HBM").endswith("2.04 us")
        assert "not published" in row(page, "VMEM")
        bars = page.locator(".course-bandwidth .course-track i").evaluate_all("all => all.map((e) => e.offsetWidth)")
        assert bars[0] > bars[2] > bars[3] > bars[4] > bars[5] > bars[1], "registers, VMEM, HBM, link, host, SMEM"
        assert page.evaluate("model.saved") == []


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


def test_each_figure_says_whose_it_is(open_ladder):
    with open_ladder() as page:
        named = page.locator("tbody .course-whose").evaluate_all("all => all.map((e) => [e.textContent, e.title])")
        assert dict(named).items() <= memory_rungs.WHOSE.items() and len(named) > 10
        legend = page.locator(".course-legend").inner_text()
        assert all(words in legend for words in memory_rungs.WHOSE.values())


@pytest.mark.parametrize("chip, width", [("v5p", 480), ("tpu7x", 760)])
def test_no_words_leave_their_cell(open_ladder, chip, width):
    with open_ladder(chip, width=width) as page:
        cells = page.locator(".course-ladder :is(td, th):visible")
        cut = cells.evaluate_all(
            "all => all.filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent)"
        )
        assert cut == [] and not is_too_wide(page)
