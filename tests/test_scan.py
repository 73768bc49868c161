"""Cumulative sums: along both axes and both ways, by all four judges; gradients; complaints."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accepted import accepted
from conftest import needs_libtpu
from sweeps import daily

from course_lib import chips, compiler, cost, grid
from course_lib.kernels import scan
from course_lib.kernels.scan import Blocks

SMALL = Blocks(bm=128, bn=128)
WAYS = [(axis, reverse) for axis in (0, -1) for reverse in (False, True)]


def some(shape, dtype=jnp.float32):
    return jnp.asarray(np.random.default_rng(0).normal(size=shape) * 9, dtype)


@pytest.mark.parametrize(
    "axis, reverse, dtype",
    daily(
        (-1, True, "bfloat16"),
        of=[(*way, dtype) for way in WAYS for dtype in ("float32", "bfloat16", "int32")],
    ),
)
def test_over_several_ragged_blocks_by_four_judges(axis, reverse, dtype):
    accepted(
        lambda x: scan.cumsum(x, axis, reverse=reverse, blocks=SMALL),
        lambda x: scan.reference(x, axis, reverse=reverse),
        some((150, 300), dtype),
    )


ANY = [[1, 1], [7, 13], [500], [2, 3, 140], [150, 4]]


@pytest.mark.sweep  # every day blocks that are given: the test above
@pytest.mark.parametrize("shape", ANY, ids=str)
def test_blocks_chosen_by_four_judges(shape):
    accepted(scan.cumsum, scan.reference, some(shape))


@pytest.mark.parametrize(
    "shape, reverse, dtype",
    daily(
        ([3, 20_000], True, "float32"),  # squares of 128 pieces of 128: a carry from square to square
        of=[
            (shape, reverse, dtype)
            for shape in ([3, 20_000], [20, 17_000], [12, 300], [20, 2000], [40_000])
            for reverse in (False, True)
            for dtype in ("float32", "bfloat16", "int32")
        ],
    ),
    ids=str,
)
def test_few_long_rows_by_four_judges(shape, reverse, dtype):
    accepted(
        lambda x: scan.cumsum(x, reverse=reverse), lambda x: scan.reference(x, reverse=reverse), some(shape, dtype)
    )


@pytest.mark.sweep  # every day planes go by in blocks
@pytest.mark.parametrize("axis, reverse", [(axis, reverse) for axis in (0, 1, 2) for reverse in (False, True)])
def test_any_axis_by_four_judges(axis, reverse):
    def sums(x):
        return scan.cumsum(x, axis, reverse=reverse, blocks=Blocks(bm=32, bn=128))

    accepted(sums, lambda x: scan.reference(x, axis, reverse=reverse), some((5, 3, 40, 140)))


@pytest.mark.parametrize("axis, reverse", daily((0, True), of=[(0, False), (0, True), (1, False), (1, True)]))
def test_planes_go_by_in_blocks(axis, reverse, monkeypatch):
    monkeypatch.setattr("course_lib.kernels.scan.blocks._PLANES", 2 * 8 * 128)
    accepted(
        lambda x: scan.cumsum(x, axis, reverse=reverse, blocks=Blocks(bm=32, bn=128)),
        lambda x: scan.reference(x, axis, reverse=reverse),
        some((5, 3, 12, 200)),
    )


@needs_libtpu
@pytest.mark.parametrize(
    "shape, dtype", daily(((4, 500_000), "float32"), of=[((4, 500_000), "float32"), ((1024, 2048), "bfloat16")])
)
def test_long_rows_and_bf16_take_the_time_their_bytes_take(shape, dtype):
    """Predicted. Rows used to lie one to a register: 67 times as long for four of a million."""
    x = jax.ShapeDtypeStruct(shape, dtype)
    ideal = 2 * x.size * x.dtype.itemsize / chips.chip("v5e").hbm_bandwidth
    assert compiler.compile_tpu(scan.cumsum, x).seconds <= 1.15 * ideal


def test_gradient_by_four_judges():
    def gradient(fn):
        return lambda x, g: jax.vjp(fn, x)[1](g)[0]

    x = some((40, 140))
    accepted(gradient(lambda x: scan.cumsum(x, blocks=SMALL)), gradient(scan.reference), x, x[::-1])


def test_an_infinity_stays_in_its_row_and_what_follows():
    x = some((8, 256)).at[3, 200].set(jnp.inf)
    accepted(scan.cumsum, scan.reference, x)


@pytest.mark.sweep  # every day, of fewer numbers, among those of ragged blocks
def test_sums_are_collected_in_f32():
    """In bf16, 256 + 1 is 256."""
    x = jnp.ones((16, 384), jnp.bfloat16)
    accepted(lambda x: scan.cumsum(x, blocks=SMALL), scan.reference, x)
    assert scan.cumsum(x)[0, -1] == 384


@needs_libtpu
@pytest.mark.parametrize("axis, reverse", daily((-1, True), of=WAYS))
def test_large_arrays_are_bound_by_hbm(axis, reverse):
    """Predicted, in f32: within 2 % of the time that reading and writing takes. Everything is moved once."""
    x = jax.ShapeDtypeStruct((8192, 2048), jnp.float32)

    def sums(x):
        return scan.cumsum(x, axis, reverse=reverse)

    report = compiler.compile_tpu(sums, x)
    assert report.seconds <= 1.02 * 2 * x.size * 4 / chips.chip("v5e").hbm_bandwidth
    assert cost.hbm_bytes(grid.walk(sums, x)) == 2 * x.size * 4


@needs_libtpu
@pytest.mark.parametrize("shape", daily([50_000, 3], of=[[3, 50_000], [50_000, 3], [9000, 5000]]), ids=str)
def test_blocks_chosen_are_legal_and_fit(shape):
    x = jax.ShapeDtypeStruct(shape, jnp.bfloat16)
    for chip in ("v5e", "v5p"):
        for axis, reverse in WAYS[1:3]:
            report = compiler.compile_tpu(
                lambda x, a=axis, r=reverse: scan.cumsum(x, a, reverse=r), x, chip=chip, simulate=False
            )
            assert report.ok, report.error


@needs_libtpu
def test_vmap_of_the_gradient_compiles_for_a_v5e():
    x = jax.ShapeDtypeStruct((3, 300, 700), jnp.float32)
    report = compiler.compile_tpu(jax.vmap(jax.grad(lambda x: (scan.cumsum(x, 0) ** 2).sum())), x, simulate=False)
    assert report.ok, report.error


@pytest.mark.parametrize(
    "x, axis, says",
    [
        (
            jnp.zeros((2, 3, 4)),
            3,
            r"cumsum: axis is 3 and x has shape \(2, 3, 4\); it must be a whole number from -3 to 2",
        ),
        (jnp.zeros((2, 3)), None, r"axis is None and x has shape \(2, 3\); it must be a whole number from -2 to 1"),
        (jnp.zeros(()), -1, r"cumsum: x has shape \(\), and an axis is wanted. Try x\[None\]"),
        (jnp.zeros((2, 3), jnp.int8), 0, "cumsum: x is int8; it may be float32, bfloat16 or int32"),
    ],
)
def test_bad_input_gets_one_clear_error(x, axis, says):
    with pytest.raises(ValueError, match=says):
        scan.cumsum(x, axis)


def test_blocks_larger_than_the_chip_are_refused():
    with pytest.raises(ValueError, match=r"needs [0-9.]+ MiB of VMEM, and the chip has 128.0 MiB"):
        scan.cumsum(jnp.zeros((4096, 4096)), blocks=Blocks(bm=4096, bn=4096))
