"""The roof plot's kernel, its words, and its still picture.

What it does in a browser, and that it computes there what roofline predicts, is tested in tests/browser.
"""

import math

import ipywidgets
import jax
import jax.numpy as jnp
import pytest
from viz_samples import overflowing, parsed, words

from course_lib import cost, grid, viz
from course_lib.viz.roof_plot import blocked_product
from course_lib.viz.roof_plot.blocked_product import Product
from course_lib.viz.roof_plot.roof_plot import hints, readout

PUBLISHED = viz.Point(name="tuned", flops=2 * 4096**3, hbm_bytes=436e6, seconds=0.83e-3, measured_by="somebody, 2024")


def product(m, k, n, blocks, dtype="bfloat16"):
    return Product(m=m, k=k, n=n, blocks=blocks, dtype=dtype)


KERNELS = [
    product(4096, 4096, 4096, (512, 1024, 1024)),
    product(2048, 2048, 2048, (256, 256, 256)),
    product(1024, 512, 768, (256, 512, 128), "float32"),  # all of K in one block
    product(512, 512, 2048, (1024, 128, 512), "int8"),  # one row of blocks
    product(2048, 640, 128, (256, 1024, 128)),  # all of y in one block: read once
    product(1000, 900, 700, (256, 256, 256)),  # ragged along each axis
    product(1100, 300, 2700, (512, 512, 512), "int8"),
    product(16, 4096, 4096, (8, 512, 512)),
    product(1, 128, 128, (8, 128, 128)),  # one step
    product(1537, 1025, 1281, (512, 256, 256), "float32"),
]


@pytest.mark.parametrize("p", KERNELS, ids=str)
def test_the_figures_are_those_of_a_kernel_with_these_blocks(p):
    """Every block of x and y is copied for each step, unless it is the one that is there already."""
    (call,) = grid.walk(blocked_product.blocked(p), *p.args).calls
    found = blocked_product.predicted(p, chip="v5e")
    assert call.grid == p.grid and found.steps == call.steps == math.prod(p.grid)
    assert [operand.block_shape for operand in call.operands] == [p.cut[:2], p.cut[1:], p.cut[::2]]
    columns, rows = p.grid[1], p.grid[0]
    x_reads, y_reads = (columns, rows) if p.grid[2] > 1 else (1, rows if columns > 1 else 1)
    x, y = p.args
    made = jax.ShapeDtypeStruct((p.m, p.n), blocked_product.RESULT[p.dtype])
    assert found.hbm_bytes == cost.stored_bytes(x) * x_reads + cost.stored_bytes(y) * y_reads + cost.stored_bytes(made)
    assert found.flops == 2 * p.m * p.k * p.n


def test_the_ideal_crosses_where_n_over_3_meets_the_ridge():
    rates = blocked_product.rates(chip="v5e")
    below, above = (blocked_product.predicted(product(n, n, n, None), chip="v5e") for n in (720, 721))
    assert below.memory_s > below.compute_s and above.memory_s < above.compute_s
    assert above.flops / above.hbm_bytes == pytest.approx(721 / 3)
    assert hints(product(720, 720, 720, None), rates)[:2] == [
        "At N = 720, compute and HBM take equally long.",
        "Square matmuls of bfloat16 have N/3 FLOPs/byte: from N = 721 on, compute binds on a v5e.",
    ]
    assert not any("equally long" in hint for hint in hints(product(700, 700, 700, None), rates))
    (far,) = [h for h in hints(product(64, 64, 64, None), rates) if "Square" in h]
    assert far == "Square matmuls of bfloat16 have N/3 FLOPs/byte.", "where the roofs meet is for the reader to find"
    (float32,) = [h for h in hints(product(1440, 1440, 1440, None, "float32"), rates) if "Square" in h]
    assert "N/6 FLOPs/byte: from N = 1,442 on" in float32  # 1,440 by the rule of thumb 240 * 6; the ridge is 240.2


def test_the_readout_says_each_roof_and_which_binds():
    assert dict(readout(product(4096, 4096, 4096, (512, 1024, 1024)), blocked_product.rates(chip="v5e"))) == {
        "FLOPs": "137.4 GFLOPs",
        "HBM traffic": "436.2 MB",
        "intensity": "315 FLOPs/byte",
        "compute roof": "698 us",
        "HBM roof": "598 us",
        "grid steps": "128 × 297 ns = 38 us",
        "binds": "compute",
        "predicted (model)": "766 us",
        "share of the peak": "91 %",
        "VMEM needed": "10 MiB",
    }
    small = dict(readout(product(4096, 4096, 4096, (128, 128, 128)), blocked_product.rates(chip="v5e")))
    assert small["binds"] == "grid steps"
    assert dict(readout(product(720, 720, 720, None), blocked_product.rates(chip="v5e")))["binds"] == "both"
    assert dict(readout(product(16, 4096, 4096, None), blocked_product.rates(chip="v5e")))["binds"] == "HBM"


