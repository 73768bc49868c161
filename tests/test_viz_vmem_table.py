"""The VMEM table's figures beside cost.vmem and the compiler, its verdicts, and its still picture.

What it does in a browser is tested in tests/browser.
"""

import functools

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from sample_kernels import VECTOR, add, array, matmul, pipelined_matmul
from viz_samples import overflowing, parsed

from course_lib import chips, compiler, cost, grid, viz
from course_lib.viz.vmem_table.vmem_table import illegal

SQUARE = array((4096, 4096))
LARGE = functools.partial(matmul, blocks=(1024, 1024, 1024))


def rowwise(x):
    """A row that stays beside blocks of rows, of an array whose sizes fill no tile."""

    def kernel(x_ref, bias_ref, o_ref):
        o_ref[...] = x_ref[...] + bias_ref[...]

    return pl.pallas_call(
        kernel,
        out_shape=x,
        grid=(x.shape[0] // 40,),
        in_specs=[pl.BlockSpec((40, x.shape[1]), lambda i: (i, 0)), pl.BlockSpec((1, x.shape[1]), lambda i: (0, 0))],
        out_specs=pl.BlockSpec((40, x.shape[1]), lambda i: (i, 0)),
    )(x, x[:1])


def in_hbm(x):
    """Nothing of this kernel lies in VMEM."""
    return pl.pallas_call(
        lambda x_ref, o_ref: None,
        out_shape=x,
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
    )(x)


KERNELS = {
    "matmul": (matmul, SQUARE, SQUARE),
    "matmul of bf16": (matmul, array((1024, 512), jnp.bfloat16), array((512, 2048), jnp.bfloat16)),
    "vectors": (add, VECTOR, VECTOR),
    "a row that stays": (rowwise, array((200, 300))),
    "int8": (rowwise, array((200, 300), jnp.int8)),
    "a pipeline in the body": (functools.partial(pipelined_matmul, buffers=3), array((512, 512)), array((512, 512))),
}


@pytest.mark.parametrize("name", KERNELS)
def test_it_starts_with_what_cost_counts(name):
    fn, *args = KERNELS[name]
    rows = viz.vmem_table(fn, *args).rows
    theirs = cost.vmem(grid.walk(fn, *args))
    assert [(r.name, r.purpose, r.buffers, r.bytes) for r in rows] == [
        (b.name, b.purpose, b.buffers, b.bytes) for b in theirs
    ]
    assert sum(row.bytes for row in rows) == cost.vmem_bytes(grid.walk(fn, *args))


def test_only_the_first_kernel_counts():
    def twice(x, y):
        return matmul(matmul(x, y), y, blocks=(1024, 1024, 1024))

    assert viz.vmem_table(twice, SQUARE, SQUARE).rows == viz.vmem_table(matmul, SQUARE, SQUARE).rows


def test_the_padded_shape_holds_the_bytes():
    for shape in [(1, 100), (3, 100), (5, 100), (8, 128), (9, 129), (300,), (3, 5, 100), (2, 1, 1), ()]:
        for dtype in (np.float32, np.int8):
            assert np.prod(cost.padded_shape(shape, dtype)) * np.dtype(dtype).itemsize == cost.padded_bytes(
                shape, dtype
            )
    assert cost.padded_shape((5, 100)) == (8, 128)
    table = viz.vmem_table(rowwise, array((200, 300)))
    assert "bias_ref, input window: (1, 300) float32, takes (1, 384), 1 buffer: 2 KiB" in said(table)


def said(table) -> str:
    return table._repr_mimebundle_()[0]["text/plain"]


def test_the_limit_is_the_kernels_own_where_it_asks():
    assert "12 MiB too much: the kernel needs 28 MiB, and may use 16 MiB. The compiler would refuse it." in said(
        viz.vmem_table(LARGE, SQUARE, SQUARE)
    )
    assert "A v5e has 128 MiB: smaller blocks help, or a larger vmem_limit_bytes." in said(
        viz.vmem_table(LARGE, SQUARE, SQUARE)
    )
    asks = functools.partial(LARGE, vmem_limit_bytes=40 << 20)
    assert "Fits: 28 MiB of 40 MiB used, 12 MiB free." in said(viz.vmem_table(asks, SQUARE, SQUARE))
    assert "Fits: 28 MiB of 32 MiB used" in said(viz.vmem_table(LARGE, SQUARE, SQUARE, chip="v6e"))
    small = said(viz.vmem_table(asks, SQUARE, SQUARE, chip="v4"))  # 40 MiB are more than a v4 has
    assert "A larger vmem_limit_bytes does not help: a v4 has 16 MiB." in small


def test_what_if_is_counted_again():
    table = viz.vmem_table(LARGE, SQUARE, SQUARE)
    table.shapes = [[1024, 512], [512, 1024], [1024, 1024], [1024, 1024]]
    table.buffers = [2, 2, 1, 1]
    assert [row.bytes for row in table.rows] == [4 << 20] * 4
    assert "Fits: 16 MiB of 16 MiB used, 0 bytes free." in said(table)


@pytest.mark.parametrize(
    ("fn", "args", "shapes", "says"),
    [
        (
            matmul,
            (SQUARE, SQUARE),
            [[510, 512]],
            "x_ref, axis 0: 510 is not legal. It is a multiple of 8, or the whole",
        ),
        (matmul, (SQUARE, SQUARE), [[510, 512]], "Nearest: 504, 512 or 4096, the whole axis."),
        (
            matmul,
            (SQUARE, SQUARE),
            [[512, 100]],
            "axis 1: 100 is not legal. It is a multiple of 128, or the whole axis.",
        ),
        (matmul, (SQUARE, SQUARE), [[512, 100]], "Nearest: 128 or 4096, the whole axis."),
        (
            add,
            (VECTOR, VECTOR),
            [[300]],
            "It is a multiple of 1024, a power of two of at least 128, or the whole axis.",
        ),
        (add, (VECTOR, VECTOR), [[300]], "Nearest: 256, 512 or 4096, the whole axis."),
        (add, (VECTOR, VECTOR), [[64]], "Nearest: 128 or 4096, the whole axis."),
        (
            rowwise,
            (array((200, 300), jnp.int8),),
            [[40, 300]],
            "x_ref, axis 0: 40 is not legal. It is a multiple of 32",
        ),
        (rowwise, (array((200, 300)),), [[40, 299]], "Nearest: 256 or 300, the whole axis."),
    ],
)
def test_illegal_sizes_are_named_with_the_nearest_legal_ones(fn, args, shapes, says):
    table = viz.vmem_table(fn, *args)
    table.shapes = [*shapes, *table.shapes[1:]]
    assert says in said(table)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.int8, jnp.int4], ids=["f32", "bf16", "int8", "int4"])
