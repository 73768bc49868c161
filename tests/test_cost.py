"""cost counts operations and VMEM; traffic is in test_grid and test_grid_brute_force."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from test_grid import X, Y, matmul
from test_grid_following import WB, XB, small_pipeline

from course_lib import cost, grid
from course_lib.cost.vmem import padded_bytes


def test_a_matmul_counts_its_products_on_the_mxu_and_its_sums_apart():
    work = cost.flops(grid.walk(matmul, X, Y))
    assert work.mxu == 2 * 256 * 384 * 512
    assert work.vector == 256 * 512 * 3, "one add for each of the three products of a tile"
    assert (work.transcendental, work.doubt) == (0, "")


def test_a_branch_counts_at_the_steps_that_take_it():
    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def first():
            o_ref[...] = jnp.exp(x_ref[...])

        @pl.when(pl.program_id(0) != 0)
        def others():
            o_ref[...] = x_ref[...] * 2 + 1

    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    x = jnp.zeros((64, 128))
    work = cost.flops(grid.walk(pl.pallas_call(kernel, out_shape=x, grid=(8,), in_specs=[spec], out_specs=spec), x))
    assert work.transcendental == 8 * 128
    assert work.vector == 7 * 2 * 8 * 128


def test_loops_inside_a_kernel_count_their_turns():
    def kernel(x_ref, o_ref):
        o_ref[...] = jax.lax.fori_loop(0, 5, lambda _, v: v + 1, x_ref[...])

    x = jnp.zeros((8, 128))
    assert cost.flops(grid.walk(lambda x: pl.pallas_call(kernel, out_shape=x)(x), x)).vector == 5 * 8 * 128


def test_a_branch_that_data_decides_is_an_upper_bound():
    def kernel(x_ref, o_ref):
        @pl.when(jnp.max(x_ref[...]) > 0)
        def perhaps():
            o_ref[...] = x_ref[...] * 2

    x = jnp.zeros((8, 128))
    work = cost.flops(grid.walk(lambda x: pl.pallas_call(kernel, out_shape=x)(x), x))
    assert work.vector == 8 * 128 + 8 * 128, "the maximum, and the product as if it always ran"
    assert "a condition depends on an array's values" in work.doubt


@pytest.mark.parametrize(
    "fn, mxu",
    [
        (lambda x, y: x @ y, 2 * 256 * 384 * 512),
        (lambda x, y: jnp.einsum("mk,kn->nm", x, y), 2 * 256 * 384 * 512),
        (lambda x, y: jax.lax.fori_loop(0, 3, lambda _, v: v + x @ y, jnp.zeros((256, 512))), 6 * 256 * 384 * 512),
        (lambda x, y: jax.nn.relu(x)[:, :1] + y[:1, 0], 0),
        (jax.grad(lambda x, y: (x @ y).sum()), 2 * 256 * 512 * 384),
    ],
)
def test_plain_functions_are_counted_too(fn, mxu):
    assert cost.flops(grid.walk(fn, X, Y)).mxu == mxu


def test_plain_counts_agree_with_xla():
    """XLA's own count of a layer: it counts the same products, and one FLOP for each elementwise operation."""

    def layer(x, y):
        return jnp.maximum(x @ y, 0.0) * 2.0

    ours = cost.flops(grid.walk(layer, X, Y))
    theirs = jax.jit(layer).lower(X, Y).compile().cost_analysis()["flops"]
    assert ours.total == pytest.approx(theirs, rel=0.01)


def test_a_ragged_product_counts_each_row_once_and_so_do_its_gradients():
    x, w, sizes, g = jnp.ones((64, 32)), jnp.ones((4, 32, 16)), jnp.full(4, 16, jnp.int32), jnp.ones((64, 16))
    product = functools.partial(jax.lax.ragged_dot, group_sizes=sizes)
    assert cost.flops(grid.walk(product, x, w)).mxu == 2 * 64 * 32 * 16
    assert cost.flops(grid.walk(lambda x, w, g: jax.vjp(product, x, w)[1](g), x, w, g)).mxu == 2 * 2 * 64 * 32 * 16


def test_a_convolution_counts_its_products():
    def conv(x, w):
        return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    x, w = jax.ShapeDtypeStruct((2, 8, 8, 16), jnp.float32), jax.ShapeDtypeStruct((3, 3, 16, 32), jnp.float32)
    assert cost.flops(grid.walk(conv, x, w)).mxu == 2 * (2 * 8 * 8 * 32) * (3 * 3 * 16)


def buffers_of(in_block, *, steps, shape, scratch=(), mode=None, dtype=jnp.float32):
    def kernel(x_ref, o_ref, *scratch_refs):
        o_ref[...] = x_ref[...]

    spec = pl.BlockSpec(in_block, lambda i: (i,) + (0,) * (len(shape) - 1), pipeline_mode=mode)
    x = jax.ShapeDtypeStruct(shape, dtype)
    call = pl.pallas_call(
        kernel, out_shape=x, grid=(steps,), in_specs=[spec], out_specs=spec, scratch_shapes=list(scratch)
    )
    return cost.vmem(grid.walk(call, x))


