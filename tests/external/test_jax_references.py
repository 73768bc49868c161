"""What the JAX wheel computes for the same name, beside our kernels in the TPU simulator: values and gradients."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simulated import tpu_side
from sweeps import daily

from course_lib.kernels import activations, linear, matmul, norm, reduce, scan, softmax

with warnings.catch_warnings():  # deprecated in favour of Tokamax; the reference functions are plain JAX
    warnings.simplefilter("ignore", DeprecationWarning)
    try:
        from jax.experimental.pallas.ops.gpu.layer_norm import layer_norm_reference
        from jax.experimental.pallas.ops.gpu.rms_norm import rms_norm_reference
    except ImportError:
        layer_norm_reference = rms_norm_reference = None

needs_gpu_references = pytest.mark.skipif(
    rms_norm_reference is None, reason="this JAX has no rms_norm_reference any more"
)


def sample(n, *shape):
    return jnp.asarray(np.random.default_rng(n).normal(size=shape), jnp.float32)


X, Y, BIAS = sample(0, 20, 200), sample(1, 200, 150), sample(2, 150)
BATCH = sample(5, 3, 20, 200)
ROW, OFFSET = sample(3, 200), sample(4, 200)


def standardized(x, weight, bias):
    return jax.nn.standardize(x, epsilon=1e-5) * weight + bias


CASES = {
    "softmax": (softmax.softmax, jax.nn.softmax, X),
    "softmax in pieces": (lambda x: softmax.softmax(x, blocks=softmax.Blocks(bm=8, bn=128)), jax.nn.softmax, X),
    "standardize": (lambda *a: norm.layer_norm(*a, 1e-5), standardized, X, ROW, OFFSET),
    "relu": (activations.relu, jax.nn.relu, X),
    "gelu": (activations.gelu, lambda x: jax.nn.gelu(x, approximate=False), X),
    "gelu, by tanh": (activations.gelu_tanh, lambda x: jax.nn.gelu(x, approximate=True), X),
    "silu": (activations.silu, jax.nn.silu, X),
    "sum of rows": (lambda x: reduce.sum_over(x, 1), lambda x: jnp.sum(x, 1), X),
    "maximum of columns": (lambda x: reduce.max_over(x, 0), lambda x: jnp.max(x, 0), X),
    "cumsum": (scan.cumsum, lambda x: jnp.cumsum(x, -1), X[:9, :40]),
    "matmul": (matmul.matmul, jnp.matmul, X, Y),
    "linear": (
        lambda *a: linear.linear(*a, activation="gelu"),
        lambda x, y, b: jax.nn.gelu(jnp.dot(x, y) + b, approximate=False),
        X,
        Y,
        BIAS,
    ),
}
GPU_REFERENCES = {
    "rms_norm": (lambda x, w: norm.rms_norm(x, w, 1e-5), lambda x, w: rms_norm_reference(x, w, 0 * w), BATCH, ROW),
    "layer_norm": (lambda *a: norm.layer_norm(*a, 1e-5), lambda *a: layer_norm_reference(*a), BATCH, ROW, OFFSET),
}


# Every day one of each kind: an op of rows, an elementwise one, a reduction, a scan, a matrix product.
@pytest.mark.parametrize("case", daily("softmax", "silu", "sum of rows", "cumsum", "linear", of=CASES))
def test_value_and_gradient(case):
    examine(*CASES[case])


@needs_gpu_references
@pytest.mark.parametrize("case", daily("rms_norm", of=GPU_REFERENCES))
def test_value_and_gradient_of_jaxs_gpu_norms(case):
    examine(*GPU_REFERENCES[case])


@needs_gpu_references
def test_the_examiner_sees_a_wrong_kernel():
    with pytest.raises(AssertionError, match="Mismatched elements"):
        examine(lambda x, w: norm.rms_norm(x, w, 1e-2), lambda x, w: rms_norm_reference(x, w, 0 * w), BATCH, ROW)


def examine(ours, theirs, *args):
    with tpu_side() as kernels:
        got, pull = jax.vjp(ours, *args)
        forward, g = len(kernels), sample(9, *got.shape)
        gradients = pull(g)
    assert forward, "no kernel of ours was run"
    want, theirs_pull = jax.vjp(theirs, *args)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    for n, (mine, other) in enumerate(zip(gradients, theirs_pull(g), strict=True)):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-4, err_msg=f"gradient of argument {n}")