@pytest.mark.parametrize("shape", [(3000,), (200, 700), (3, 200, 300)], ids=str)
def test_legal_means_what_cost_calls_legal(shape, dtype):
    rank, numbers = len(shape), jnp.dtype(dtype)
    row = {"name": "x_ref", "array": list(shape), "dtype": numbers.name, "itemsize": grid.bits(dtype) / 8, "rule": True}
    for axis, length in enumerate(shape):
        legal = set(cost.legal_sizes(length, axis=axis, rank=rank, dtype=dtype, even=False))
        tried = [[*shape[:axis], size, *shape[axis + 1 :]] for size in range(1, length + 1)]
        refused = {block[axis] for block in tried if illegal([row], [block])}
        assert refused == set(range(1, length + 1)) - legal


def test_scratch_and_pipelines_in_the_body_are_free_of_the_rule():
    table = viz.vmem_table(matmul, SQUARE, SQUARE)
    table.shapes = [*table.shapes[:3], [5, 100]]
    assert "not legal" not in said(table)


def test_the_still_picture_is_a_small_svg():
    bundle = viz.vmem_table(LARGE, SQUARE, SQUARE)._repr_mimebundle_()[0]
    assert parsed(bundle["image/svg+xml"]) is not None
    assert "12 MiB too much" in bundle["image/svg+xml"] and "x_ref" in bundle["image/svg+xml"]
    assert overflowing(bundle["image/svg+xml"]) == []
    assert len(bundle["image/svg+xml"]) < 20_000


@needs_libtpu
@pytest.mark.parametrize("blocks", [(512, 512, 512), (1024, 1024, 1024)], ids=str)
def test_the_compiler_refuses_what_is_too_much(blocks):
    fn = functools.partial(matmul, blocks=blocks)
    report = compiler.compile_tpu(fn, SQUARE, SQUARE, simulate=False)
    words = said(viz.vmem_table(fn, SQUARE, SQUARE))
    assert ("Fits" in words) == report.ok and ("too much" in words) == (not report.ok)
    if not report.ok:
        assert "vmem" in str(report).lower()


@needs_libtpu
def test_the_limit_is_the_compilers():
    for chip in chips.NAMES:
        limit = viz.vmem_table(matmul, SQUARE, SQUARE, chip=chip).data["limit"]
        assert limit == compiler.compile_tpu(matmul, SQUARE, SQUARE, chip=chip, simulate=False).vmem_limit


def test_bad_input_is_refused_in_words():
    with pytest.raises(ValueError, match="vmem_table: this function has no kernel"):
        viz.vmem_table(jnp.sin, SQUARE)
    with pytest.raises(ValueError, match="keeps nothing in VMEM"):
        viz.vmem_table(in_hbm, SQUARE)
    with pytest.raises(ValueError, match="chip='v3' is not known"):
        viz.vmem_table(matmul, SQUARE, SQUARE, chip="v3")
