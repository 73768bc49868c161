"""The capability matrix: its cells asked of JAX, its words, its still. In a browser: tests/browser."""

import pytest
from capability_proofs import PROOFS
from conftest import pinned
from lesson_files import ROOT
from shapes import words_on_words
from viz_samples import boxes, overflowing, words

from course_lib import viz
from course_lib.viz.capability_matrix import matrix_still
from course_lib.viz.capability_matrix.capabilities import (
    ASKED,
    ENGINES,
    JAX_DOCS,
    NEEDS,
    NO,
    PARTLY,
    YES,
    said,
    standing,
)

CELLS = [(need.name, engine.name, cell) for need in NEEDS for engine, cell in zip(ENGINES, need.cells, strict=True)]
BY_NAME = {(need, engine): cell for need, engine, cell in CELLS}


def test_a_cell_says_that_it_is_asked_and_only_then():
    assert {(need, engine) for need, engine, cell in CELLS if cell.source.startswith(ASKED)} == set(PROOFS)


@pinned
@pytest.mark.parametrize("need, engine", PROOFS, ids=lambda name: name.replace(" ", "_"))
def test_what_is_asked_is_true(need, engine):
    assert PROOFS[need, engine]()


def test_a_cell_has_a_reason_and_a_source_that_exists():
    for need, engine, cell in CELLS:
        assert cell.can in (YES, PARTLY, NO) and cell.why.endswith("."), (need, engine)
        known = cell.source == JAX_DOCS or cell.source.startswith((ASKED, "jax/_src/pallas", "lesson "))
        assert known or (ROOT / cell.source.partition(",")[0].partition(";")[0]).is_file(), cell.source


def test_what_the_pages_say_of_a_gpu():
    """The cells that quote docs/gpu.md and docs/zoo.md quote what stands there."""
    gpu, zoo = (" ".join((ROOT / f"docs/{name}.md").read_text().split()) for name in ("gpu", "zoo"))
    assert (
        "| summed over the grid, as on a TPU | races |" in zoo
        and "| summed over the grid by pallas_call | races |" in zoo
    )
    assert "wgmma that reads too early" in gpu and "We have not tried kernels on several GPUs" in gpu
    assert "ran on an H100 on 2026-11-27" in gpu and "No kernel has run on an A100, L4 or B200" in gpu


def test_an_engine_stands_as_its_weakest_cell():
    for number in range(len(ENGINES)):
        assert standing([], number) == YES
        for need, row in enumerate(NEEDS):
            assert standing([need], number) == row.cells[number].can
    rank = [YES, PARTLY, NO]
    for needs in ([0, 4], [1, 2, 7], list(range(len(NEEDS)))):
        for number in range(len(ENGINES)):
            assert standing(needs, number) == max((NEEDS[n].cells[number].can for n in needs), key=rank.index)


def test_the_words():
    widget = viz.capability_matrix()
    assert "Tick what you need" in said([]) and said([]) not in widget._repr_mimebundle_()[0]["text/plain"]
    names = [need.name for need in NEEDS]
    widget.needs = [names.index("scratch memory"), names.index("rows fetched by a list of indices")]
    widget.picked = [names.index("scratch memory"), 3]
    lines = widget._repr_mimebundle_()[0]["text/plain"].splitlines()
    assert lines[-1] == "All of it: SparseCore. Some of it in part: TensorCore; Hopper."
    assert lines[-2].startswith("Ampere, Ada, scratch memory: no. JAX refuses scratch")
    assert said([0, 1, 4, 6]) == "All of it: no engine. Some of it in part: TensorCore; Hopper."


def test_the_still_has_every_cell_and_frames_one():
    widget = viz.capability_matrix()
    svg = widget._repr_mimebundle_()[0]["image/svg+xml"]
    seen = words(svg)
    for can in (YES, PARTLY, NO):
        assert seen.count(can) == sum(cell.can == can for _, _, cell in CELLS)
        assert len(boxes(svg, matrix_still._FILL[can])) >= seen.count(can)
    assert [need.name for need in NEEDS if need.name in seen] == [need.name for need in NEEDS]
    assert {part for engine in ENGINES for part in engine} <= set(seen), "no head is cut"


@pytest.mark.parametrize("picked", [(need, engine) for need in range(len(NEEDS)) for engine in range(len(ENGINES))])
def test_every_explanation_fits(picked):
    widget = viz.capability_matrix()
    widget.picked, widget.needs = list(picked), [picked[0]]
    svg = widget._repr_mimebundle_()[0]["image/svg+xml"]
    assert overflowing(svg) == [] == words_on_words(svg)


def test_what_the_browser_might_send_is_kept_within_the_matrix():
    widget = viz.capability_matrix()
    widget.picked, widget.needs = [99, -1], [2, 99, 2]
    last = widget._repr_mimebundle_()[0]["text/plain"].splitlines()
    assert last[-2].startswith(f"{ENGINES[0].name}, {NEEDS[-1].name}") and last[-1] == said([2])
