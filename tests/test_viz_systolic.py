"""The systolic array beside NumPy, and its still picture. What it does in a browser is tested in tests/browser."""

import itertools

import numpy as np
import pytest
from shapes import words_on_words
from viz_samples import overflowing, words

from course_lib import viz
from course_lib.viz.systolic_stepper import systolic

SIZES = [(4, 4), (1, 1), (3, 5), (8, 8), (2, 1)]


@pytest.mark.parametrize("rows, columns", SIZES)
def test_what_comes_out_is_the_product(rows, columns):
    widget = viz.systolic_stepper(rows, columns)
    x, w, all_cycles = widget.x, widget.w, systolic.cycles(widget.x, widget.w)
    assert systolic.out(x, w, all_cycles) == (np.array(x) @ np.array(w)).tolist()
    assert np.shape(w) == (rows, columns) and np.min(x) >= 1 and np.max([*map(max, x), *map(max, w)]) < 10
    missing = [n for row in systolic.out(x, w, all_cycles - 1) for n in row if n is None]
    assert len(missing) == 1, "the last result comes in the last cycle"


@pytest.mark.parametrize("rows, columns", SIZES)
def test_a_cell_hands_on_what_its_neighbours_had(rows, columns):
    """A number of x comes from the cell on the left, a sum from the cell above, both of the cycle before."""
    widget = viz.systolic_stepper(rows, columns)
    x, w = widget.x, widget.w
    for cycle, row, column in itertools.product(range(systolic.cycles(x, w) + 2), range(rows), range(columns)):
        here = systolic.cell(x, w, cycle, row, column)
        left = systolic.cell(x, w, cycle - 1, row, column - 1) if column else None
        above = systolic.cell(x, w, cycle - 1, row - 1, column) if row else None
        if here is None:
            assert left is None and above is None
            continue
        assert here.total == here.above + here.x * w[row][column]
        assert here.above == (above.total if row else 0)
        if column:
            assert (left.x, left.row_of_x) == (here.x, here.row_of_x)
        else:
            assert (1, here.x) in systolic.waiting(x, w, cycle - 1, row), "it waited in front"


@pytest.mark.parametrize("rows, columns", SIZES)
def test_results_come_out_when_the_text_says(rows, columns):
    widget = viz.systolic_stepper(rows, columns)
    x, w = widget.x, widget.w
    complete = [sum(None not in row for row in systolic.out(x, w, cycle)) for cycle in range(systolic.cycles(x, w) + 1)]
    first = next(cycle for cycle in itertools.count() if systolic.out(x, w, cycle)[0][0] is not None)
    assert first == rows
    assert complete.index(1) == systolic.first_row(w) == rows + columns - 1
    assert complete[systolic.first_row(w) :] == list(range(1, len(x) + 1)), "then a row each cycle"


def test_the_caption_says_what_happens():
    widget = viz.systolic_stepper()
    said = [systolic.caption(widget.x, widget.w, cycle) for cycle in range(15)]
    assert said[0].startswith("Before the first cycle. The 4 x 4 weights lie in their cells")
    assert said[1] == "Cycle 1 of 14: 1 of 16 cells work. Nothing is out yet: a sum passes through 4 rows."
    assert "Out comes y[0, 0]. The first result, after 4 cycles" in said[4]
    assert said[7].endswith("Row 0 of y is complete, after 7 cycles.") and "16 of 16 cells work" in said[7]
    assert said[8].endswith("Row 1 of y is complete: one row a cycle from now on.")
    assert said[14].endswith("All of y is out.")


@pytest.mark.parametrize("rows, columns", SIZES)
def test_the_still_is_a_cycle_from_the_middle(rows, columns):
    bundle = viz.systolic_stepper(rows, columns)._repr_mimebundle_()[0]
    svg = bundle["image/svg+xml"]
    assert f"Cycle {rows + 1} of" in bundle["text/plain"]
    assert any(line.startswith("y[") for line in words(svg)) or columns == 1
    assert overflowing(svg) == [] == words_on_words(svg)
    assert len(svg) < 40_000


def test_an_array_that_nobody_could_look_at_is_refused():
    for size in (0, 9, 2.0, True, "4"):
        with pytest.raises(
            ValueError, match="systolic_stepper: rows=.* is not a size to show. Give a whole number from 1 to 8"
        ):
            viz.systolic_stepper(size, 4)
    with pytest.raises(ValueError, match="columns=0"):
        viz.systolic_stepper(4, 0)