def test_hints_say_whose_constants_and_what_does_not_run():
    def said(p, chip):
        return " ".join(hints(p, blocked_product.rates(chip=chip)))

    square = product(4096, 4096, 4096, (512, 1024, 1024))
    assert "Fitted to published timings of a v5e" in said(square, "v5e")
    assert (
        "No published timings of a v4 were available. Fitted to those of a v5e: a step takes 297 ns at least"
        in said(square, "v4")
    )
    whole = product(8192, 8192, 8192, (4096, 4096, 4096))
    assert "Cannot run: the blocks need 256 MiB of VMEM, and a v5e has 128 MiB." in said(whole, "v5e")
    assert "Above 16 MiB, the compiler for a v5e refuses" in said(product(4096, 4096, 4096, (1024, 2048, 1024)), "v5e")
    assert "refuses" not in said(square, "v5e") and "padding" not in said(square, "v5e")
    assert "padding" in said(product(1100, 1024, 1024, (512, 512, 512)), "v5e")
    assert "which one of 2 cores has to itself" in said(square, "v5p") and "cores" not in said(square, "v5e")
    assert "18.7 ms is more than any single roof, because with two buffers" in said(
        product(8192, 8192, 8192, (256, 256, 256)), "v5e"
    )
    assert "more than any single roof" not in said(square, "v5e")
    assert "for one of 2 cores and the HBM that they share" in said(product(512, 512, 512, None), "v5p")
    assert "cores" not in said(product(512, 512, 512, None), "v5e")
    assert "no int8 rate for a v4" in said(product(512, 512, 512, None, "int8"), "v4")
    assert "no int8 rate" not in said(product(512, 512, 512, None, "int8"), "v5e")


def test_the_still_picture_holds_the_point_its_third_roof_and_the_published_one():
    plot = viz.roof_plot(published=[PUBLISHED])
    bundle = plot._repr_mimebundle_()[0]
    svg = bundle["image/svg+xml"]
    kinds = [node.get("class") for node in parsed(svg).iter() if node.get("class")]
    assert "predicted first" in kinds and "measured" in kinds
    shown = " ".join(words(svg))
    assert "grid steps" in shown and "measured by somebody, 2024" in shown and "predicted (model): 766 us" in shown
    assert overflowing(svg) == []
    assert "binds: compute" in bundle["text/plain"]
    assert len(svg) < 20_000


def test_the_still_picture_follows_the_settings_and_hides_points_of_another_chip():
    plot = viz.roof_plot(published=[PUBLISHED])
    plot.chip, plot.ideal, plot.m = "v6e", True, 64
    svg = plot._repr_mimebundle_()[0]["image/svg+xml"]
    assert "x[64, 4096]" in svg and "v6e" in svg and "measured by" not in svg


def test_a_grid_too_long_to_read_has_no_still_picture_and_says_so():
    plot = viz.roof_plot(m=65536, k=65536, n=65536, blocks=(128, 128, 128))
    bundle = plot._repr_mimebundle_()[0]
    assert "134,217,728 grid steps. There is no still picture of more than 524,288" in bundle["text/plain"]
    assert "no still picture" in " ".join(words(bundle["image/svg+xml"])) and overflowing(bundle["image/svg+xml"]) == []


def test_traits_are_settings_that_other_widgets_can_be_linked_to():
    plot = viz.roof_plot(dtype=jnp.bfloat16)
    ipywidgets.jslink((ipywidgets.IntSlider(min=1, max=65536, value=4096), "value"), (plot, "m"))
    assert plot.product == product(4096, 4096, 4096, (512, 1024, 1024))
    assert viz.roof_plot(blocks=None).product.blocks is None


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (dict(m=0), "m=0 is not the size of an axis"),
        (dict(n=4096.5), "n=4096.5 is not the size"),
        (dict(k=10**9), "k=1000000000 is not the size"),
        (dict(blocks=(512, 512)), r"blocks=\(512, 512\) is not three sizes"),
        (dict(blocks=512), "blocks=512 is not three sizes"),
        (dict(blocks=(512, 100, 512)), r"bk=100 in blocks=\(512, 100, 512\) is not legal"),
        (dict(blocks=(8, 128, 128), dtype="int8"), "bm a multiple of 32"),
        (dict(dtype="float64"), "dtype='float64' is not known here. Choose one of: bfloat16, float32, int8"),
        (dict(chip="v3"), "chip='v3' is not known. Choose one of: v4, v5e"),
        (dict(published=[(1, 2)]), "measured_by="),
        (dict(published=[viz.Point(name="p", flops=1, hbm_bytes=1, seconds=1)]), "measured_by="),
    ],
    ids=str,
)
def test_bad_input_is_refused_in_words(wrong, says):
    with pytest.raises(ValueError, match=says):
        viz.roof_plot(**wrong)
