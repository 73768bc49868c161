"""Every op of every family and how it is called, in Python: of an array X, a vector V as long as its rows, a weight W
of as many rows, and a bias B. Tests that go through all ops take them from here.
"""

import importlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

FLOATS, NUMBERS = ("float32", "bfloat16"), ("float32", "bfloat16", "int32")


class Op(NamedTuple):
    """A call, the dtypes of X, and its ranks. The first argument may be named alone: it has no comma and blank."""

    call: str
    dtypes: tuple[str, ...]
    ranks: tuple[int, ...] = (1, 2, 3)


# What stands behind a name, after a blank, tells ways to call the op apart.
OPS = {
    **{f"activations.{op}": Op("X", FLOATS, (0, 1, 2, 3)) for op in ("relu", "gelu", "gelu_tanh", "silu")},
    "attention.flash_attention": Op("X, X + 1, X", FLOATS, (2, 3)),
    "attention.flash_attention in a window": Op("X, X + 1, -X, causal=True, window=5, softcap=9.0", FLOATS, (2, 3)),
    "block_sparse.dsd": Op("X[None], from_mask([[False], [True]]), W", FLOATS, (2,)),
    "block_sparse.dsd of many blocks": Op(
        "X.reshape(-1, 4, 8), from_mask(np.ones((X.shape[0] // 4, len(W) // 8))), W", FLOATS, (2,)
    ),
    "block_sparse.sdd": Op("X, W, from_mask([[True]])", FLOATS, (2,)),
    "block_sparse.sdd of many blocks": Op("X, W, from_mask([[0, 1], [1, 1], [0, 0], [1, 0]])", FLOATS, (2,)),
    **{f"elementwise.{op}": Op("X, X + 1", NUMBERS, (0, 1, 2, 3)) for op in ("add", "subtract", "multiply")},
    "elementwise.cast": Op("X, jnp.bfloat16 if X.dtype != jnp.bfloat16 else jnp.float32", NUMBERS, (0, 1, 2, 3)),
    "grouped.grouped_matmul": Op("X, jnp.stack([W, -W]), jnp.array([X.shape[0] // 3, 3], jnp.int32)", FLOATS, (2,)),
    "grouped_swiglu.grouped_swiglu": Op(
        "X, jnp.stack([W, -W]), jnp.stack([-W, W]) / 2, jnp.array([X.shape[0] // 3, 3], jnp.int32)", FLOATS, (2,)
    ),
    "linear.linear": Op("X, W, B, activation='gelu'", FLOATS),
    "linear_int8.linear_int8": Op("X, *quantize(W), B, activation='silu'", FLOATS),
    "matmul.matmul": Op("X, W", FLOATS, (2,)),
    "matmul.matmul in three passes": Op("X, W, precision='high'", FLOATS, (2,)),
    "matmul.matmul_transposed": Op("X, W.T, transpose_y=True", FLOATS, (2,)),
    "matmul_one_block.matmul_one_block": Op("X, W", FLOATS, (2,)),
    "matmul_pipeline.matmul_pipelined": Op("X, W", FLOATS, (2,)),
    "norm.rms_norm": Op("X, V", FLOATS),
    "norm.rms_norm of a traced eps": Op("X, V, jax.lax.stop_gradient(X.sum() * 0 + jnp.float32(1e-3))", FLOATS),
    "norm.layer_norm": Op("X, V, V", FLOATS),
    "norm.layer_norm without a bias": Op("X, V", FLOATS),
    "norm.rms_norm_residual": Op("X, X + 1, V", FLOATS),
    "paged_attention.paged_attention": Op(
        "X[:,None], jnp.stack([jnp.tile(W.T[:16], 2)] * 3)[:, None], jnp.full(X.shape[0], 9, jnp.int32), "
        "jnp.ones((X.shape[0], 2), jnp.int32)",
        FLOATS,
        (2,),
    ),
    "reduce.sum_over": Op("X, -1", NUMBERS),
    "reduce.sum_over down": Op("X, 0", NUMBERS, (2, 3)),
    "reduce.sum_over between": Op("X, 1", NUMBERS, (3,)),
    "reduce.sum_over around": Op("X, (0, 2)", NUMBERS, (3,)),
    "reduce.max_over": Op("X, -1", NUMBERS),
    "reduce.max_over all": Op("X", NUMBERS),
    "scale_add.scale_add": Op("X.dtype.type(3), X, X + 1", NUMBERS, (0, 1, 2, 3)),
    "scan.cumsum": Op("X", NUMBERS),
    "scan.cumsum down": Op("X, 0, reverse=True", NUMBERS, (2, 3)),
    "scan.cumsum between": Op("X, 1", NUMBERS, (3,)),
    "softmax.softmax": Op("X", FLOATS),
    "softmax.softmax down": Op("X, 0", FLOATS, (2, 3)),
}
NAMES = [name for name in OPS if " " not in name]
CALLS = {name.split(".")[0]: {} for name in NAMES}  # by family and op
for _name in NAMES:
    CALLS[_name.split(".")[0]][_name.split(".")[1]] = OPS[_name].call


def module(family: str):
    return importlib.import_module(f"course_lib.kernels.{family}")


def names(family: str, x, w) -> dict:
    """Return what a call may name: the arrays, and what the family's module has."""
    rows = {"X": x, "V": w[:, 0], "W": w, "B": w[0] if len(w) else w.sum(0)}
    return {**vars(module(family)), "jax": jax, "jnp": jnp, "np": np, **rows}


def arguments(family: str, op: str, x, w) -> tuple[tuple, dict]:
    """Return the arguments of the first way to call an op."""
    return eval(f"(lambda *args, **named: (args, named))({CALLS[family][op]})", names(family, x, w))