def test_vmem_names_each_buffer_and_why_it_is_there():
    x, o, scratch = buffers_of((256, 512), steps=4, shape=(1024, 512), scratch=[pltpu.VMEM((256, 128), jnp.float32)])
    assert (x.name, x.buffers, x.bytes) == ("x_ref", 2, 2 * 256 * 512 * 4)
    assert x.why.startswith("2 buffers: the next block is fetched")
    assert o.why.startswith("2 buffers: the last block is written back")
    assert (scratch.name, scratch.bytes) == ("scratch_refs[0]", 256 * 128 * 4)
    assert scratch.why.startswith("scratch")


def test_a_block_that_is_the_whole_array_has_one_buffer():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    x = jnp.zeros((256, 512))
    (row, _) = cost.vmem(grid.walk(lambda x: pl.pallas_call(kernel, out_shape=x)(x), x))
    assert (row.buffers, row.bytes) == (1, x.nbytes)
    (single, _) = buffers_of((256, 512), steps=4, shape=(1024, 512), mode=pl.Buffered(1))
    assert single.why == "1 buffer, as requested with pl.Buffered(1): the core waits for its copies"


def test_a_block_that_no_axis_of_the_grid_moves_has_one_buffer():
    spec = pl.BlockSpec((256, 512), lambda i: (1, 0))
    x = jnp.zeros((1024, 512))
    fn = pl.pallas_call(add_one, out_shape=x, grid=(4,), in_specs=[spec], out_specs=spec)
    rows = cost.vmem(grid.walk(fn, x))
    assert [row.buffers for row in rows] == [1, 1]
    assert rows[0].why == "1 buffer: its index is the same at every step, so the block stays"


def add_one(x_ref, o_ref):
    o_ref[...] = x_ref[...] + 1


@pytest.mark.parametrize(
    "shape, dtype, bytes_",
    [
        ((256, 512), np.float32, 256 * 512 * 4),
        ((24, 100), np.float32, 24 * 128 * 4),
        ((20, 128), jnp.bfloat16, 24 * 128 * 2),
        ((1, 512), np.float32, 512 * 4),
        ((3, 5, 100), jnp.bfloat16, 3 * 8 * 128 * 2),
        ((2, 128), jnp.bfloat16, 2 * 128 * 2),
        ((1, 128), jnp.bfloat16, 2 * 128 * 2),
        ((1, 128), jnp.int8, 4 * 128),
        ((3, 2, 100), jnp.int8, 3 * 4 * 128),
        ((300,), jnp.bfloat16, 512 * 2),
        ((300,), jnp.int8, 512),
        ((64, 128), jnp.int4, 64 * 128 // 2),
        ((3, 128), jnp.int4, 8 * 128 // 2),
        ((5, 128), jnp.bool_, 8 * 128 * 4),
        ((3, 128), np.float32, 4 * 128 * 4),
        ((1024,), np.float32, 4096),
        ((), np.float32, 512),
    ],
)
def test_padding_in_vmem(shape, dtype, bytes_):
    assert padded_bytes(shape, dtype) == bytes_


def test_legal_sizes():
    assert cost.legal_sizes(512, axis=-1, rank=2) == [128, 256, 512]
    assert cost.legal_sizes(48, axis=0, rank=2) == [8, 16, 24, 48]
    assert cost.legal_sizes(48, axis=0, rank=2, even=False) == [8, 16, 24, 32, 40, 48]
    assert cost.legal_sizes(100, axis=1, rank=2) == [100], "no multiple of 128 fits, the whole axis always does"
    assert cost.legal_sizes(4096, axis=0, rank=1) == [128, 256, 512, 1024, 2048, 4096]
    assert cost.legal_sizes(4096, axis=0, rank=1, dtype=jnp.bfloat16)[0] == 256
    assert cost.legal_sizes(6, axis=0, rank=3) == [1, 2, 3, 6]
    assert cost.legal_sizes(96, axis=0, rank=2, dtype=jnp.int8) == [32, 96]
    assert cost.legal_sizes(128, axis=0, rank=2, dtype=jnp.int4) == [64, 128]
    with pytest.raises(ValueError, match="length=0 is not the length of an axis"):
        cost.legal_sizes(0, axis=0, rank=1)
    with pytest.raises(ValueError, match="axis=2 is not an axis of an array of rank 2: say -2 to 1."):
        cost.legal_sizes(512, axis=2, rank=2)


def test_the_largest_block_that_fits():
    def needs(b):
        return cost.vmem_bytes(grid.walk(functools.partial(matmul, b=b), square, square))

    square = jax.ShapeDtypeStruct((2048, 2048), jnp.float32)
    sizes = cost.legal_sizes(2048, axis=1, rank=2)
    best = cost.largest_block(needs, sizes, 16 << 20)
    assert best == 512, "3 operands x 2 buffers x 512 x 512 x 4 bytes = 6 MiB; 1024 would take 24 MiB"
    assert needs(best) == 6 << 20
    assert cost.largest_block(needs, sizes, 1000) is None


def test_the_windows_of_an_emit_pipeline_go_by_what_they_hold():
    rows = cost.vmem(grid.walk(small_pipeline, XB, WB))
    assert [(row.name, row.shape, row.buffers, row.bytes) for row in rows] == [
        ("x_hbm", (128, 128), 2, 2 * 128 * 128 * 2),
        ("y_hbm", (128, 128), 2, 2 * 128 * 128 * 2),
        ("o_hbm", (128, 128), 2, 2 * 128 * 128 * 4),
    ]
    assert rows[0].why == "2 buffers of the pipeline in the kernel's body"
