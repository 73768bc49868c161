"""Lesson 4: the bytes that the page of 04.12 quotes are those of the products it names."""

import re

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from lesson_files import ROOT

from course_lib import cost, grid
from course_lib.checks.exercise import exercise

PAGE = (ROOT / "solutions/src/04_grids_and_blockspecs.py").read_text()
QUOTED = re.compile(r"Blocks of \((\d+), (\d+)\) move ([\d,]+) bytes in one order of the grid and ([\d,]+) in")


def in_strips(x, w, rows, columns, order):
    """x @ w with whole strips of x and w, and output blocks of (rows, columns), in the order "ij" or "ji"."""

    def product_kernel(x_ref, w_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    steps = {"i": x.shape[0] // rows, "j": w.shape[1] // columns}
    i, j = map(order.index, "ij")
    return pl.pallas_call(
        product_kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], w.shape[1]), x.dtype),
        grid=tuple(steps[letter] for letter in order),
        in_specs=[
            pl.BlockSpec((rows, x.shape[1]), lambda *at: (at[i], 0)),
            pl.BlockSpec((w.shape[0], columns), lambda *at: (0, at[j])),
        ],
        out_specs=pl.BlockSpec((rows, columns), lambda *at: (at[i], at[j])),
    )(x, w)


@pytest.mark.parametrize("number, order", [(0, "ij"), (1, "ji")])
def test_both_orders_of_one_size_move_what_the_page_says(number, order):
    (quoted,) = QUOTED.findall(PAGE.replace("\n# ", " "))
    rows, columns = map(int, quoted[:2])
    said = [int(text.replace(",", "")) for text in quoted[2:]]
    task = exercise("04.12")
    walk = grid.walk(lambda x, w: in_strips(x, w, rows, columns, order), *task.arguments()[0])
    assert cost.hbm_bytes(walk) == said[number] > task.golf.par, "both miss par"
