"""Pictures to choose from: the mask painter beside NumPy, and unrolled loops. In a browser: tests/browser."""

import itertools

import bundle_samples
import jax
import numpy as np
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from shapes import words_on_words
from viz_samples import HOSTILE, overflowing, parsed, program, words

from course_lib import compiler, viz
from course_lib.compiler import Code, Loop
from course_lib.viz.bundle_viewer import bundle_data
from course_lib.viz.bundle_viewer.unroll_viewer import filled

TABLES = {
    "ragged": ((20, 300), (8, 128)),
    "even": ((16, 256), (8, 128)),
    "one block": ((5, 7), (8, 128)),
    "one": ((1, 1), (1, 1)),
    "long": ((4_000_000, 130), (1_000_000, 128)),
    "nearly nothing": ((9, 129), (8, 128)),
}


@pytest.mark.parametrize("name", TABLES)
def test_what_passes_is_counted_as_numpy_counts_it(name):
    shape, block = TABLES[name] if name != "long" else ((400, 130), (100, 128))
    widget = viz.mask_painter(shape, block)
    options = [range(len(group["options"])) for group in widget.groups]
    for (i, j, mask), caption in zip(itertools.product(*options), widget.captions, strict=True):
        row, column = (start * size + np.arange(size) for start, size in zip((i, j), block, strict=True))
        own = (row < shape[0])[:, None] & (column < shape[1])
        passes = np.ones(block, bool)
        passes &= (row < shape[0])[:, None] if mask in (1, 3) else True
        passes &= (column < shape[1]) if mask in (2, 3) else True
        garbage = (passes & ~own).sum()
        said = "no garbage" if not garbage else f"garbage in {garbage:,} place"
        assert f"Let through: {own.sum():,} element" in caption and said in caption
        assert (passes | ~own).all(), "a mask never takes away what is the table's own"


def test_the_words_and_the_conditions():
    widget = viz.mask_painter((20, 300), (8, 128), (2, 2))
    widget.at = [2, 2, 1]
    bundle = widget._repr_mimebundle_()[0]
    assert bundle["text/plain"].splitlines()[-1] == (
        "Rows 16 to 23, the last 4 past the end (19 is the last one); columns 256 to 383, the last 84 past the end "
        "(299 is the last one). Let through: 176 elements of the table, and garbage in 336 places."
    )
    seen = words(bundle["image/svg+xml"])
    assert "row = 16 + iota, row < 20 lets 4 of 8 through" in seen and "column = 256 + iota: not checked" in seen
    assert "block row 2, block column 2, mask rows" in seen
    assert "block row 2, block column 2, mask none" in seen and "block row 2, block column 2, mask both" in seen
    assert [seen.count(word) for word in ("passes", "garbage", "out")] == [3, 3 + 1, 2 + 3], (
        "none, both, and the chosen"
    )


@pytest.mark.parametrize("name", TABLES)
def test_every_picture_keeps_its_words_apart(name):
    widget = viz.mask_painter(*TABLES[name])
    for svg in (*widget.drawings, widget._repr_mimebundle_()[0]["image/svg+xml"]):
        assert overflowing(svg) == [] == words_on_words(svg)
        assert len(svg) < 25_000
    assert sum(map(len, widget.drawings)) < 400_000


WRONG = [
    (((20,), (8, 128)), r"shape=\(20,\) is not the size"),
    (((20, 300), (8, 0)), r"block=\(8, 0\) is not the size"),
    (((20, 300), (8.0, 128)), r"block=\(8.0, 128\) is not the size"),
    (((20, 300), (4, 128)), "into 5 x 3 blocks, but there is room for 4"),
    (((20, 300), (8, 128), (3, 0)), r"step=\(3, 0\) is not in the table: it has 3 x 3 blocks"),
    (((20, 300), (8, 128), (0, -1)), "is not in the table"),
    (((20, 300), (8, 128), (0,)), "is not in the table"),
]


