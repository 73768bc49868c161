"""The VMEM table in a browser, without a kernel: what-if by mouse and keys, other widths; figures beside Python's."""

import functools

import chromium
import jax.numpy as jnp
import pytest
from sample_kernels import VECTOR, add, array, matmul, pipelined_matmul
from test_viz_vmem_table import rowwise
from widget_page import computed, is_too_wide, open_widget

from course_lib import cost, viz
from course_lib.viz.vmem_table.vmem_table import illegal, verdict

SQUARE = array((4096, 4096))
LARGE = functools.partial(matmul, blocks=(1024, 1024, 1024))
COMPARED = """({ total, verdict, illegal, padded }, data, cases) => cases.map(([shapes, buffers]) => [
    total(data, shapes, buffers),
    verdict(data, shapes, buffers),
    illegal(data, shapes).map((each) => each.words),
    shapes.map((shape, n) => padded(data.rows[n], shape)),
])"""


browser = chromium.browser


@pytest.fixture
def open_table(browser):
    return lambda fn, *args, **more: open_widget(browser, viz.vmem_table(fn, *args, **more), width=700)


def size(page, name: str, axis: int):
    return page.get_by_label(f"{name}, block size of axis {axis}")


def enter(page, name: str, axis: int, text: str) -> None:
    size(page, name, axis).fill(text)
    size(page, name, axis).press("Enter")


def row(page, name: str) -> str:
    """What the table says of a buffer."""
    line = page.locator("tbody tr", has=page.get_by_text(name, exact=True))
    return " ".join(line.inner_text().split())


def judged(page) -> str:
    return page.locator(".course-verdict").inner_text()


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        (matmul, (SQUARE, SQUARE)),
        (functools.partial(matmul, vmem_limit_bytes=100 << 20), (SQUARE, SQUARE)),
        (add, (VECTOR, VECTOR)),
        (rowwise, (array((200, 300), jnp.int8),)),
        (rowwise, (array((200, 300), jnp.bfloat16),)),
        (pipelined_matmul, (array((512, 512)), array((512, 512)))),
    ],
    ids=["matmul", "matmul that asks", "vectors", "int8", "bf16", "pipeline"],
)
def test_the_figures_in_the_browser_are_pythons(open_table, fn, args):
    table = viz.vmem_table(fn, *args)
    cases = [(table.shapes, table.buffers)]
    for number in (1, 2, 3, 5, 8, 12, 64, 100, 127, 128, 256, 300, 511, 1000, 1024, 2500, 4096, 6000):
        cases.append(([[number] * len(shape) for shape in table.shapes], [1] * len(table.shapes)))
        cases.append(([[*shape[:-1], number] for shape in table.shapes], [2] * len(table.shapes)))
    with open_table(fn, *args) as page:
        theirs = computed(page, table._esm, COMPARED, table.data, cases)
    for (shapes, buffers), (total, words, complaints, tiles) in zip(cases, theirs, strict=True):
        table.shapes, table.buffers = shapes, buffers
        assert total == sum(each.bytes for each in table.rows)
        assert words == verdict(table.rows, table.data)
        assert complaints == illegal(table.data["rows"], shapes)
        dtypes = [each["dtype"] for each in table.data["rows"]]
        assert list(map(tuple, tiles)) == list(map(cost.padded_shape, shapes, dtypes))


def test_it_opens_with_the_kernels_own_blocks(open_table):
    with open_table(LARGE, SQUARE, SQUARE) as page:
        assert judged(page).startswith("✗ 12 MiB too much: the kernel needs 28 MiB, and may use 16 MiB.")
        assert "input window" in row(page, "x_ref") and row(page, "x_ref").endswith("8 MiB")
        assert "(1024, 1024)" in row(page, "acc_ref") and row(page, "acc_ref").endswith("1 4 MiB")


