"""The roof plot in a browser, without a kernel: drag, keys, controls, other widths; its model beside roofline's."""

import itertools
import math

import chromium
import pytest
from shapes import apart
from widget_page import computed, is_too_wide, open_widget

from course_lib import chips, viz
from course_lib.viz.roof_plot import blocked_product
from course_lib.viz.roof_plot.roof_plot import hints, readout

SETTINGS = ("m", "k", "n", "bm", "bk", "bn", "ideal", "dtype", "chip")
PUBLISHED = viz.Point(
    name="blocks of 512, 1024, 1024",
    flops=2 * 4096**3,
    hbm_bytes=436e6,
    seconds=0.83e-3,
    measured_by="somebody, 2024",
)
COMPARED = """(module, chips, settings) => settings.map((s) => {
    const chip = chips[s.chip], found = module.predicted(s, chip);
    return [found, module.binds(found), module.readout(s, chip), module.hints(s, chip)];
})"""
# Words on the plot that reach out of it, and sizes of letters.
OUTSIDE = """() => {
    const svg = document.querySelector('.course-plot svg').getBoundingClientRect();
    return [...document.querySelectorAll('.course-plot text')].filter((text) => {
        const box = text.getBoundingClientRect();
        const beside = box.left < svg.left - 1 || box.right > svg.right + 1;
        return beside || box.top < svg.top - 1 || box.bottom > svg.bottom + 1;
    }).map((text) => text.textContent);
}"""


# The corners of all words on the plot, and of its marks, in each of some states.
SHAPES = """(states) => states.map((settings) => {
    model.put(settings);
    return [...document.querySelectorAll('.course-plot text, .course-dot, .course-measured')].map((shape) => {
        const box = shape.getBBox(), m = shape.getScreenCTM(), is_text = shape.tagName === 'text';
        const low = is_text ? 0.22 * box.height : 0, left = box.x, right = box.x + box.width;
        const corners = [[left, box.y + low], [right, box.y + low]].concat(
            [[right, box.y + box.height - low], [left, box.y + box.height - low]]);
        const placed = corners.map(([x, y]) => [m.a * x + m.c * y + m.e, m.b * x + m.d * y + m.f]);
        return [is_text ? shape.textContent : '', placed];
    });
})"""


browser = chromium.browser


@pytest.fixture
def open_plot(browser):
    return lambda **settings: open_widget(browser, viz.roof_plot(**settings), width=700)


def state(page) -> dict:
    return page.evaluate("(names) => Object.fromEntries(names.map((name) => [name, model.get(name)]))", SETTINGS)


def shown(page) -> dict:
    names, values = page.locator("dt").all_text_contents(), page.locator("dd").all_text_contents()
    return dict(zip(names, values, strict=True))


def place(page, selector: str) -> tuple[float, float]:
    """The middle of a shape."""
    box = page.locator(selector).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def height(page, roof: str) -> float:
    return float(page.locator(roof).get_attribute("y2"))


def drag(page, right: float, down: float) -> None:
    x, y = place(page, ".course-dot")
    page.mouse.move(x, y)
    page.mouse.down()
    for share in (0.25, 0.5, 1):
        page.mouse.move(x + share * right, y + share * down)
    page.mouse.up()


def test_the_browser_computes_what_roofline_predicts(open_plot):
    """Many products; kernels go to the chips in turn, for to read one takes 10 ms."""
    shapes = [
        (4096, 4096, 4096),
        (720, 720, 720),
        (16, 4096, 1000),
        (1, 1, 1),
        (1100, 300, 2700),
        (1537, 1025, 1281),
        (2048, 640, 128),
        (512, 512, 2048),
        (65536, 65536, 65536),
    ]
    blocks = [(512, 1024, 1024), (128, 128, 128), (32, 384, 256), (1024, 128, 512), (8192, 8192, 8192)]
    among = itertools.product(shapes, [*((b, False) for b in blocks), (blocks[0], True)], blocked_product.ITEMSIZE)
    settings = [
        dict(zip(SETTINGS, (*shape, *block, ideal, dtype, chip), strict=True))
        for number, (shape, (block, ideal), dtype) in enumerate(among)
        for chip in (chips.NAMES if ideal else (chips.NAMES[number % 5],))
    ]
    settings = [s for s in settings if s["ideal"] or math.prod(product_of(s).grid) < 20_000]
    rates = {name: blocked_product.rates(chip=name) for name in chips.NAMES}
    with open_plot() as page:
        theirs = computed(page, viz.RoofPlot._esm, COMPARED, rates, settings)
    assert len(theirs) == len(settings) > 240
    binding = set()
    for s, (found, bound, rows, said) in zip(settings, theirs, strict=True):
        product, chip = product_of(s), rates[s["chip"]]
        ours = blocked_product.predicted(product, chip=s["chip"])
        assert found.pop("vmem_bytes") == blocked_product.vmem_bytes(product), s
        assert found == pytest.approx({name: getattr(ours, name) for name in found}, rel=1e-9), s
        assert list(map(tuple, rows)) == readout(product, chip), s
        assert said == hints(product, chip), s
        assert bound == ours.bound, s
        binding.add(bound)
    assert binding == {"compute", "HBM", "grid steps", "both"}


