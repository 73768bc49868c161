"""The road by Triton, for Ampere and Ada, with no GPU: numbers and masks on ragged shapes, and what ptxas says.

Nothing here runs on a GPU. The judge that reads kernels for masks is ``judges.gpu.gpu_blocks``.
"""

import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gpu_compiler import needs_gpu_compiler
from sweeps import daily

from course_lib import chips, compiler, grid, judges
from course_lib.kernels import activations, elementwise, linear, matmul, norm, softmax
from course_lib.kernels.common import chip as this_chip
from course_lib.kernels.common import portable
from course_lib.kernels.dispatch import launch
from course_lib.kernels.linear import mosaic_gpu as linear_gpu
from course_lib.kernels.matmul import triton as matmul_portable
from course_lib.kernels.norm import op as norm_op
from course_lib.kernels.norm.kernel import _rms_norm_kernel
from course_lib.kernels.softmax import kernel as softmax_kernel

BF16 = jnp.bfloat16


def array(seed, *shape, dtype=BF16):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


def shape(*sizes, dtype=BF16):
    return jax.ShapeDtypeStruct(sizes, dtype)


def on_its_road(op, **settings):
    """``op``'s kernel for Ampere as a plain function, taken from the launch that the op makes."""

    def run(*args):
        jaxpr = jax.make_jaxpr(functools.partial(op, **settings))(*args)
        (eqn,) = (eqn for eqn in grid.equations(jaxpr.jaxpr) if eqn.primitive is launch.PRIMITIVE)
        results = eqn.params["op"].portable(*args)
        return results[0] if isinstance(results, tuple) and len(results) == 1 else results

    return run


def assert_near(found, wanted, ulps):
    """Within so many roundings to bf16, of the largest element."""
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        ours, theirs = (np.asarray(a, np.float32) for a in (ours, theirs))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=ulps * 2.0**-8 * np.abs(theirs).max())


# Numbers, masks, and steps that write what no other writes

X, V, U = array(0, 7, 100), array(1, 100), array(2, 100)  # 7 rows of 100 in a block of 8 by 128
LONG = array(3, 3, 700)  # 2,100 elements: two blocks of 1,024 and a part of a third
M, K, N = 72, 40, 136  # every edge ragged, and two tiles across
A, B, BIAS = array(4, M, K), array(5, K, N), array(6, N)
EVEN = array(7, 64, 128)  # no edge is ragged: nothing is masked
RAGGED = {
    "add": (on_its_road(elementwise.add), elementwise.add_reference, (LONG, LONG)),
    "cast": (on_its_road(elementwise.cast, dtype=jnp.float32), lambda x: x.astype(jnp.float32), (LONG,)),
    "gelu": (on_its_road(activations.gelu), activations.gelu_reference, (LONG,)),
    "rms_norm": (on_its_road(norm.rms_norm), norm.rms_norm_reference, (X, V)),
    "layer_norm": (on_its_road(norm.layer_norm), norm.layer_norm_reference, (X + 30, V, U)),
    "rms_norm_residual": (on_its_road(norm.rms_norm_residual), norm.rms_norm_residual_reference, (X, X[::-1], V)),
    "softmax": (on_its_road(softmax.softmax), softmax.reference, (X - 300,)),
    "gradient of softmax": (
        functools.partial(portable.by_rows, kernel=functools.partial(softmax_kernel._gradient_kernel, axis=1), arrays=2,
                          name="gradient of softmax"), softmax_kernel.gradient_reference, (softmax.reference(X), X)),
    "matmul": (on_its_road(matmul.matmul), matmul.reference, (A, B)),
    "linear": (on_its_road(linear.linear, activation="silu"), functools.partial(linear.reference, activation="silu"),
               (A, B, BIAS)),
}  # fmt: skip


@pytest.fixture
def not_compiled(monkeypatch):
    """The judges without the third, which takes seconds: all kernels together meet it below."""

    def unavailable(*_args, **_more):
        raise compiler.Unavailable("not asked")

    monkeypatch.setattr(compiler, "compile_gpu", unavailable)


