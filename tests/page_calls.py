"""How the printed pages are called: alone, before the judges, and where their speed is compared with the library's."""

import jax
import jax.numpy as jnp
import kernel_calls
import numpy as np

F32, BF16 = jnp.float32, jnp.bfloat16
CALLS = kernel_calls.CALLS
NOT_PRINTED = {"matmul_transposed", "rms_norm_residual"}  # ops that the library has and the family's page leaves out


def alone(family: str) -> dict[str, str]:
    """Return the calls of kernel_calls for the ops that the page of ``family`` defines."""
    return {op: call for op, call in CALLS[family].items() if op not in NOT_PRINTED}


def normal(*shape: int, dtype=jnp.float32) -> jax.Array:
    return jnp.asarray(np.random.default_rng(sum(shape)).normal(size=shape), dtype)


def described(*shape: int, dtype=jnp.bfloat16) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


# {family: {op: a function of nothing that returns its arguments and options}}, of ragged shapes
JUDGED = {
    "matmul": {"matmul": lambda: ((normal(129, 1300), normal(1300, 70)), {})},
    "matmul_one_block": {"matmul_one_block": lambda: ((normal(129, 300), normal(300, 70)), {})},
    "matmul_pipeline": {"matmul_pipelined": lambda: ((normal(70, 130), normal(130, 90)), {})},
    "norm": {
        "rms_norm": lambda: ((normal(33, 300), normal(300)), {}),
        "layer_norm": lambda: ((normal(33, 300), normal(300), normal(300)), {}),
    },
    "softmax": {"softmax": lambda: ((normal(20, 300),), {})},
}

# (family, op, what it is called, arguments, options): rows of docs/results.md
FAST = [
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