@pytest.mark.parametrize("given, says", WRONG, ids=range(len(WRONG)))
def test_what_is_no_table_is_refused(given, says):
    with pytest.raises(ValueError, match=f"mask_painter: .*{says}"):
        viz.mask_painter(*given)


# The loops


def code(name="mm", length=200, loop=range(20, 180)) -> Code:
    loops = (Loop(first=loop.start, last=loop.stop - 1, turns=8),) if loop else ()
    return Code(
        name=name,
        chip="v5e",
        bundles=program(length=length),
        loops=loops,
        offered={"MXU": 4, "VPU": 4},
        sources={},
        left_out=0,
        versions="",
    )


def test_what_is_filled_is_what_the_caption_counts():
    """An exponential is begun a bundle before its slot is taken: it is painted once."""
    data = bundle_data.data(bundle_samples.code())
    first, last, _ = data["loops"][data["busiest"]]
    column, rows = data["units"].index("EUP"), range(first, last + 1)
    painted = sum(filled(data, row, column) == 4 for row in rows) / len(rows)
    assert 0 < painted == bundle_data.loop_uses(data, first, last)[column]
    assert painted < sum(bundle_data.use(data, row, column) > 0 for row in rows) / len(rows)


def test_bodies_are_drawn_on_one_scale():
    widget = viz.unroll_viewer({1: code(loop=range(20, 60)), 4: code()}, cycles={1: 30, 4: 9.96})
    assert [caption.split(".")[0] for caption in widget.captions] == [
        "unroll=1: a body of 40 bundles, run 8 times",
        "unroll=4: a body of 160 bundles, run 8 times, 40",
    ]
    assert "40.0 for each iteration of the source" in widget.captions[1]
    assert widget.captions[1].endswith("10.0 cycles an iteration, predicted (compiler).")
    lanes = [svg.count('height="20"') for svg in widget.drawings]
    assert lanes[1] == 4 * lanes[0], "a box for each bundle and unit"
    bundle = widget._repr_mimebundle_()[0]
    seen = words(bundle["image/svg+xml"])
    assert seen.count("unroll 1") == seen.count("unroll 4") == 1, "a page where nothing runs shows both ends"
    assert bundle["text/plain"] == "\n".join(widget.captions)


@pytest.mark.parametrize("cycles", [None, {1: 5}, {1: 1e6, 2: 0.01}])
@pytest.mark.parametrize("name", ["mm", HOSTILE * 3])
def test_every_body_keeps_its_words_apart(cycles, name):
    widget = viz.unroll_viewer({1: code(name), 2: code(name, loop=range(20, 23))}, cycles)
    for svg in (*widget.drawings, widget._repr_mimebundle_()[0]["image/svg+xml"]):
        assert overflowing(svg) == [] == words_on_words(svg) and parsed(svg) is not None


REFUSED = [
    (({},), "codes={} is nothing to show"),
    ((None,), "codes=None is nothing to show"),
    (({1: code(), 64: code(loop=())},), "the program for unroll=64 has no loop"),
    (({1: code()}, {2: 5.0}), r"cycles\[2\] belongs to no code. codes has 1"),
]


@pytest.mark.parametrize("given, says", REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_loop_is_refused(given, says):
    with pytest.raises(ValueError, match=f"unroll_viewer: .*{says}"):
        viz.unroll_viewer(*given)


@needs_libtpu
def test_a_real_loop():
    def copy(x):
        def kernel(x_ref, o_ref):
            def turn(i, carry):
                o_ref[i] = x_ref[i]
                return carry

            jax.lax.fori_loop(0, 16, turn, 0, unroll=4)

        return pl.pallas_call(kernel, out_shape=x)(x)

    widget = viz.unroll_viewer({4: compiler.bundles(copy, jax.ShapeDtypeStruct((16, 8, 128), "float32"))})
    assert "run 4 times" in widget.captions[0] and "store" in widget.captions[0]
