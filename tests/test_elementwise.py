"""The elementwise kernels: every shape and dtype, by all four judges; their gradients; their complaints."""

import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_libtpu
from jax.test_util import check_grads

from course_lib import chips, compiler, cost, grid, judges
from course_lib.kernels import elementwise

SHAPES = [(), (8,), (1000,), (4096,), (300_001,), (1, 1), (7, 13), (33, 1300), (3, 5, 700), (2, 1, 3, 40)]
OPS = {"add": jnp.add, "subtract": jnp.subtract, "multiply": jnp.multiply}


def pair(shape, dtype):
    rng = np.random.default_rng(0)
    return tuple(jnp.asarray(rng.integers(-99, 99, shape), dtype) for _ in range(2))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.int32, jnp.bfloat16], ids=["f32", "i32", "bf16"])
def test_add_by_four_judges(shape, dtype):
    """Of bf16 vectors the simulator writes the cycles, and then aborts (libtpu 0.0.48, 0.0.50): that is caught."""
    verdicts = judges.judge(elementwise.add, elementwise.reference, *pair(shape, dtype))
    assert all(v.passed is not False for v in verdicts), str(verdicts[-1])


@pytest.mark.parametrize("op", OPS)
def test_siblings_by_four_judges(op):
    for dtype in (jnp.float32, jnp.int32):
        verdicts = judges.judge(getattr(elementwise, op), OPS[op], *pair((33, 300), dtype))
        assert all(v.passed is not False for v in verdicts), str(verdicts[-1])


@pytest.mark.parametrize("op", OPS)
def test_gradients(op):
    x, y = (v / 100 for v in pair((9, 20), jnp.float32))
    # A wide step: these functions are linear in each argument, so differences are exact but for rounding.
    check_grads(getattr(elementwise, op), (x, y), order=1, modes=["rev"], eps=0.1)


@pytest.mark.parametrize("op", OPS)
def test_on_a_cpu_it_is_plain_jax_under_jit_grad_and_vmap(op):
    fn = getattr(elementwise, op)
    x, y = pair((4, 30), jnp.float32)
    np.testing.assert_array_equal(jax.jit(jax.vmap(fn))(x, y), OPS[op](x, y))
    got = jax.jit(jax.grad(lambda x: (fn(x, y) ** 2).sum()))(x)
    np.testing.assert_allclose(got, jax.grad(lambda x: (OPS[op](x, y) ** 2).sum())(x), rtol=1e-6)


@needs_libtpu
def test_gradient_compiles_for_a_v5e_as_a_kernel():
    x = jax.ShapeDtypeStruct((300, 700), jnp.float32)
    gradient = jax.grad(lambda x, y: elementwise.multiply(x, y).sum(), argnums=(0, 1))
    assert compiler.compile_tpu(gradient, x, x).ok
    assert len(grid.walk(gradient, x, x).calls) >= 2


def test_annotations_hold_while_kernels_are_traced():
    """The shapes and dtypes written beside arguments and refs, checked by beartype in a process of its own."""
    code = """
        from jaxtyping import install_import_hook
        with install_import_hook("course_lib.kernels", "beartype.beartype"):
            from course_lib.kernels import elementwise
        import jax.numpy as jnp
        from course_lib import grid
        for shape in ((), (8,), (7, 13), (3, 5, 700)):
            for dtype in (jnp.float32, jnp.bfloat16, jnp.int32):
                assert grid.walk(elementwise.add, jnp.zeros(shape, dtype), jnp.zeros(shape, dtype)).calls
        try:
            elementwise.add(jnp.zeros(3), "no array")
        except Exception as error:
            print(type(error).__name__)
    """
    out = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)
    assert out.returncode == 0, out.stderr[-2000:]
    assert out.stdout == "TypeCheckError\n", "the annotations were not checked at all"


def test_empty_arrays():
    assert elementwise.add(jnp.zeros((0, 4)), jnp.zeros((0, 4))).shape == (0, 4)


@pytest.mark.parametrize("blocks", [elementwise.Blocks(bm=8, bn=128), elementwise.Blocks(bm=512, bn=256)], ids=str)
def test_blocks_change_nothing_but_the_grid(blocks):
    def add(x, y):
        return elementwise.add(x, y, blocks=blocks)

    verdicts = judges.judge(add, jnp.add, *pair((100, 300), jnp.float32))
    assert all(v.passed is not False for v in verdicts), str(verdicts[-1])
    block = grid.walk(add, *pair((100, 300), jnp.float32)).calls[0].outputs[0].block_shape
    assert block == (min(100, blocks.bm), min(300, blocks.bn))


def test_every_element_is_moved_once():
    x = jax.ShapeDtypeStruct((1000, 3000), jnp.float32)
    assert cost.hbm_bytes(grid.walk(elementwise.add, x, x)) == 3 * 1000 * 3000 * 4


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


@pytest.mark.parametrize("bm, bn", [(7, 128), (8, 100), (0, 128), (8, 0)])
def test_illegal_blocks_name_the_nearest_legal(bm, bn):
    with pytest.raises(ValueError, match="Nearest legal: bm=8, bn=128"):
        elementwise.Blocks(bm=bm, bn=bn)