def product_of(s: dict) -> blocked_product.Product:
    blocks = None if s["ideal"] else (s["bm"], s["bk"], s["bn"])
    return blocked_product.Product(m=s["m"], k=s["k"], n=s["n"], blocks=blocks, dtype=s["dtype"])


def test_it_opens_with_what_is_published(open_plot):
    with open_plot(published=[PUBLISHED]) as page:
        assert shown(page)["predicted (model)"] == "766 us"
        assert page.locator(".course-measured").count() == 1
        assert "measured by somebody, 2024" in page.locator(".course-published").inner_text()
        assert page.locator(".course-title").inner_text().endswith("predicted (model) on a v5e")


def test_dragging_sideways_slides_the_point_along_the_slope(open_plot):
    with open_plot(blocks=None) as page:
        x0, y0 = place(page, ".course-dot")
        drag(page, -130, 0)
        after = state(page)
        assert after["m"] == after["k"] == after["n"] < 1000
        x, y = place(page, ".course-dot")
        assert x == pytest.approx(x0 - 130, abs=3)  # it follows the pointer, within the size it is snapped to
        assert y > y0  # down the slope
        assert shown(page)["binds"] == "HBM"
        drag(page, 200, 0)
        assert shown(page)["binds"] == "compute"
        assert place(page, ".course-dot")[1] == pytest.approx(
            height(page, ".course-compute-roof") + plot_top(page), abs=2
        )


def plot_top(page) -> float:
    return page.locator(".course-plot svg").bounding_box()["y"]


def test_the_point_can_be_dragged_to_the_crossover(open_plot):
    with open_plot(m=512, k=512, n=512, blocks=None) as page:
        x, y = place(page, ".course-dot")
        (ridge,) = page.locator(".course-compute-roof").evaluate_all(
            "(lines) => lines.map((l) => l.getBoundingClientRect().left)"
        )
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(ridge, y)
        page.get_by_text("compute and HBM take equally long").wait_for()
        page.mouse.up()
        assert 705 <= state(page)["m"] <= 736


def test_dragging_up_and_down_changes_the_blocks_and_the_third_roof(open_plot):
    with open_plot(blocks=(512, 512, 512)) as page:
        third, before = height(page, ".course-third-roof"), page.evaluate("model.saved.length")
        drag(page, 0, 120)
        after = state(page)
        assert after["bm"] == after["bk"] == after["bn"] < 512 and after["bm"] % 128 == 0
        assert (after["m"], after["k"], after["n"]) == (4096, 4096, 4096)
        assert height(page, ".course-third-roof") > third + 50
        assert page.evaluate("model.saved.length") == before + 1, "a drag is saved once, at its end"


def test_the_keyboard_does_what_the_mouse_does(open_plot):
    with open_plot() as page:
        page.locator(".course-point").focus()
        page.keyboard.press("ArrowLeft")
        assert state(page)["m"] == state(page)["n"] == 3584
        page.keyboard.press("ArrowRight")
        assert state(page)["m"] == 4096
        page.keyboard.press("PageDown")
        assert state(page)["k"] == 2048
        page.keyboard.press("PageUp")
        third = height(page, ".course-third-roof")
        page.keyboard.press("ArrowDown")
        assert [state(page)[name] for name in ("bm", "bk", "bn")] == [256, 512, 512]
        assert height(page, ".course-third-roof") > third + 30
        page.keyboard.press("ArrowUp")
        assert [state(page)[name] for name in ("bm", "bk", "bn")] == [512, 1024, 1024]
        assert page.evaluate("document.activeElement.getAttribute('class')") == "course-point", "the focus stays"
        ring = "getComputedStyle(document.querySelector('.course-ring')).stroke"
        assert page.evaluate(ring) != "rgba(0, 0, 0, 0)"
        assert "4096" in page.locator(".course-point").get_attribute("aria-valuetext")


def test_the_crossover_is_a_stop_of_the_arrow_keys(open_plot):
    with open_plot(m=704, k=704, n=704, blocks=None) as page:
        page.locator(".course-point").focus()
        for _ in range(2):
            page.keyboard.press("ArrowRight")
        assert state(page)["m"] == 720
        assert "At N = 720, compute and HBM take equally long." in page.locator(".course-hints").inner_text()
        page.keyboard.press("ArrowUp")
        assert "no blocks" in page.locator(".course-message").inner_text()


