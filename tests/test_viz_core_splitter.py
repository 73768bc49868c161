"""The grid of a kernel on two cores: its words, and the output blocks that both write. In a browser: tests/browser."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from player_samples import SAMPLES
from shapes import words_on_words
from viz_samples import overflowing, words

from course_lib import grid, viz
from course_lib.viz.choices.core_splitter import divided


def sums(rows, columns, depth, marks=None):
    """Sums over axis 2 of the grid, a block of (8, 128) a step."""

    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(2) == 0)
        def clear():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    shape = jax.ShapeDtypeStruct((rows, columns, 8, 128), jnp.float32)
    return pl.pallas_call(
        kernel,
        out_shape=shape,
        grid=(rows, columns, depth),
        in_specs=[pl.BlockSpec((None, None, None, 8, 128), lambda i, j, k: (i, j, k, 0, 0))],
        out_specs=pl.BlockSpec((None, None, 8, 128), lambda i, j, k: (i, j, 0, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=marks),
    ), jax.ShapeDtypeStruct((rows, columns, depth, 8, 128), jnp.float32)


SAID = {
    (0, 0, 0): "Core 0 runs all 18 steps, and core 1 has nothing to do.",
    (1, 0, 0): "Each core runs 12 steps, although the grid has only 18. Core 1 repeats 6 steps of core 0",
    (1, 1, 0): "Each core runs 10 steps, although the grid has only 18. Core 1 repeats 2 steps of core 0",
    (0, 0, 1): "Each core runs 9 of 18 steps. Both write block (0, 0, 0, 0) of o_ref",
}


@pytest.mark.parametrize("at", SAID)
def test_the_words(at):
    widget = viz.core_splitter(*sums(3, 3, 2))
    assert widget.at == [0, 0, 0], "a kernel without marks"
    widget.at = list(at)
    shown = widget._repr_mimebundle_()[0]
    assert SAID[at] in shown["text/plain"].replace("\n", " ")
    assert ("repeated" in words(shown["image/svg+xml"])) and "core 1" in words(shown["image/svg+xml"])


def test_it_begins_with_the_marks_of_the_kernel():
    assert viz.core_splitter(*sums(2, 4, 2, ("arbitrary", "parallel", "arbitrary"))).at == [0, 1, 0]


def test_one_step_that_is_repeated_is_named():
    fn = pl.pallas_call(
        lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...]),
        grid=(3,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((24, 128), jnp.float32),
    )
    widget = viz.core_splitter(fn, jnp.ones((24, 128)))
    assert "Core 1 repeats step (0,) of core 0" in widget.captions[1]
    assert "Both write" not in widget.captions[1], "a repeated step writes what is there"


@pytest.mark.parametrize("parallel", list(np.ndindex(2, 2, 2)), ids=str)
def test_a_block_is_shared_where_steps_of_both_cores_write_it(parallel):
    fn, x = sums(4, 3, 2)
    call = grid.walk(fn, x).calls[0]
    shared = divided(call, [bool(mark) for mark in parallel])
    core = np.zeros(call.steps, int)
    core[np.setdiff1d(shared.cores.second, shared.cores.first)] = 1
    cores_of = {}
    for step in range(call.steps):
        cores_of.setdefault(call.step(step)[:2], set()).add(core[step])
    assert [len(cores_of[call.step(step)[:2]]) == 2 for step in range(call.steps)] == shared.both.tolist()


@pytest.mark.parametrize("name", ["vectors", "matmul", "ragged", "squeezed", "windows", "many operands"])
def test_every_picture_keeps_its_words_apart(name):
    fn, args = SAMPLES[name]
    widget = viz.core_splitter(fn, *args)
    for svg in (*widget.drawings, widget._repr_mimebundle_()[0]["image/svg+xml"]):
        assert overflowing(svg) == [] == words_on_words(svg)


def test_what_cannot_be_shown_is_refused():
    with pytest.raises(grid.UnreadableCall, match="core_splitter: this function has no pallas_call"):
        viz.core_splitter(jnp.sin, jnp.ones(8))
    for name in ("no grid", "scattered"):
        fn, args = SAMPLES[name]
        with pytest.raises(
            ValueError, match=r"core_splitter: the grid of .* is \(.*\)\. It may have 1 to 3 axes and at most 64"
        ):
            viz.core_splitter(fn, *args)
