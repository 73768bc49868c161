"""What the model says XLA reads and writes around kernels, beside the bytes of the programs that it compiles."""

import jax
import jax.numpy as jnp
import pytest
from conftest import needs_libtpu

from course_lib import chips, compiler, grid
from course_lib.roofline import xla

N = 1 << 17


def of(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def moved(fn, *args) -> int:
    found = xla.fusions(grid.walk(fn, *args).jaxpr, chips.chip("v5e"))
    return sum(fusion.times * fusion.bytes for fusion in found)


LIE = {
    "a column": (jnp.exp, of(8 * N, 1)),
    "64 columns": (jnp.exp, of(N, 64)),
    "100 columns": (jnp.exp, of(N, 100)),
    "64 columns of bf16": (jnp.exp, of(N, 64, dtype=jnp.bfloat16)),
    "one row of bf16": (jnp.exp, of(1, N, dtype=jnp.bfloat16)),
    "ragged": (jnp.exp, of(1001, 3333)),
    "ragged bf16": (jnp.exp, of(1001, 3333, dtype=jnp.bfloat16)),
    "100 columns of int8": (lambda x: x ^ 1, of(N, 100, dtype=jnp.int8)),
    "three axes": (jnp.exp, of(64, 1000, 64)),
    "three axes, three in the middle": (jnp.exp, of(512, 3, 1000)),
    "sums in a column": (lambda x: x.sum(1, keepdims=True), of(N, 256)),
    "a product with 64 columns": (jnp.dot, of(N, 256, dtype=jnp.bfloat16), of(256, 64, dtype=jnp.bfloat16)),
    "a column added": (jnp.add, of(8192, 1024), of(8192, 1)),
}


@needs_libtpu
@pytest.mark.parametrize("name", LIE)
def test_xla_moves_whole_tiles_in_the_order_that_needs_least(name):
    fn, *args = LIE[name]
    assert moved(fn, *args) == compiler.compile_tpu(fn, *args, simulate=False).hbm_bytes


@needs_libtpu
def test_what_two_products_leave_between_them_is_counted_and_does_not_move():
    wide, narrow = of(N // 2, 512, dtype=jnp.bfloat16), of(512, 64, dtype=jnp.bfloat16)
    fn, args = (lambda x, w: x @ w @ w.T), (wide, narrow)
    between = 2 * grid.stored_bytes((64, N // 2), jnp.bfloat16)
    report = compiler.compile_tpu(fn, *args, simulate=False)
    assert moved(fn, *args) - report.hbm_bytes == pytest.approx(between, rel=0.01)


def test_what_is_no_plain_array_is_counted_too():
    assert moved(lambda x: x + 1, of()) == 8
    key = jax.random.key(0)
    assert moved(lambda k: jax.random.split(k, 4), key) > 0