def test_a_third_roof_that_is_too_high_is_said(open_plot):
    with open_plot(blocks=(2048, 2048, 2048)) as page:
        assert page.locator(".course-third-roof").count() == 0
        assert page.get_by_text("grid steps: 57.9 PFLOP/s, above this plot").count() == 1


def test_a_point_dragged_out_of_the_plot_stays_in_sight(open_plot):
    with open_plot(m=16384, k=16384, n=16384, blocks=None) as page:
        drag(page, 150, 0)
        assert state(page)["m"] > 40000
        box, point = page.locator(".course-plot svg").bounding_box(), place(page, ".course-dot")
        assert box["x"] < point[0] < box["x"] + box["width"]


def test_every_control_changes_the_plot(open_plot):
    with open_plot(published=[PUBLISHED]) as page:
        page.get_by_label("m", exact=True).fill("16")
        page.get_by_label("m", exact=True).press("Enter")
        assert state(page)["m"] == 16 and shown(page)["binds"] == "HBM"
        page.get_by_label("bk", exact=True).fill("4096")
        page.get_by_label("bk", exact=True).press("Tab")
        assert state(page)["bk"] == 4096
        assert shown(page)["grid steps"].startswith("4 × 297 ns")
        page.get_by_label("dtype").select_option("int8")
        assert "result of int8 is int32" in page.locator(".course-hints").inner_text()
        page.get_by_label("chip").select_option("v4")
        assert "Fitted to those of a v5e" in page.locator(".course-hints").inner_text()
        assert page.locator(".course-measured").count() == 0
        assert "are for a v5e" in page.locator(".course-published").inner_text()
        page.get_by_label("ideal").check()
        assert shown(page)["grid steps"] == "none counted" and page.locator(".course-third-roof").count() == 0
        assert page.get_by_label("bm", exact=True).is_disabled()
        page.get_by_role("button", name="Reset").click()
        assert state(page) == dict(
            zip(SETTINGS, (4096,) * 3 + (512, 1024, 1024, False, "bfloat16", "v5e"), strict=True)
        )


def test_what_is_not_legal_is_said_and_mended(open_plot):
    with open_plot() as page:
        box = page.get_by_label("bk", exact=True)
        box.fill("1000")
        box.press("Enter")
        assert "bk = 1000 is not valid: it must be a multiple of 128" in page.locator(".course-message").inner_text()
        assert state(page)["bk"] == 1024 and box.input_value() == "1024"
        box = page.get_by_label("m", exact=True)
        box.fill("")
        box.press("Enter")
        assert state(page)["m"] == 4096 and box.input_value() == "4096"
        box.press("ArrowUp")
        assert state(page)["m"] == 5120


def box(shape: list) -> tuple[float, float, float, float]:
    """Left, right, top and bottom."""
    across, down = zip(*shape, strict=True)
    return min(across), max(across), min(down), max(down)


def beside(one: tuple, other: tuple) -> bool:
    """Whether a level or an upright line keeps two boxes apart: mostly there is one, and it is quickly found."""
    return one[1] <= other[0] or other[1] <= one[0] or one[3] <= other[2] or other[3] <= one[2]


@pytest.mark.parametrize("wide", [700, 420])
def test_no_words_lie_on_others_or_on_a_mark(browser, wide):
    """Of many products, among them those that the lesson asks for: the words are where the task points."""
    sides = [None, 128, 256, 512, 1024, 2048]
    kinds = [("v5e", "bfloat16"), ("v5e", "int8"), ("v5e", "float32"), ("v5p", "bfloat16"), ("v6e", "bfloat16")]
    states = [
        {"m": n, "k": n, "n": n, "ideal": side is None, "chip": chip, "dtype": dtype}
        | ({} if side is None else {"bm": side, "bk": side, "bn": side})
        for n, side, (chip, dtype) in itertools.product([64, 720, 1024, 16384], sides, kinds)
    ]
    with open_widget(browser, viz.roof_plot(published=[PUBLISHED]), width=wide) as page:
        drawn = page.evaluate(SHAPES, states)
    for settings, shapes in zip(states, drawn, strict=True):
        assert sum(bool(words) for words, _ in shapes) > 10
        boxed = [(words, shape, box(shape)) for words, shape in shapes]
        for (ours, one, a), (theirs, other, b) in itertools.combinations(boxed, 2):
            assert beside(a, b) or not ours + theirs or apart(one, other), (settings, ours, theirs)


@pytest.mark.parametrize("width", [500, 700, 1200])
def test_it_fits_its_width(open_plot, width):
    with open_plot(published=[PUBLISHED]) as page:
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_function(f"document.querySelector('.course-plot svg').clientWidth <= {width}")
        for chip, dtype in itertools.product(chips.NAMES, ("bfloat16", "int8")):
            page.evaluate("([chip, dtype]) => { model.set('chip', chip); model.set('dtype', dtype); }", [chip, dtype])
            assert page.evaluate(OUTSIDE) == [], (chip, dtype)
        assert not is_too_wide(page)
