"""How the printed pages are called: alone, before the judges, and where their speed is compared with the library's."""

import jax
import jax.numpy as jnp
import kernel_calls
import numpy as np

CALLS = kernel_calls.CALLS
NOT_PRINTED = {"matmul_transposed"}  # ops that the library has and the family's page leaves out


def alone(family: str) -> dict[str, str]:
    """Return the calls of kernel_calls for the ops that the page of ``family`` defines."""
    return {op: call for op, call in CALLS[family].items() if op not in NOT_PRINTED}


def normal(*shape: int, dtype=jnp.float32) -> jax.Array:
    return jnp.asarray(np.random.default_rng(sum(shape)).normal(size=shape), dtype)


def described(*shape: int, dtype=jnp.bfloat16) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


# {family: {op: a function of nothing that returns its arguments and options}}, of ragged shapes
JUDGED = {
    "activations": {op: lambda: ((normal(33, 300),), {}) for op in ("relu", "gelu", "gelu_tanh", "silu")},
    "elementwise": {
        **{op: lambda: ((normal(33, 1300), normal(33, 1300)), {}) for op in ("add", "subtract", "multiply")},
        "cast": lambda: ((normal(2, 3, 5, 300),), {"dtype": jnp.bfloat16}),
    },
    "reduce": {
        "sum_over": lambda: ((normal(300, 150),), {"axis": -1}),
        "max_over": lambda: ((normal(20, 5, 140) - 9,), {"axis": 1}),
    },
    "scale_add": {"scale_add": lambda: ((jnp.float32(-3), normal(5001), normal(5001)), {})},
    "scan": {"cumsum": lambda: ((normal(150, 700),), {"reverse": True})},
    "matmul": {"matmul": lambda: ((normal(129, 1300), normal(1300, 70)), {})},
}

# (family, op, what it is called, arguments, options): rows of docs/results.md, and a few more
FAST = [
    ("activations", "gelu", "4096 x 3072", (described(4096, 3072),), {}),
    ("activations", "silu", "2048 x 14336", (described(2048, 14336),), {}),
    ("elementwise", "add", "8192 x 2048", (described(8192, 2048), described(8192, 2048)), {}),
    ("elementwise", "cast", "4096 x 3072", (described(4096, 3072),), {"dtype": jnp.float32}),
    *(
        ("reduce", "sum_over", f"8192 x 2048, {axis}", (described(8192, 2048),), {"axis": axis})
        for axis in (0, 1, None)
    ),
    ("scale_add", "scale_add", "4096 x 3072", (described(), described(4096, 3072), described(4096, 3072)), {}),
    ("scan", "cumsum", "4 x 1000000", (described(4, 1_000_000, dtype=jnp.float32),), {}),
    ("scan", "cumsum", "8192 x 2048", (described(8192, 2048),), {}),
    *(
        ("matmul", "matmul", f"{m} x {k} x {n}", (described(m, k), described(k, n)), {})
        for m, k, n in [(1024, 1024, 1024), (512, 8192, 2048), (777, 777, 777), (8, 5000, 777), (3136, 147, 96)]
    ),
]
