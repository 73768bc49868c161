"""The bundle viewer in a browser, without a kernel: keys, mouse, jumps, other widths, words."""

import dataclasses

import chromium
import pytest
from bundle_samples import LINE, code, viewer
from widget_page import computed, open_widget

from course_lib import viz
from course_lib.compiler import Loop
from course_lib.viz.bundle_viewer import bundle_data

READ = """(module, data, cells) => ({
    uses: [...module.usesOf(data).uses], times: data.rows.map((_, row) => module.times(data, row)),
    words: cells.map(([row, column]) => module.cellWords(data, row, column)),
})"""
CELLS = {
    (20, "load"): ", 1 of 3 in use: v1 = vld [vmem:[s2]], from kernel.py line 7, x_ref[...] * 2.0",
    (20, "VPU"): ": nothing",
    (21, "EUP"): ", 0 of 1 in use: vpow2.f32 v2, from kernel.py line 7, jnp.exp(x_ref[...] * 2.0)",
    (22, "EUP"): ", 1 of 1 in use: still working on earlier operations",
    (24, "load"): ", 1 of 3 in use: used by an operation in another column",
    (24, "DMA"): ": dma.done.wait s2, 4",
}
OPENS_MS = 1500  # on a machine of two cores that does other things; it takes 100 to 300


browser = chromium.browser


@pytest.fixture
def open_viewer(browser):
    return lambda width=900, **changes: open_widget(browser, viewer(**changes), width=width)


def details(page) -> str:
    return " ".join(page.locator(".course-details").inner_text().split())


def loop(page) -> str:
    return page.locator(".course-loop").inner_text()


def active(page) -> str:
    """What the cell that the keys are at says of itself."""
    return page.evaluate(
        "document.getElementById(document.querySelector('[role=grid]').getAttribute('aria-activedescendant'))?.ariaLabel"
    )


def read(page, data: dict, cells=()) -> dict:
    asked = [[row, data["units"].index(unit)] for row, unit in cells]
    return computed(page, viz.BundleViewer._esm, READ, data, asked)


@pytest.mark.parametrize("loops", [None, (Loop(first=3, last=3, turns=None), Loop(first=5, last=9, turns=1))])
def test_the_browser_counts_as_python_does(open_viewer, loops):
    program = code(loops=loops)
    data = bundle_data.data(program)
    with open_viewer() as page:
        found = read(page, data)
    rows, columns = range(len(data["rows"])), range(len(data["units"]))
    assert found["uses"] == [bundle_data.use(data, row, column) for row in rows for column in columns]
    assert found["times"] == [program.times(row) for row in rows]


def test_cells_in_words(open_viewer):
    in_a_cell = code(sources={("1234.py", 7): LINE})
    moved = [
        dataclasses.replace(b, places=tuple(p and p._replace(file="1234.py") for p in b.places))
        for b in in_a_cell.bundles
    ]
    nameless = code(bundles=tuple(moved), sources=in_a_cell.sources)
    with open_viewer() as page:
        found = read(page, bundle_data.data(code()), CELLS)["words"]
        assert found == [f"bundle {row}, {unit}{said}" for (row, unit), said in CELLS.items()]
        (said,) = read(page, bundle_data.data(nameless), [(20, "load")])["words"]
        assert "s2]], from line 7, x_ref" in said, "a notebook's cell has no file to name"


def test_it_opens_at_the_busiest_loop(open_viewer):
    with open_viewer() as page:
        assert (
            loop(page) == "Loop of 12 bundles, 20 to 31. It runs 13 iterations each time the loop around it reaches it."
        )
        assert details(page).startswith("Bundle 20, issued 117 times at most")
        assert "load v1 = vld [vmem:[s2]] kernel.py line 7: o_ref[...] = jnp.exp(x_ref[...] * 2.0)" in details(page)
        assert page.locator(".course-details mark").first.inner_text() == "x_ref[...] * 2.0"
        assert page.locator(".course-first").count() == 1


