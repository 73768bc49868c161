"""The grid player's data and its still picture. What it does in a browser is tested in tests/browser."""

import xml.etree.ElementTree as ElementTree

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from test_grid_body import WB, XB, small_pipeline

from course_lib import viz
from course_lib.viz.grid_player import caption

X = jax.ShapeDtypeStruct((32, 256), jnp.float32)


def copy(x, grid=(4, 2), index=lambda i, j: (i, j)):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    spec = pl.BlockSpec((8, 128), index)
    return pl.pallas_call(kernel, out_shape=x, grid=grid, in_specs=[spec], out_specs=spec)(x)


def test_frames_follow_the_grid():
    data = viz.grid_player(copy, X).data
    assert data["steps"][:3] == [[0, 0], [0, 1], [1, 0]]
    x, o = data["operands"]
    assert x["indices"] == data["steps"] and x["copied"] == [1] * 8
    assert o["blocks"] == [4, 2]
    assert sum(n for n, copied in zip(o["bytes"], o["copied"], strict=True) if copied) == 32 * 256 * 4


def test_the_still_picture_is_svg_with_one_current_block_per_operand():
    player = viz.grid_player(copy, X)
    player.step = 3
    bundle = player._repr_mimebundle_()[0]
    svg = ElementTree.fromstring(bundle["image/svg+xml"])
    filled = [r for r in svg.iter("{http://www.w3.org/2000/svg}rect") if r.get("fill") == "#0072b2"]
    assert len(filled) == 2
    assert bundle["text/plain"] == "Step 4 of 8, grid index (1, 1): x_ref block (1, 1), o_ref block (1, 1)"
    assert "application/vnd.jupyter.widget-view+json" in bundle


def test_a_call_without_a_grid_has_one_step():
    def whole(x):
        return pl.pallas_call(lambda x_ref, o_ref: None, out_shape=x)(x)

    assert viz.grid_player(whole, X).data["steps"] == [[]]


def test_what_it_cannot_show_is_said():
    with pytest.raises(ValueError, match="no pallas_call"):
        viz.grid_player(jnp.sin, X)
    with pytest.raises(ValueError, match="up to two axes of 64 blocks"):
        viz.grid_player(copy, jax.ShapeDtypeStruct((8 * 65, 256), jnp.float32))


def test_the_pipeline_inside_a_pl_kernel_can_be_stepped_through():
    player = viz.grid_player(small_pipeline, XB, WB)
    assert player.data["grid"] == [2, 4, 3]
    assert caption(player.data, 5) == (
        "Step 6 of 24, grid index (0, 1, 2): x_hbm block (0, 2), y_hbm block (2, 1), o_hbm block (0, 1)"
    )


def test_overlapping_blocks_are_not_drawn():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[:8]

    f = pl.pallas_call(
        kernel,
        out_shape=jnp.zeros((24, 128)),
        grid=(3,),
        in_specs=[pl.BlockSpec((pl.Element(16), 128), lambda i: (8 * i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
    )
    with pytest.raises(ValueError, match="blocks of x_ref are counted in elements"):
        viz.grid_player(f, jnp.zeros((32, 128)))
