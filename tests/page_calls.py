"""How the printed pages are called: alone, before the judges, and where their speed is compared with the library's."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import kernel_calls
import numpy as np

from course_lib.kernels.block_sparse import Pattern

F32, BF16 = jnp.float32, jnp.bfloat16
CALLS = kernel_calls.CALLS
TRIED_ELSEWHERE = {"collectives", "sparse_core"}  # families whose pages test_collectives and test_sparse_core try
NOT_PRINTED = {
    "matmul_transposed",
    "rms_norm_residual",
    "sdd",
}  # ops of the library that no page has


def alone(family: str) -> dict[str, str]:
    """Return the calls of kernel_calls for the ops that the page of ``family`` defines."""
    return {op: call for op, call in CALLS[family].items() if op not in NOT_PRINTED}


def called(module, op: str, name: str, how: dict) -> Callable:
    """Return the op of ``module`` as a function of arrays; of a row with gradients, as (o, gradients) of (..., do)."""
    fn = functools.partial(getattr(module, op), **how)

    def with_gradients(*args):
        o, pull = jax.vjp(fn, *args[:-1])
        return o, *pull(args[-1])

    return with_gradients if name.endswith(", and gradients") else lambda *args: fn(*args)


def normal(*shape: int, dtype=jnp.float32) -> jax.Array:
    return jnp.asarray(np.random.default_rng(sum(shape)).normal(size=shape), dtype)


def int32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def described(*shape: int, dtype=jnp.bfloat16) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def int8(*shape: int) -> tuple[jax.Array, jax.Array]:
    """Return an int8 weight and the scales of its columns."""
    w = normal(*shape)
    return jnp.asarray(jnp.round(40 * w), jnp.int8), jnp.abs(w[0]) / 40


def places(rows: int, cols: int) -> Pattern:
    """Return a pattern of 11 entries in no order: two are surplus, two places have two each, and a row has none."""
    row, col = int32(3, 0, rows, 3, 1, 0, 2, 1, 3, -1, 2), np.arange(11, dtype=np.int32) * 2 % cols
    return Pattern(jnp.asarray(row), jnp.asarray(col), (rows, cols))


def some_places(count: int, *shape: int) -> Pattern:
    return Pattern(described(count, dtype=jnp.int32), described(count, dtype=jnp.int32), shape)


# {family: {op: a function of nothing that returns its arguments and options}}, of ragged shapes
JUDGED = {
    "block_sparse": {"dsd": lambda: ((normal(11, 16, 40), places(5, 3), normal(120, 300)), {})},
    "linear": {"linear": lambda: ((normal(129, 1300), normal(1300, 70), normal(70)), {"activation": "gelu"})},
    "grouped": {"grouped_matmul": lambda: ((normal(700, 140), normal(3, 140, 300), int32(200, 0, 400)), {})},
    "grouped_swiglu": {
        "grouped_swiglu": lambda: ((normal(600, 140), *normal(2, 3, 140, 300), int32(200, 0, 350)), {}),
    },
    "linear_int8": {"linear_int8": lambda: ((normal(13, 300), *int8(300, 200), normal(200)), {"activation": "silu"})},
    "activations": {op: lambda: ((normal(33, 300),), {}) for op in ("relu", "gelu", "gelu_tanh", "silu")},
    "attention": {
        "flash_attention": lambda: ((normal(2, 300, 72), normal(1, 300, 72), normal(1, 300, 40)), {"causal": True})
    },
    "elementwise": {
        **{op: lambda: ((normal(33, 1300), normal(33, 1300)), {}) for op in ("add", "subtract", "multiply")},
        "cast": lambda: ((normal(2, 3, 5, 300),), {"dtype": jnp.bfloat16}),
    },
    "paged_attention": {
        "paged_attention": lambda: (
            (normal(3, 4, 72), normal(12, 2, 16, 144), int32(20, 0, 47), int32(*[5, 1, 11, 0, 3, 7] * 2).reshape(3, 4)),
            {"window": 30},
        )
    },
    "reduce": {
        "sum_over": lambda: ((normal(300, 150),), {"axis": -1}),
        "max_over": lambda: ((normal(20, 5, 140) - 9,), {"axis": 1}),
    },
    "scale_add": {"scale_add": lambda: ((jnp.float32(-3), normal(5001), normal(5001)), {})},
    "scan": {"cumsum": lambda: ((normal(150, 700),), {"reverse": True})},
    "matmul": {"matmul": lambda: ((normal(129, 1300), normal(1300, 70)), {})},
    "matmul_one_block": {"matmul_one_block": lambda: ((normal(129, 300), normal(300, 70)), {})},
    "matmul_pipeline": {"matmul_pipelined": lambda: ((normal(70, 130), normal(130, 90)), {})},
    "norm": {
        "rms_norm": lambda: ((normal(33, 300), normal(300)), {}),
        "layer_norm": lambda: ((normal(33, 300), normal(300), normal(300)), {}),
    },
    "softmax": {"softmax": lambda: ((normal(20, 300),), {})},
}

# (family, op, what it is called, arguments, options): rows of docs/results.md, and a few more
FAST = [
    ("activations", "gelu", "4096 x 3072", (described(4096, 3072),), {}),
    ("activations", "silu", "2048 x 14336", (described(2048, 14336),), {}),
    *(
        ("attention", "flash_attention", "8 x 2048 x 128" + more, (described(8, 2048, 128),) * n, {"causal": causal})
        for more, n in (("", 3), (", and gradients", 4))
        for causal in (False, True)
    ),
    ("attention", "flash_attention", "32 x 512 x 128", (described(32, 512, 128),) * 3, {}),
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
    ("matmul_one_block", "matmul_one_block", "512 x 1024 x 512", (described(512, 1024), described(1024, 512)), {}),
    *(
        ("matmul_pipeline", "matmul_pipelined", f"{m} x {k} x {n}", (described(m, k), described(k, n)), {})
        for m, k, n in [(256, 1024, 512), (512, 8192, 2048)]
    ),
    *(
        (
            "linear_int8",
            "linear_int8",
            f"{m} x {k} x {n}",
            (described(m, k), described(k, n, dtype=jnp.int8), described(n, dtype=jnp.float32), described(n)),
            {"activation": "silu"},
        )
        for m, k, n in [(8, 4096, 14336), (4096, 1024, 4096)]
    ),
    *(
        (
            "linear",
            "linear",
            f"{m} x {k} x {n}, {activation}",
            (described(m, k), described(k, n), described(n)),
            {"activation": activation},
        )
        for m, k, n in [(4096, 1024, 4096), (2048, 2048, 2048)]
        for activation in ("gelu", "gelu_tanh")
    ),
    *(
        (
            "paged_attention",
            "paged_attention",
            f"{len(lengths)} sequences of {lengths[0]}, {dtype.__name__}",
            (
                described(len(lengths), 32, 128),
                described(1024, 8, 16, 256, dtype=dtype),
                int32(*lengths),
                np.arange(len(lengths) * 128, dtype=np.int32).reshape(-1, 128),
                *([described(2, 8, dtype=F32)] if dtype == jnp.int8 else []),
            ),
            {},
        )
        for lengths, dtype in [
            ((512,) * 8, BF16),
            ((100, 1500, 0, 700, 16, 2048, 1, 512), BF16),
            ((512,) * 8, jnp.int8),
        ]
    ),
    *(
        ("norm", "rms_norm", f"{m} x {n}", (described(m, n, dtype=dtype), described(n, dtype=dtype)), {})
        for m, n, dtype in [(8192, 2048, F32), (2048, 4096, BF16), (8, 4096, BF16), (100_000, 100, F32)]
    ),
    *(
        ("norm", "layer_norm", f"{m} x {n}", (described(m, n, dtype=dtype), *[described(n, dtype=dtype)] * 2), {})
        for m, n, dtype in [(8192, 2048, F32), (512, 768, F32), (3152, 768, BF16)]
    ),
    *(
        ("softmax", "softmax", f"{m} x {n}", (described(m, n, dtype=dtype),), {})
        for m, n, dtype in [(8192, 2048, F32), (256, 50257, BF16), (3152, 197, F32), (65536, 64, F32)]
    ),
]
EXPERTS = {"equal": int32(*[512] * 8), "drawn": int32(512, 519, 473, 499, 540, 491, 533, 529)}  # 4096 rows
FAST += [
    ("grouped", "grouped_matmul", name, (described(4096, 2048), described(8, 2048, 2048), sizes), {})
    for name, sizes in EXPERTS.items()
]
FAST += [
    ("grouped_swiglu", "grouped_swiglu", name, (described(4096, k), *[described(8, k, n)] * 2, sizes), {})
    for name, sizes, k, n in [("equal", EXPERTS["equal"], 1024, 2048), ("drawn", EXPERTS["drawn"], 2048, 1408)]
]
# The simulator needs more memory for the row of docs/results.md than it has by default.
FAST += [
    (
        "block_sparse",
        "dsd",
        f"{z} blocks, {n} columns",
        (described(z, h, w), some_places(z, r, c), described(c * w, n)),
        {},
    )
    for z, h, w, r, c, n in [(20, 128, 128, 8, 8, 1024), (40, 16, 128, 8, 8, 1536)]
]
