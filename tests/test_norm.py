"""The norms: odd shapes by all four judges, forwards and backwards; mixed dtypes; their blocks and complaints."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accepted import accepted
from conftest import needs_libtpu
from jax.test_util import check_grads
from sweeps import daily

from course_lib import chips, compiler, cost, grid, judges
from course_lib.kernels import norm
from course_lib.kernels.norm.op import gradients

EPS = 1e-6
OPS = {
    "rms_norm": (norm.rms_norm, norm.rms_norm_reference),
    "layer_norm": (norm.layer_norm, norm.layer_norm_reference),
    "rms_norm_residual": (norm.rms_norm_residual, norm.rms_norm_residual_reference),
}
F32, BF16 = jnp.float32, jnp.bfloat16


def sample(n, shape, dtype):
    return jnp.asarray(np.random.default_rng(n).normal(size=shape) + 0.3, dtype)


def operands(op, shape, dtype, weight_dtype=F32):
    x, residual, weight = sample(0, shape, dtype), sample(1, shape, dtype), sample(2, shape[-1:], weight_dtype)
    bias = sample(3, shape[-1:], weight_dtype)
    return {"rms_norm": (x, weight), "layer_norm": (x, weight, bias), "rms_norm_residual": (x, residual, weight)}[op]


def structs(op, shape, dtype):
    args = jax.eval_shape(lambda: operands(op, shape, dtype))
    return tuple(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in args)


def results(op, x):
    """Stand-ins for the gradients of what ``op`` returns."""
    return (x, x * 0.5) if op == "rms_norm_residual" else x


def gradient(fn):
    """(operands, gradients of the results) -> gradients of the operands."""
    return lambda args, g: jax.vjp(fn, *args)[1](g)


KINDS = {  # shape, dtype of x, dtype of the weight, blocks
    "ragged f32": ((33, 300), F32, BF16, norm.Blocks(bm=16)),
    "bf16": ((2, 5, 200), BF16, F32, None),
    "one": ((1,), F32, F32, None),
    "by columns": ((300, 60), F32, BF16, None),  # which is how XLA stores it
}


@pytest.mark.parametrize(
    "op, kind",
    daily(
        ("rms_norm_residual", "bf16"),
        ("layer_norm", "by columns"),
        of=itertools.product(OPS, KINDS),
    ),
)
def test_by_four_judges(op, kind):
    (fn, reference), (shape, dtype, weight_dtype, blocks) = OPS[op], KINDS[kind]
    args = operands(op, shape, dtype, weight_dtype)
    accepted(lambda *a: fn(*a, EPS, blocks=blocks), lambda *a: reference(*a, EPS), *args)


@pytest.mark.parametrize(
    "op, kind",
    daily(
        ("layer_norm", "ragged f32"),
        of=itertools.product(OPS, ["ragged f32", "bf16", "by columns"]),
    ),
)
def test_gradients_by_four_judges(op, kind):
    """Against JAX's own gradients of the references."""
    (fn, reference), (shape, dtype, weight_dtype, blocks) = OPS[op], KINDS[kind]
    args = operands(op, shape, dtype, weight_dtype)
    ours, theirs = (gradient(f) for f in (lambda *a: fn(*a, EPS, blocks=blocks), lambda *a: reference(*a, EPS)))
    accepted(ours, theirs, args, results(op, sample(4, shape, dtype)))


@pytest.mark.sweep  # every day with one
def test_without_a_bias_by_four_judges_forwards_and_backwards():
    def both(fn):
        return lambda x, weight, g: (fn(x, weight), *gradient(fn)((x, weight), g))

    x, weight, _ = operands("layer_norm", (9, 130), F32)
    accepted(both(norm.layer_norm), both(norm.layer_norm_reference), x, weight, sample(4, x.shape, F32))


@pytest.mark.parametrize("op", daily("rms_norm", of=OPS))
def test_a_traced_eps_by_four_judges_forwards_and_backwards(op):
    """From SMEM. It is large, so that another would be seen."""
    (fn, reference), args = OPS[op], operands(op, (33, 130), F32)

    def both(fn):
        return lambda eps, g, *args: (fn(*args, eps), *gradient(lambda *a: fn(*a, eps))(args, g))

    accepted(both(fn), both(reference), jnp.float32(0.5), results(op, sample(4, (33, 130), F32)), *args)


def squares(*args):
    return sum(jnp.sum(y**2) for y in jax.tree.leaves(args))


TRACED = {  # what is computed by f(*args, eps), with values of eps
    "under jit, mapped": lambda f, args, eps, g: jax.vmap(jax.jit(lambda eps: f(*args, eps)))(eps),
    "its gradient, mapped": lambda f, args, eps, g: jax.vmap(lambda eps: gradient(lambda *a: f(*a, eps))(args, g))(eps),
    "twice differentiated": lambda f, args, eps, g: jax.hessian(lambda x: squares(f(x, *args[1:], eps[1])))(args[0]),
}