def test_smaller_blocks_and_fewer_buffers_make_it_fit(open_table):
    with open_table(LARGE, SQUARE, SQUARE) as page:
        limit = page.locator(".course-limit").bounding_box()["x"]
        enter(page, "x_ref", 1, "512")
        assert row(page, "x_ref").endswith("4 MiB")
        enter(page, "y_ref", 0, "512")
        assert judged(page).startswith("✗ 4 MiB too much")
        page.get_by_label("o_ref, number of buffers").select_option("1")
        assert judged(page).startswith("✓ Fits: 16 MiB of 16 MiB used, 0 bytes free.")
        assert page.locator(".course-limit").bounding_box()["x"] > limit + 100, "the bar is drawn against the limit now"
        assert page.evaluate("model.get('shapes')")[0] == [1024, 512]
        assert page.evaluate("model.get('buffers')") == [2, 2, 1, 1]
        page.get_by_role("button", name="Reset").click()
        assert judged(page).startswith("✗ 12 MiB too much")
        assert size(page, "x_ref", 1).input_value() == "1024"


def test_arrow_keys_go_to_the_next_legal_size_that_divides_the_array(open_table):
    with open_table(LARGE, SQUARE, SQUARE) as page:
        size(page, "x_ref", 1).focus()
        page.keyboard.press("ArrowUp")
        assert size(page, "x_ref", 1).input_value() == "2048"
        for _ in range(3):
            page.keyboard.press("ArrowDown")
        assert size(page, "x_ref", 1).input_value() == "256"
        for _ in range(9):
            page.keyboard.press("ArrowDown")
        assert size(page, "x_ref", 1).input_value() == "128", "nothing smaller is legal"
        assert "x_ref" in page.evaluate("document.activeElement.ariaLabel"), "the focus stays"
        size(page, "acc_ref", 0).press("ArrowDown")
        assert size(page, "acc_ref", 0).input_value() == "512"
        assert page.evaluate("document.querySelectorAll('.course-vmem-table :is(input, select)').length") == 11


def test_padding_and_illegal_sizes_are_said(open_table):
    with open_table(rowwise, array((200, 300))) as page:
        assert "(40, 384)" in row(page, "x_ref") and "22 % padding" in row(page, "x_ref")
        enter(page, "x_ref", 0, "41")
        assert "(48, 384)" in row(page, "x_ref")
        assert (
            "x_ref, axis 0: 41 is not legal. It is a multiple of 8" in page.locator(".course-complaints").inner_text()
        )
        assert "Nearest: 40, 48 or 200, the whole axis." in page.locator(".course-complaints").inner_text()
        assert size(page, "x_ref", 0).get_attribute("aria-invalid") == "true"
        assert judged(page).startswith("! Not legal as it stands.")
        enter(page, "x_ref", 0, "48")
        assert page.locator(".course-complaints").inner_text() == ""
        assert judged(page).startswith("✓ Fits")
        for nonsense in ("", "0", "2.5"):
            enter(page, "x_ref", 0, nonsense)
            assert "is not a size" in page.locator(".course-complaints").inner_text(), nonsense
            assert size(page, "x_ref", 0).input_value() == "48"


def test_a_block_that_was_the_whole_array_gets_a_second_buffer_when_it_is_cut(open_table):
    with open_table(rowwise, array((200, 300))) as page:
        buffers = page.get_by_label("bias_ref, number of buffers")
        assert buffers.input_value() == "1"
        enter(page, "bias_ref", 1, "128")
        assert buffers.input_value() == "2"
        assert "Pallas gives it two buffers" in page.locator(".course-complaints").inner_text()
        enter(page, "bias_ref", 1, "300")
        assert buffers.input_value() == "1"


@pytest.mark.parametrize("width", [500, 700, 1200])
def test_it_fits_its_width(open_table, width):
    with open_table(LARGE, SQUARE, SQUARE) as page:
        page.set_viewport_size({"width": width, "height": 700})
        enter(page, "x_ref", 1, "1000")
        assert not is_too_wide(page)
