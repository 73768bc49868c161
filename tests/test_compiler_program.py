"""compiler.program says in a few lines what XLA's program does."""

import jax
import jax.numpy as jnp
import pytest

from course_lib import compiler


def shaped(*shape, dtype=jnp.bfloat16):
    return jax.ShapeDtypeStruct(shape, dtype)


@pytest.fixture(scope="module")
def layer():
    return compiler.program(
        lambda x, w, b: jax.nn.relu(x @ w + b), shaped(256, 256), shaped(256, 256), shaped(256)
    ).splitlines()


def test_a_layer_is_one_fusion_that_names_its_operations(layer):
    fusions = [line for line in layer if " fusion " in line]
    assert len(fusions) == 1
    assert all(name in fusions[0] for name in ("convolution", "add", "maximum")) and "broadcast" not in fusions[0]


def test_the_last_line_adds_up_the_others(layer):
    *rows, total = [int(line.split()[0].replace(",", "")) for line in layer]
    assert sum(rows) == total


def test_a_wall_makes_several_operations():
    def in_pieces(x):
        return jnp.tanh(jax.lax.optimization_barrier(x + 1))

    x = shaped(16384, 4096, dtype=jnp.float32)
    assert len(compiler.program(in_pieces, x).splitlines()) > len(
        compiler.program(lambda x: jnp.tanh(x + 1), x).splitlines()
    )


def test_what_is_refused_has_no_program():
    from course_lib.lessons.lesson_09 import guide

    with pytest.raises(ValueError, match="there is none.*VMEM"):
        compiler.program(guide.strips, guide.SQUARE, guide.SQUARE)