@pytest.mark.parametrize(
    "op, change", daily(("layer_norm", "its gradient, mapped"), of=itertools.product(OPS, TRACED)), ids=str
)
def test_a_traced_eps_on_a_cpu(op, change):
    args, eps = operands(op, (2, 10), F32), jnp.array([1e-6, 0.5])
    got, want = (TRACED[change](fn, args, eps, results(op, args[0])) for fn in OPS[op])
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-4), got, want)


@needs_libtpu
def test_a_traced_eps_compiles_and_costs_next_to_nothing():
    x, weight = structs("rms_norm", (1024, 1024), F32)
    fixed = compiler.compile_tpu(norm.rms_norm, x, weight)
    traced = compiler.compile_tpu(norm.rms_norm, x, weight, jax.ShapeDtypeStruct((), F32))
    assert 0 < traced.cycles - fixed.cycles < 2000


@pytest.mark.parametrize("rows, steps", daily((61, (2, 2)), of=[(61, (2, 2)), (40, (1, 3)), (17, (2, 1))]))
def test_two_cores_share_the_rows_of_a_gradient(rows, steps):
    """As on a v4 or v5p: each core collects sums of its own; where blocks cannot be dealt out, one core does it all."""
    x, weight, bias = operands("layer_norm", (rows, 130), F32)

    def reference(x, g, weight):
        return gradient(lambda *a: norm.layer_norm_reference(*a, EPS))((x, weight, bias), g)

    def fn(x, g, weight):
        return gradients("layer_norm", (x, g), (weight, bias), EPS, blocks=norm.Blocks(bm=16), cores=2)

    walk = grid.walk(fn, x, x, weight)
    assert walk.calls[0].grid == steps
    for ours, theirs in zip(grid.run(walk.jaxpr, True, x, x, weight), reference(x, x, weight), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)
    verdict = judges.races_judge(fn, reference, x, x, weight)
    assert verdict.passed, str(verdict)


def test_rms_norm_of_an_array_of_zeros_is_zero():
    x, weight = jnp.zeros((8, 130)), jnp.ones(130)
    accepted(norm.rms_norm, lambda x, w: norm.rms_norm_reference(x, w, EPS), x, weight)


def test_layer_norm_keeps_its_digits_far_from_zero():
    """The mean is subtracted before squares are taken: mean(x**2) - mean(x)**2 would lose every digit here."""
    x = sample(0, (8, 300), F32) * 1e-3 + 1000
    x, weight, bias = x.astype(F32), jnp.ones(300), jnp.zeros(300)
    got = grid.run(grid.walk(norm.layer_norm, x, weight, bias).jaxpr, True, x, weight, bias)[0]
    wide = np.asarray(x, np.float64)
    want = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + EPS)
    np.testing.assert_allclose(got, want, atol=0.06 * np.abs(want).max())


@pytest.mark.parametrize("op", OPS)
def test_on_a_cpu_it_is_plain_jax_under_jit_grad_and_vmap(op):
    fn, reference = OPS[op]
    args = operands(op, (3, 4, 30), F32)
    axes = tuple(0 if a.ndim > 1 else None for a in args)
    got, want = (jax.jit(jax.vmap(lambda *a, f=f: f(*a, EPS), in_axes=axes))(*args) for f in (fn, reference))
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5), got, want)
    g = results(op, sample(4, (3, 4, 30), F32))
    got, want = (jax.jit(gradient(lambda *a, f=f: f(*a, EPS)))(args, g) for f in (fn, reference))
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5), got, want)
    check_grads(lambda *a: fn(*a, EPS), operands(op, (3, 5), F32), order=1, modes=["rev"], eps=0.01, rtol=0.02)


@pytest.mark.parametrize("op", daily("layer_norm", of=OPS))
def test_vmap_of_the_kernels(op):
    """Without the simulator: in JAX 0.11 and 0.12 it does not take a vmapped kernel with dimension_semantics."""
    fn, reference = OPS[op]
    args, g = operands(op, (3, 18, 130), F32), results(op, sample(4, (3, 18, 130), F32))
    axes = (tuple(0 if a.ndim > 1 else None for a in args), 0)
    blocks = norm.Blocks(bm=8)
    ours = jax.vmap(gradient(lambda *a: fn(*a, EPS, blocks=blocks)), in_axes=axes)
    theirs = jax.vmap(gradient(lambda *a: reference(*a, EPS)), in_axes=axes)
    verdict = judges.numbers_judge(ours, theirs, args, g)
    assert verdict.passed, str(verdict)