def test_keys_go_from_bundle_to_bundle_and_from_unit_to_unit(open_viewer):
    with open_viewer() as page:
        page.locator("[role=grid]").focus()
        page.keyboard.press("ArrowDown")
        assert page.evaluate("model.get('row')") == 21 and page.evaluate("model.saved") == [{"row": 21}]
        assert active(page) == (
            "bundle 21, VPU, 2 of 4 in use: v2 = vmul.f32 2.0, v1, from kernel.py line 7, x_ref[...] * 2.0"
        )
        page.keyboard.press("ArrowRight")
        assert active(page).startswith("bundle 21, EUP, 0 of 1 in use: vpow2.f32 v2, from kernel.py line 7, jnp.exp(")
        page.keyboard.press("ArrowDown")
        assert active(page) == "bundle 22, EUP, 1 of 1 in use: still working on earlier operations"
        for _ in range(9):
            page.keyboard.press("ArrowRight")
        assert active(page).startswith("bundle 22, DMA")
        page.keyboard.press("End")
        assert page.evaluate("model.get('row')") == 59 and active(page).startswith("bundle 59, DMA")
        assert loop(page) == "In no loop." and details(page).startswith("Bundle 59, issued once")
        page.keyboard.press("PageUp")
        assert page.evaluate("model.get('row')") == 43
        page.keyboard.press("Home")
        assert page.evaluate("model.get('row')") == 0 and page.locator(".course-rows").evaluate("e => e.scrollTop") == 0


def test_the_mouse_shows_and_chooses(open_viewer):
    with open_viewer() as page:
        page.locator("[data-row='22']").hover()
        assert details(page).startswith("Bundle 22, issued 117 times at most VPU v4 = vmul.f32 2.0, v3")
        assert page.evaluate("model.get('row')") == 20, "the pointer looks, a click goes there"
        page.locator("[data-row='22'] [data-column='1']").click()
        assert page.evaluate("model.get('row')") == 22 and active(page).startswith("bundle 22, EUP")
        strip = page.locator(".course-strip").bounding_box()
        page.mouse.click(strip["x"] + strip["width"] - 2, strip["y"] + strip["height"] / 2)
        assert page.evaluate("model.get('row')") == 59
        assert page.locator("[data-row='59']").is_visible()
        page.get_by_role("button", name="Busiest loop").click()
        assert page.evaluate("model.get('row')") == 20
        page.get_by_role("button", name="Next loop").click()
        assert page.evaluate("model.get('row')") == 10, "after the last the first again"
        assert page.evaluate("document.activeElement.getAttribute('role')") == "grid"


def test_a_long_program_opens_fast_and_draws_what_is_seen(open_viewer):
    with open_viewer(length=20_000, loops=(Loop(first=10, last=19_000, turns=9),)) as page:
        page.locator("[data-row='10']").wait_for()
        assert page.evaluate("window.openedMs") < OPENS_MS
        assert page.locator("[data-row]").count() < 30
        page.locator(".course-rows").evaluate("e => { e.scrollTop = 12000 * 24; }")
        page.locator("[data-row='12000']").wait_for()
        assert page.locator("[data-row]").count() < 30
        assert page.locator("[role=grid]").get_attribute("aria-rowcount") == "20000"


def test_a_program_without_loops(open_viewer):
    with open_viewer(length=7, loops=()) as page:
        assert loop(page) == "In no loop." and page.get_by_role("button", name="Busiest loop").is_disabled()
        assert page.locator("[data-row]").count() == 7


@pytest.mark.parametrize("width", [480, 760])
def test_the_names_of_units_can_be_read_and_wide_rows_have_words(open_viewer, width):
    with open_viewer(width) as page:
        heads = page.locator(".course-columns .course-cell")
        assert heads.evaluate_all("all => all.filter((e) => e.scrollWidth > e.clientWidth + 1).length") == 0
        assert (page.locator(".course-row .course-words").count() > 0) == (width >= 760)
