"""The elementwise kernels: every shape and dtype, by all four judges; their gradients; their complaints."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accepted import accepted
from conftest import needs_libtpu
from jax.test_util import check_grads
from sweeps import daily

from course_lib import chips, compiler, cost, grid
from course_lib.kernels import elementwise, scale_add

SHAPES = [(), (1,), (1000,), (300_001,), (1, 1), (7, 13), (33, 1300), (2, 1, 3, 40)]
OPS = {"add": jnp.add, "subtract": jnp.subtract, "multiply": jnp.multiply}


def pair(shape, dtype):
    rng = np.random.default_rng(0)
    return tuple(jnp.asarray(rng.integers(-99, 99, shape), dtype) for _ in range(2))


@pytest.mark.parametrize(
    "shape, dtype",
    daily(
        ((1000,), "bfloat16"),
        ((33, 1300), "int32"),
        of=[(shape, "float32") for shape in SHAPES]
        + [(shape, dtype) for shape in [(), (1000,), (33, 1300)] for dtype in ("int32", "bfloat16")],
    ),
    ids=str,
)
def test_add_by_four_judges(shape, dtype):
    """Of bf16 vectors the simulator writes the cycles, and then aborts (libtpu 0.0.48, 0.0.50): that is caught."""
    accepted(elementwise.add, elementwise.add_reference, *pair(shape, dtype))


@pytest.mark.parametrize("dtype", daily("float32", of=["float32", "int32"]))
@pytest.mark.parametrize("op", daily("subtract", of=["subtract", "multiply"]))
def test_siblings_by_four_judges(op, dtype):
    accepted(getattr(elementwise, op), OPS[op], *pair((33, 300), dtype))


@pytest.mark.parametrize("op", OPS)
def test_gradients(op):
    x, y = (v / 100 for v in pair((9, 20), jnp.float32))
    # A wide step: these functions are linear in each argument, so differences are exact but for rounding.
    check_grads(getattr(elementwise, op), (x, y), order=1, modes=["rev"], eps=0.1)


CASTS = [
    ("float32", "bfloat16"),
    ("bfloat16", "float32"),
    ("float32", "int8"),
    ("int32", "float32"),
    ("int8", "bfloat16"),
]


@pytest.mark.parametrize("was, becomes", daily(("float32", "int8"), of=CASTS))
def test_casts_by_four_judges(was, becomes):
    (x, _) = pair((33, 300), was)
    accepted(lambda x: elementwise.cast(x, becomes), lambda x: x.astype(becomes), x)


def test_gradients_of_casts():
    x = jnp.float32([1.5, 2.5])
    got = jax.jit(jax.grad(lambda x: (elementwise.cast(x, jnp.bfloat16) ** 2).sum().astype(jnp.float32)))(x)
    np.testing.assert_array_equal(got, [3, 5])
    assert got.dtype == jnp.float32
    np.testing.assert_array_equal(jax.grad(lambda x: elementwise.cast(x, jnp.int8).sum() * x[0])(x), [3, 0])


def test_a_cast_to_the_same_dtype_is_nothing():
    x = jnp.zeros((3, 5))
    assert elementwise.cast(x, jnp.float32) is x


@pytest.mark.parametrize("dtype", ["float16", "bool", "uint8"])
def test_casts_to_and_from_other_dtypes_are_refused(dtype):
    with pytest.raises(ValueError, match=f"dtype is {dtype}; it may be float32, bfloat16, int32 or int8"):
        elementwise.cast(jnp.zeros(3), dtype)
    with pytest.raises(ValueError, match=f"x is {dtype}"):
        elementwise.cast(jnp.zeros(3, dtype), jnp.float32)


@pytest.mark.parametrize(
    "shape, dtype",
    daily(
        ((5001,), jnp.bfloat16),
        of=[((33, 1300), jnp.float32), ((5001,), jnp.bfloat16), ((3, 4, 50), jnp.int32), ((), jnp.float32)],
    ),
    ids=str,
)
def test_scale_add_by_four_judges(shape, dtype):
    a = jnp.asarray(-3, jnp.int32 if dtype == jnp.int32 else jnp.float32)
    accepted(scale_add.scale_add, scale_add.reference, a, *pair(shape, dtype))


@pytest.mark.parametrize(
    "shape, dtype",
    daily(
        ((33, 130), jnp.bfloat16),
        of=[((100, 300), jnp.float32), ((2500,), jnp.float32), ((33, 130), jnp.bfloat16)],
    ),
    ids=str,
)
def test_gradient_of_scale_add_by_four_judges(shape, dtype):
    """In blocks that the arrays do not fill: what lies past the edges must not be in the sum."""

    def gradient(fn):
        return lambda a, x, y, g: jax.vjp(fn, a, x, y)[1](g)[:2]

    def ours(a, x, y):
        return scale_add.scale_add(a, x, y, blocks=elementwise.Blocks(bm=8, bn=128))

    x, y = (v / 64 for v in pair(shape, dtype))
    accepted(gradient(ours), gradient(scale_add.reference), jnp.float32(1.5), x, y, y)


def test_scale_add_on_a_cpu():
    x, y = pair((4, 30), jnp.float32)
    a = jnp.float32([1, 2, 3, 4])
    np.testing.assert_array_equal(jax.jit(jax.vmap(scale_add.scale_add))(a, x, y), a[:, None] * x + y)
    np.testing.assert_array_equal(scale_add.scale_add(2, x, y), 2 * x + y)
    check_grads(scale_add.scale_add, (0.5, x / 100, y / 100), order=1, modes=["rev"], eps=0.1, rtol=1e-2)
    with pytest.raises(ValueError, match=r"a has shape \(4,\); it must be a scalar"):
        scale_add.scale_add(a, x, y)


@needs_libtpu
@pytest.mark.parametrize(
    "shape", [(1, 1), (3, 100_000), (100_000, 3), (5_000_001,), (20_000, 5_000), (2, 3, 4, 5)], ids=str
)
def test_blocks_chosen_are_legal_and_fit_on_every_chip(shape):
    x = jax.ShapeDtypeStruct(shape, jnp.float32)
    for chip in ("v5e", "v5p"):
        report = compiler.compile_tpu(
            scale_add.scale_add, jax.ShapeDtypeStruct((), jnp.float32), x, x, chip=chip, simulate=False
        )
        assert report.ok, report.error


def test_blocks_larger_than_the_chip_are_refused():
    x = jnp.zeros((30_000, 4096))
    with pytest.raises(ValueError, match=r"needs 96[0-9.]+ MiB of VMEM, and the chip has 128.0 MiB"):
        elementwise.add(x, x, blocks=elementwise.Blocks(bm=10_240, bn=4096))


@needs_libtpu
def test_large_blocks_get_the_vmem_they_need():
    x = jax.ShapeDtypeStruct((4096, 4096), jnp.float32)
    report = compiler.compile_tpu(lambda x, y: elementwise.add(x, y, blocks=elementwise.Blocks(bm=1024, bn=2048)), x, x)
    assert report.ok, report.error


@needs_libtpu
def test_gradient_compiles_for_a_v5e_as_a_kernel():
    x = jax.ShapeDtypeStruct((300, 700), jnp.float32)
    gradient = jax.grad(lambda x, y: elementwise.multiply(x, y).sum(), argnums=(0, 1))
    assert compiler.compile_tpu(gradient, x, x).ok
    assert len(grid.walk(gradient, x, x).calls) >= 2


BLOCKS = elementwise.Blocks(bm=8, bn=128), elementwise.Blocks(bm=512, bn=256)


@pytest.mark.parametrize("blocks", daily(elementwise.Blocks(bm=512, bn=256), of=BLOCKS), ids=str)
def test_blocks_change_nothing_but_the_grid(blocks):
    def add(x, y):
        return elementwise.add(x, y, blocks=blocks)

    accepted(add, jnp.add, *pair((100, 300), jnp.float32))
    block = grid.walk(add, *pair((100, 300), jnp.float32)).calls[0].outputs[0].block_shape
    assert block == (min(100, blocks.bm), min(300, blocks.bn))


def test_every_element_is_moved_once():
    x = jax.ShapeDtypeStruct((1000, 3000), jnp.float32)
    assert cost.payload_bytes(grid.walk(elementwise.add, x, x)) == 3 * 1000 * 3000 * 4


@needs_libtpu
@pytest.mark.parametrize("shape", [(8192, 2048), (8192 * 2048,)], ids=str)
def test_large_add_is_bound_by_hbm(shape):
    """Predicted: the kernel's cycles hide behind its traffic."""
    x = jax.ShapeDtypeStruct(shape, jnp.float32)
    report = compiler.compile_tpu(elementwise.add, x, x)
    v5e = chips.chip("v5e")
    assert report.cycles / v5e.clock_hz < report.hbm_bytes / v5e.hbm_bandwidth


@pytest.mark.parametrize(
    "x, y, says",
    [
        (jnp.zeros(3), jnp.zeros(4), r"x has shape \(3,\) and y \(4,\)"),
        (jnp.zeros(3), jnp.zeros(3, jnp.int32), "x is float32 and y int32"),
    ],
)
def test_bad_input_gets_one_clear_error(x, y, says):
    with pytest.raises(ValueError, match=says):
        elementwise.add(x, y)