def test_bytes_are_those_of_the_docstrings():
    shape, array, vector = (1000, 700), 1000 * 700 * 2, 700 * 4
    for op, arrays, vectors in (("rms_norm", 2, 1), ("layer_norm", 2, 2), ("rms_norm_residual", 4, 1)):
        walk = grid.walk(OPS[op][0], *structs(op, shape, BF16))
        assert cost.payload_bytes(walk) == arrays * array + vectors * vector, op
    x = jax.ShapeDtypeStruct(shape, BF16)
    backward = {"rms_norm": (3, 2, x), "layer_norm": (3, 3, x), "rms_norm_residual": (4, 2, (x, x))}
    for op, (arrays, vectors, g) in backward.items():
        walk = grid.walk(gradient(OPS[op][0]), structs(op, shape, BF16), g)
        rows = [row for row in cost.traffic(walk) if row.call.endswith("gradient_kernel")]
        assert sum(row.payload for row in rows) == arrays * array + vectors * vector, op


@needs_libtpu
@pytest.mark.parametrize("op", daily("layer_norm", of=["rms_norm", "layer_norm"]))
def test_takes_the_time_its_bytes_take(op):
    """Predicted: the arithmetic hides behind the traffic, forwards and backwards."""
    v5e, args = chips.chip("v5e"), structs(op, (8192, 2048), F32)
    array = 8192 * 2048 * 4
    report = compiler.compile_tpu(OPS[op][0], *args)
    assert report.seconds <= 1.02 * 2 * array / v5e.hbm_bandwidth
    report = compiler.compile_tpu(gradient(OPS[op][0]), args, args[0])
    assert report.seconds <= 1.02 * 3 * array / v5e.hbm_bandwidth


@needs_libtpu
@pytest.mark.parametrize("shape", [(512, 768), (20_000, 100)], ids=str)
def test_small_arrays_and_narrow_rows_take_that_time_too(shape):
    """Predicted: no vector is copied to become a row, and no row of 100 fills 128 lanes. HBM pads 100 to 104."""
    report = compiler.compile_tpu(norm.layer_norm, *structs("layer_norm", shape, F32))
    assert [op.kind for op in report.ops] == ["kernel"], report
    assert report.seconds <= 1.15 * 2 * shape[0] * shape[1] * 4 / chips.chip("v5e").hbm_bandwidth


@needs_libtpu
@pytest.mark.parametrize("chip", daily("v4", of=["v4", "v5e", "v5p"]))
def test_default_blocks_compile(chip):
    """Long rows and short ones; the gradient of the residual norm has the most to hold."""
    for shape, dtype in (((24, 20_000), F32), ((900, 130), BF16)):
        x = jax.ShapeDtypeStruct(shape, dtype)
        for op, g in (("rms_norm_residual", (x, x)), ("layer_norm", x)):

            def step(args, g, fn=OPS[op][0]):
                return fn(*args), gradient(fn)(args, g)

            report = compiler.compile_tpu(step, structs(op, shape, dtype), g, chip=chip, simulate=False)
            assert report.ok, f"{op} {shape}: {report.error}"


@pytest.mark.parametrize(
    "fn, says",
    [
        (lambda: norm.rms_norm(jnp.zeros(()), jnp.zeros(1)), r"x has shape \(\)"),
        (lambda: norm.rms_norm(jnp.zeros(3, jnp.int32), jnp.zeros(3)), "x is int32"),
        (lambda: norm.rms_norm(jnp.zeros((2, 3)), jnp.zeros(2)), r"weight is float32 of shape \(2,\).*of shape \(3,\)"),
        (lambda: norm.layer_norm(jnp.zeros(3), jnp.zeros(3), jnp.zeros(3, jnp.int32)), "bias is int32"),
        (lambda: norm.rms_norm_residual(jnp.zeros(3), jnp.zeros(3, BF16), jnp.zeros(3)), "residual bfloat16"),
        (lambda: norm.Blocks(bm=12), "Nearest legal: bm=16"),
        (lambda: norm.rms_norm(jnp.zeros((4096, 9999)), jnp.zeros(9999), blocks=norm.Blocks(bm=4096)), "the chip has"),
        (
            lambda: norm.rms_norm(jnp.zeros((1, 10**6)), jnp.zeros(10**6)),
            "The longest row that fits has 611584 columns",
        ),
    ],
)
def test_bad_input_gets_one_clear_error(fn, says):
    with pytest.raises(ValueError, match=says):
        fn()


def test_blocks_are_chosen_for_the_chip():
    with chips.chip("v5e").target():
        assert norm.blocks_for(*structs("rms_norm", (8192, 2048), F32)) == norm.Blocks(bm=256)
        assert norm.blocks_for(*structs("layer_norm", (50, 100_000), F32), eps=EPS) == norm.Blocks(bm=8)
    with chips.chip("v4").target():
        args = structs("rms_norm_residual", (8192, 2048), F32)
        assert norm.rms_norm_residual_blocks_for(*args) == norm.Blocks(bm=176)
