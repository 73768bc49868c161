"""Infinities, NaN, zeros with a sign and numbers below the normal ones: as jax.nn and jnp, and the kernels no other."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sweeps import daily

from course_lib import grid
from course_lib.kernels import activations, elementwise, linear_int8, norm, reduce, scan, softmax

INF, NAN = float("inf"), float("nan")
EDGES = [NAN, INF, -INF, -0.0, 0.0, 1e-40, -1e-40, 2e-38, -2e-38, 3e38, -3e38, 20.0, -20.0, 1.0, -1.0]
ROWS = {
    "numbers": {},
    "nan": {7: NAN},
    "inf": {7: INF},
    "two infinities": {7: INF, 150: INF},
    "both": {7: INF, 150: -INF},
    "-inf": {7: -INF},
    "-inf alone": dict.fromkeys(range(200), -INF),
    "inf alone": dict.fromkeys(range(200), INF),
    "zeros": dict.fromkeys(range(200), 0.0),
    "zeros below": dict.fromkeys(range(200), -0.0),
    "subnormal": dict.fromkeys(range(200), 1e-40),
    "huge": {7: 3e38},
}
PIECES = {"blocks": softmax.Blocks(bm=8, bn=128)}
V = jnp.linspace(-1, 1, 200)


def rows(dtype):
    x = np.tile(np.cos(np.arange(200.0)), (len(ROWS), 1))
    for row, changes in zip(x, ROWS.values(), strict=True):
        row[list(changes)] = list(changes.values())
    return jnp.asarray(x, dtype)


def by_kernel(fn, *args):
    """The kernel, interpreted."""
    (out,) = jax.jit(lambda *a: grid.run(grid.trace(fn, *args), True, *a))(*args)
    return out


def assert_alike(got, want, near=2e-6, beside=1e-37):
    """NaN where there is NaN, the same infinities, and zeros with the same sign."""
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    got, want = np.float32(got), np.float32(want)
    np.testing.assert_allclose(got, want, rtol=near, atol=beside)
    zeros = (got == 0) & (want == 0)
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))


ELEMENTWISE = {
    "add": (lambda x: elementwise.add(x, x[::-1]), lambda x: x + x[::-1]),
    "subtract": (lambda x: elementwise.subtract(x, x[::-1]), lambda x: x - x[::-1]),
    "multiply": (lambda x: elementwise.multiply(x, x[::-1]), lambda x: x * x[::-1]),
    "cast": (lambda x: elementwise.cast(x, jnp.bfloat16), lambda x: x.astype(jnp.bfloat16)),
    "relu": (activations.relu, jax.nn.relu),
    "gelu": (activations.gelu, lambda x: jax.nn.gelu(x, approximate=False)),
    "gelu_tanh": (activations.gelu_tanh, jax.nn.gelu),
    "silu": (activations.silu, jax.nn.silu),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_of_each_element(name):
    ours, theirs = ELEMENTWISE[name]
    x = jnp.float32(EDGES)
    for got in (ours(x), by_kernel(ours, x)):
        assert_alike(got, jax.jit(theirs)(x))


def wide(fn):
    """JAX's own, computed in f32 and rounded once, as ours is."""
    return lambda x: fn(x.astype(jnp.float32)).astype(x.dtype)


def rms_norm(x):
    return x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * V


def layer_norm(x):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-6) * V + V


def _long(x):
    return jnp.tile(x[:4], (1, 85))


ALONG_ROWS = {
    "softmax": (softmax.softmax, wide(jax.nn.softmax)),
    "softmax in pieces": (lambda x: softmax.softmax(x, **PIECES), wide(jax.nn.softmax)),
    "softmax of columns": (lambda x: softmax.softmax(x.T, 0).T, wide(jax.nn.softmax)),
    "rms_norm": (lambda x: norm.rms_norm(x, V), wide(rms_norm)),
    "layer_norm": (lambda x: norm.layer_norm(x, V, V), wide(layer_norm)),
    "sum_over": (lambda x: reduce.sum_over(x, -1), wide(lambda x: x.sum(-1))),
    "max_over": (lambda x: reduce.max_over(x, -1), wide(lambda x: x.max(-1))),
    "max_over of columns": (lambda x: reduce.max_over(x.T, 0), wide(lambda x: x.max(-1))),
    "cumsum": (scan.cumsum, wide(lambda x: jnp.cumsum(x, -1))),
    "cumsum of vectors": (jax.vmap(scan.cumsum), wide(lambda x: jnp.cumsum(x, -1))),
    "cumsum of long rows": (lambda x: scan.cumsum(_long(x)), wide(lambda x: jnp.cumsum(_long(x), -1))),
    "cumsum of planes": (lambda x: scan.cumsum(x.T[:, None], 0), wide(lambda x: jnp.cumsum(x.T[:, None], 0))),
    "cumsum in reverse": (lambda x: scan.cumsum(x, reverse=True), wide(lambda x: jnp.cumsum(x[:, ::-1], -1)[:, ::-1])),
}


@pytest.mark.parametrize(
    "name, dtype",
    daily(
        *[(name, "float32") for name in ("softmax in pieces", "softmax of columns", "layer_norm", "sum_over")],
        *[(name, "float32") for name in ("max_over of columns", "cumsum of long rows", "cumsum in reverse")],
        of=[(name, dtype) for name in ALONG_ROWS for dtype in ("float32", "bfloat16")],
    ),
)
def test_of_rows(name, dtype):
    ours, theirs = ALONG_ROWS[name]
    x = rows(dtype)
    # What XLA makes of the interpreted kernel on a CPU loses NaN, as below.
    simulated = x[2:] if name == "max_over of columns" else x
    for run, of in ((ours, x), (functools.partial(by_kernel, ours), simulated)):
        assert_alike(run(of), jax.jit(theirs)(of), near=(1e-5, 1e-2)[dtype == "bfloat16"], beside=1e-4)


def test_a_maximum_keeps_nan_where_jnp_max_on_a_cpu_loses_it():
    for axis in (0, None, 1):
        x = jnp.zeros((200, 128)).at[3, 5].set(NAN)
        got = reduce.max_over(x, axis)
        assert jnp.isnan(got).sum() == 1 and (axis is None or jnp.isnan(got[(5, 3)[axis]]))


def test_no_int8_number_stands_for_nan_or_an_infinity():
    w = jnp.ones((4, 3))
    for value in (NAN, INF, -INF):
        with pytest.raises(ValueError, match=r"quantize: column 1 of w has a NaN or an infinity. Try jnp.nan_to_num"):
            linear_int8.quantize(w.at[2, 1].set(value))
        q, scale = jax.jit(linear_int8.quantize)(w.at[2, 1].set(value))
        y = linear_int8.linear_int8(jnp.ones((2, 4)), q, scale)
        np.testing.assert_array_equal(jnp.isnan(y), [[False, True, False]] * 2)
