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


def in_f64(q, k, v, g):
    """Causal attention of one head, and its gradients dq, dk and dv for the cotangent g."""
    q, k, v, g = (np.asarray(x[0], np.float64) for x in (q, k, v, g))
    scale = q.shape[1] ** -0.5
    s = np.where(np.tri(len(q)) > 0, q @ k.T * scale, -np.inf)
    p = np.exp(s - s.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    o, dp = p @ v, g @ v.T
    ds = p * (dp - (g * o).sum(axis=1, keepdims=True)) * scale
    return o, ds @ k, ds.T @ q, p.T @ g


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
