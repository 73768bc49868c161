"""How far attention and its gradients are from f64, by length and size of the scores; kernels are interpreted."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sweeps import daily

from course_lib import grid
from course_lib.kernels import attention
from course_lib.kernels.attention import Blocks

SMALL = Blocks(tile=256, bq=128, bk=128)  # several tiles, and what is carried from one to the next
BOUNDS = {"float32": 1e-6, "bfloat16": 1e-2}


def in_f64(q, k, v, g, rounded=""):
    """Causal attention of one head, and its gradients dq, dk and dv for the cotangent g.

    ``rounded`` to bf16: "o", "p" or "ds", where the gradient takes it.
    """
    q, k, v, g = (np.asarray(x[0], np.float64) for x in (q, k, v, g))
    scale = q.shape[1] ** -0.5
    s = np.where(np.tri(len(q)) > 0, q @ k.T * scale, -np.inf)
    p = np.exp(s - s.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    o, dp = p @ v, g @ v.T

    def kept(name, x):
        return np.float64(x.astype(jnp.bfloat16)) if name == rounded else x

    ds = kept("ds", p * (dp - (g * kept("o", o)).sum(axis=1, keepdims=True))) * scale
    return o, ds @ k, ds.T @ q, kept("p", p).T @ g


def with_gradients(q, k, v, g):
    o, pull = jax.vjp(functools.partial(attention.flash_attention, causal=True, blocks=SMALL), q, k, v)
    return o, *pull(g)


@pytest.mark.parametrize("dtype", daily("float32", of=BOUNDS))
@pytest.mark.parametrize("larger", daily(4, of=[1, 4, 16]))
@pytest.mark.parametrize("size", daily(1024, of=[512, 1024, 2048]))
def test_errors_grow_with_the_scores_and_not_with_the_length(size, larger, dtype):
    """Relative to the largest element. A score is known to some 2**-23 of the largest of them."""
    rng = np.random.default_rng(0)
    q, k, v, g = (jnp.asarray(rng.normal(size=(1, size, 128)), dtype) for _ in range(4))
    args = q * larger, k, v, g
    traced = grid.trace(with_gradients, *args)
    got = jax.jit(lambda *a: grid.run(traced, True, *a))(*args)
    bound = BOUNDS[dtype] * (max(3, 1.5 * larger) if dtype == "float32" else 1)
    for name, found, exact in zip(("o", "dq", "dk", "dv"), got, in_f64(*args), strict=True):
        error = np.abs(np.float64(found[0]) - exact).max() / np.abs(exact).max()
        assert error < bound, f"{name}: {error:.2g}"


def test_the_rounded_result_makes_most_of_the_error_of_gradients():
    """In bf16: the figures of docs/kernels.md, of one head of 1024 positions, queries 16 times."""
    rng = np.random.default_rng(0)
    q, k, v, g = (jnp.asarray(rng.normal(size=(1, 1024, 128)), jnp.bfloat16) for _ in range(4))
    exact = in_f64(16 * q, k, v, g)

    def errors(rounded):
        pairs = zip(in_f64(16 * q, k, v, g, rounded), exact, strict=True)
        return [float(f"{np.abs(found - right).max() / np.abs(right).max():.1e}") for found, right in pairs]

    of_o, of_ds, of_p = errors("o"), errors("ds"), errors("p")
    assert of_o == [0, 3.8e-3, 5.2e-3, 0], of_o
    assert of_ds == [0, 2.1e-3, 2.6e-3, 0], of_ds
    assert of_p == [0, 0, 0, 1.1e-3], of_p