@pytest.mark.parametrize("name", daily("gelu", "layer_norm", "softmax", "linear", of=RAGGED))
def test_ragged_edges(name, not_compiled):
    """Right numbers where what lies past an edge is NaN, a mask over every edge, and no block written twice."""
    said = judges.judge_gpu(*RAGGED[name][:2], *RAGGED[name][2], chip="a100")
    assert [(verdict.judge, verdict.passed) for verdict in said] == [
        ("numbers", True), ("races", True), ("compiler", None)
    ]  # fmt: skip


@pytest.mark.parametrize("name", RAGGED)
def test_without_masks_every_one_of_them_is_refused(name, monkeypatch):
    monkeypatch.setattr(portable, "inside", lambda *_args, **_more: None)
    (said,) = judges.judge_gpu(*RAGGED[name][:2], *RAGGED[name][2], chip="a100")
    assert said.passed is False and "without a mask, but its last block reaches past the array" in said.message


def test_a_reduction_past_its_end_is_masked_too(monkeypatch):
    """There is nothing of it to read for the judge: a block of x, or of y, has all of K."""
    x, y = array(0, 16, 40), array(1, 40, 16)
    assert_near(matmul_portable.product(x, y, interpret=True)[0], matmul.reference(x, y), ulps=1)
    monkeypatch.setattr(portable, "inside", lambda *_args, **_more: None)
    with pytest.raises(AssertionError, match="Not equal"):
        assert_near(matmul_portable.product(x, y, interpret=True)[0], matmul.reference(x, y), ulps=1)


def test_where_no_edge_is_ragged_nothing_is_masked():
    weight = array(1, 128)
    for op, args in ((norm.rms_norm, (EVEN, weight)), (softmax.softmax, (EVEN,)), (elementwise.add, (EVEN, EVEN))):
        assert "mask=" not in str(jax.make_jaxpr(on_its_road(op))(*args))
    assert "mask=" not in str(jax.make_jaxpr(matmul_portable.product)(EVEN, EVEN.T))
    assert "mask=" in str(jax.make_jaxpr(matmul_portable.product)(EVEN[1:], EVEN.T))


@pytest.mark.parametrize("turned", [(False, True), (True, False), (True, True)], ids=str)
def test_products_of_what_is_stored_transposed(turned):
    how = dict(zip(("transpose_x", "transpose_y"), turned, strict=True))
    x, y = (a.T if turn else a for a, turn in zip((A, B), turned, strict=True))
    assert_near(matmul_portable.product(x, y, **how, interpret=True)[0], matmul.reference(A, B), ulps=1)


def test_tiles_in_bands():
    """Three bands of two rows of tiles, the last of one: each tile once, and every one."""
    x, y = array(0, 5 * 16, 16), array(1, 16, 3 * 16)
    blocks = matmul_portable.Blocks(bm=16, bn=16, bk=16, band=2)
    assert_near(matmul_portable.product(x, y, blocks=blocks, interpret=True)[0], matmul.reference(x, y), ulps=1)


def test_the_gradient_of_a_linear_layer():
    x, w, b, g = array(0, 24, 40), array(1, 40, 24), array(2, 24), array(3, 24, 24)
    z, wanted = linear.reference(x, w, b), functools.partial(linear.reference, activation="silu")
    how = {"activation": "silu", "multiply": matmul_portable.product, "interpret": True}
    dx, dw, db = linear_gpu.gradients(x, w, g, z, **how)
    assert_near(
        (dx, dw, db.astype(BF16)), jax.vjp(wanted, x, w, b)[1](g), ulps=4
    )  # we round dz, the reference does not


def test_mapped_over_a_weight_too():
    x, weights = array(0, 3, 5, 100), array(1, 3, 100)
    rms_norm = functools.partial(portable.by_rows, kernel=functools.partial(norm_op._ragged, kernel=functools.partial(
        _rms_norm_kernel, eps=1e-6)), name="rms_norm", interpret=True)  # fmt: skip
    assert_near(jax.vmap(rms_norm)(x, weights), jax.vmap(norm.rms_norm_reference)(x, weights), ulps=1)


