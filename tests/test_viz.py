"""The grid player's data and its still picture. What it does in a browser is tested in tests/browser."""

import xml.etree.ElementTree as ElementTree

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

from course_lib import viz

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
