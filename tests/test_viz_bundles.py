"""What the bundle viewer says of a program, and its still picture. What it does in a browser: tests/browser."""

import dataclasses
import json
import zlib

import pytest
from bundle_samples import code, viewer
from conftest import needs_libtpu
from sample_kernels import VECTOR, add
from shapes import words_on_words
from viz_samples import overflowing, words

from course_lib import compiler, viz
from course_lib.compiler import Loop
from course_lib.viz.bundle_viewer import bundle_data


def test_a_column_for_each_unit_that_is_used_and_one_for_copies():
    assert bundle_data.columns(code()) == ["VPU", "EUP", "load", "scalar", "DMA"]


def test_loops_in_words():
    data = bundle_data.data(code())
    assert bundle_data.loop_words(data, 0) == "Loop of 41 bundles, 10 to 50. It runs 9 iterations."
    assert bundle_data.loop_words(data, 1) == (
        "Loop of 12 bundles, 20 to 31. It runs 13 iterations each time the loop around it reaches it."
    )
    unknown = bundle_data.data(code(loops=(Loop(first=3, last=3, turns=None),)))
    assert bundle_data.loop_words(unknown, 0) == (
        "Loop of 1 bundle, 3 to 3. It runs a number of iterations that is not known in advance."
    )


def test_use_is_in_quarters_of_the_slots():
    data = bundle_data.data(code())
    column = data["units"].index
    assert [bundle_data.use(data, row, column("VPU")) for row in (20, 21, 22)] == [0, 2, 4]
    assert [bundle_data.use(data, row, column("EUP")) for row in (20, 21, 22)] == [0, 4, 4], "begun, or at work"
    assert bundle_data.use(data, 20, column("load")) == 2 and bundle_data.use(data, 24, column("DMA")) == 4


def test_the_still_shows_the_busiest_loop():
    bundle = viewer()._repr_mimebundle_()[0]
    said = words(bundle["image/svg+xml"])
    assert "Loop of 12 bundles, 20 to 31. It runs 13 iterations each time the loop" in said
    assert [line for line in said if line.isdigit() and int(line) >= 20] == [str(n) for n in range(20, 32)]
    assert overflowing(bundle["image/svg+xml"]) == [] == words_on_words(bundle["image/svg+xml"])
    assert "Slots used: VPU 29 %, EUP 17 %" in bundle["text/plain"]


def test_a_long_loop_shows_all_that_it_begins_in_the_still():
    """Bundles that begin only work of the scalar unit share a row; of a fuller loop there are the fullest."""
    quiet = {"instructions": (), "places": (), "slots": {}}
    bundles = [dataclasses.replace(b, **quiet) if 23 <= n <= 40 else b for n, b in enumerate(code().bundles)]
    loop = (Loop(first=20, last=58, turns=3),)
    folded = words(viewer(bundles=tuple(bundles), loops=loop)._repr_mimebundle_()[0]["image/svg+xml"])
    numbers = [n for n in map(str, range(20, 59)) if n in folded]
    assert numbers == ["20", "21", "22", *map(str, range(41, 59))] and "23-40" in folded
    assert "In bundles, one a row: its bundles" in folded and "only work of the scalar unit" in folded
    full = words(viewer(loops=loop)._repr_mimebundle_()[0]["image/svg+xml"])
    assert "its fullest" in " ".join(full) and "only work of the scalar unit" not in full


@pytest.mark.parametrize(
    "changes, says",
    [
        ({"loops": (), "length": 12}, "The program has no loop: this is all of it."),
        (
            {"length": 3000, "loops": (Loop(first=100, last=2900, turns=None),)},
            "a number of iterations that is not known",
        ),
        ({"kernels": 2}, "Its busiest loop:"),
    ],
)
def test_other_programs_have_a_still_too(changes, says):
    svg = viewer(**changes)._repr_mimebundle_()[0]["image/svg+xml"]
    assert says in " ".join(words(svg))
    assert overflowing(svg) == [] == words_on_words(svg)
    assert len(svg) < 150_000


def test_what_the_browser_gets_is_small():
    widget = viewer(length=20_000, loops=(Loop(first=10, last=19_000, turns=9),))
    assert json.loads(zlib.decompress(widget.program)) == json.loads(json.dumps(widget.shown))
    assert len(widget.program) < 200_000
    assert widget.row == 10, "it opens at its busiest loop"


@needs_libtpu
def test_a_function_or_its_code():
    made = compiler.bundles(add, VECTOR, VECTOR)
    assert viz.bundle_viewer(made).program == viz.bundle_viewer(add, VECTOR, VECTOR).program
    with pytest.raises(ValueError, match="chip='v9' is not known"):
        viz.bundle_viewer(add, VECTOR, VECTOR, chip="v9")
