"""A weight-stationary systolic array, cycle by cycle: what is in every cell, what waits, what has come out.

The scheme is the textbook's, and the one that "How to Scale Your Model" (chapter "How to Think About TPUs") draws for
the MXU: a cell for each weight. A row of x enters from the left, each element one cycle later than the one above;
elements of x move right and sums move down, one cell per cycle.
"""

from collections.abc import Sequence
from typing import NamedTuple

Matrix = Sequence[Sequence[int]]
NEAREST = 4  # waiting elements shown in front of a row


class Cell(NamedTuple):
    """A cell that works in this cycle: it adds ``x`` times its weight to the sum from above."""

    row_of_x: int
    x: int
    above: int  # the sum from the cell above; 0 in the first row
    total: int  # the sum that it passes down


def cycles(x: Matrix, w: Matrix) -> int:
    """Return the cycles until the last result is out: rows of x + rows of w + columns of w - 2."""
    return len(x) + len(w) + len(w[0]) - 2


def first_row(w: Matrix) -> int:
    """Return the cycles until the whole first row of y is out; from then on, each cycle completes one."""
    return len(w) + len(w[0]) - 1


def cell(x: Matrix, w: Matrix, cycle: int, row: int, column: int) -> Cell | None:
    """Return what the cell of w[row][column] does in a cycle, counted from 1; None if it is idle."""
    m = cycle - 1 - row - column
    if cycle < 1 or not 0 <= m < len(x):
        return None
    above = sum(x[m][k] * w[k][column] for k in range(row))
    return Cell(row_of_x=m, x=x[m][row], above=above, total=above + x[m][row] * w[row][column])


def at_work(x: Matrix, w: Matrix, cycle: int) -> int:
    """Count the cells that work in a cycle."""
    places = [(row, column) for row in range(len(w)) for column in range(len(w[0]))]
    return sum(cell(x, w, cycle, *place) is not None for place in places)


def waiting(x: Matrix, w: Matrix, cycle: int, row: int) -> list[tuple[int, int]]:
    """Return the next elements to enter a row of the array: (cycles until then, element)."""
    ahead = [(m + row - cycle + 1, x[m][row]) for m in range(len(x)) if m + row + 1 > cycle]
    return [(distance, number) for distance, number in ahead if distance <= NEAREST]


def out(x: Matrix, w: Matrix, cycle: int) -> list[list[int | None]]:
    """Return y = x @ w as far as it has left the array by the end of a cycle; None where it has not."""
    rows, columns = len(w), len(w[0])
    return [
        [
            sum(x[m][k] * w[k][column] for k in range(rows)) if cycle >= m + rows + column else None
            for column in range(columns)
        ]
        for m in range(len(x))
    ]


def just_out(x: Matrix, w: Matrix, cycle: int) -> list[tuple[int, int]]:
    """Return (row, column) of the results that leave the array in a cycle."""
    rows, columns = len(w), len(w[0])
    return [(cycle - rows - column, column) for column in range(columns) if 0 <= cycle - rows - column < len(x)]


def frame(x: Matrix, w: Matrix, cycle: int) -> dict:
    """Return a cycle for the browser: lists and words."""
    rows, columns = range(len(w)), range(len(w[0]))
    return {
        "cells": [[cell(x, w, cycle, row, column) for column in columns] for row in rows],
        "waiting": [waiting(x, w, cycle, row) for row in rows],
        "leaves": just_out(x, w, cycle),
        "says": caption(x, w, cycle),
    }


def caption(x: Matrix, w: Matrix, cycle: int) -> str:
    """Say what has happened by the end of a cycle."""
    rows, columns, all_cycles = len(w), len(w[0]), cycles(x, w)
    if cycle == 0:
        return (
            f"Before the first cycle. The {rows} x {columns} weights lie in their cells, and stay there. "
            "Each row of x will enter from the left, every element one cycle after the one above it."
        )
    left = sorted(just_out(x, w, cycle))
    said = [f"Cycle {cycle} of {all_cycles}: {at_work(x, w, cycle)} of {rows * columns} cells work."]
    if left:
        names = ", ".join(f"y[{m}, {column}]" for m, column in left)
        said.append(f"Out {'comes' if len(left) == 1 else 'come'} {names}.")
    if cycle < rows:
        said.append(f"Nothing is out yet: a sum passes through {rows} rows.")
    elif cycle == rows:
        said.append(f"The first result, after {rows} cycles: one for each row of the array.")
    done = cycle - first_row(w)
    if done == 0:
        said.append(f"Row 0 of y is complete, after {cycle} cycles.")
    elif 0 < done < len(x):
        said.append(f"Row {done} of y is complete: one row a cycle from now on.")
    if cycle == all_cycles:
        said.append("All of y is out.")
    return " ".join(said)