def test_inside_a_shard_map():
    """Which asks of every kernel along which axes of the mesh its result varies."""
    mesh = jax.make_mesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.P("data")

    def kernels(x, y):
        shares = portable.by_rows(x, kernel=functools.partial(softmax_kernel._whole_kernel, axis=1), name="softmax")
        twice = portable.by_elements(x, x, kernel=elementwise.kernel.KERNELS["add"], dtype=x.dtype, name="add")
        return shares, twice, matmul_portable.product(x, y)[0]

    cut = jax.shard_map(kernels, mesh=mesh, in_specs=(rows, jax.P()), out_specs=rows)
    assert [out.shape for out in jax.eval_shape(cut, EVEN, EVEN.T)] == [EVEN.shape, EVEN.shape, (64, 64)]


@pytest.mark.parametrize("name", activations.ACTIVATIONS)
def test_activations_keep_nan_where_maximum_and_minimum_drop_it(name, monkeypatch):
    """As Triton's do; the interpreter's do not."""
    monkeypatch.setattr(jnp, "maximum", jnp.fmax)
    monkeypatch.setattr(jnp, "minimum", jnp.fmin)
    assert jnp.isnan(activations.apply(name, jnp.float32(jnp.nan)))


def test_what_the_road_does_not_take():
    with pytest.raises(this_chip.NoKernel, match="rows of up to 16,384"):
        portable.by_rows(shape(2, 20000), kernel=None, name="long")
    with pytest.raises(this_chip.NoKernel, match="counts elements in 32 bits"):
        portable.by_elements(shape(1 << 16, 1 << 15), kernel=None, dtype=BF16, name="large")
    with pytest.raises(ValueError, match="powers of two, 16 or more"):
        matmul_portable.Blocks(bm=96)
    with pytest.raises(ValueError, match="powers of two, 16 or more"):
        matmul_portable.Blocks(bk=8)


def test_that_the_road_is_deprecated_is_not_told_to_who_calls_an_op():
    with warnings.catch_warnings(record=True) as said, chips.gpu_target("a100").target(), launch.gpu_kernels():
        warnings.simplefilter("always")
        program = jax.jit(softmax.softmax).trace(shape(8, 128)).lower(lowering_platforms=("cuda",)).as_text()
    assert "xla.gpu.triton" in program and not said


# What ptxas says

SQUARE = shape(4096, 4096)
KERNELS = {
    "matmul": (matmul.matmul, (SQUARE, SQUARE)),
    "linear": (functools.partial(linear.linear, activation="gelu"), (SQUARE, SQUARE, shape(4096))),
    "layer_norm": (norm.layer_norm, (shape(4096, 16384, dtype=jnp.float32), *[shape(16384, dtype=jnp.float32)] * 2)),
    "softmax": (softmax.softmax, (shape(4093, 1000),)),
    "gelu": (activations.gelu, (shape(3, 5001),)),
}


@needs_gpu_compiler
@pytest.mark.parametrize("chip", ["a100", "l4"])
def test_no_register_is_spilled(chip):
    def all_of_them(args):
        return {name: fn(*args[name]) for name, (fn, _) in KERNELS.items()}

    with launch.gpu_kernels(strict=True):
        report = compiler.compile_gpu(all_of_them, {name: args for name, (_, args) in KERNELS.items()}, chip=chip)
    assert report.ok, report
    found = {kernel.name: kernel for kernel in report.kernels if kernel.kind == "kernel"}
    assert set(found) == set(KERNELS)
    for kernel in found.values():
        assert (kernel.spill_stores, kernel.spill_loads) == (0, 0) and 0 < kernel.registers <= 255
        assert kernel.blocks_on(chip) >= 1
    for product in ("matmul", "linear"):  # on the tensor cores, from a ring that is filled ahead
        assert found[product].instructions["mma"] and found[product].instructions["cp.async"]
