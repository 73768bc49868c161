"""What ``make bench`` compares: one row for each kernel and shape, with every implementation of it that we know.

A row's implementations are loaded on demand: a library that is not installed, or a family that is not written yet,
gives a reason in the table instead of an error. All implementations of a row take the same arguments and return the
same arrays. A new family adds its rows to ``rows``.
"""

import dataclasses
import functools
import importlib
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

OURS, XLA, PALLAS_OPS, TOKAMAX = "ours", "XLA", "Pallas ops", "Tokamax"
GUIDE, PUBLISHED = "the guide's, with 32 MiB of VMEM", "the guide's, as published"

DTYPES = {"bf16": jnp.bfloat16, "f32": jnp.float32}

Load = Callable[[], Callable]  # returns the function; raises ImportError or AttributeError if there is none


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One kernel at one shape. ``args`` are ShapeDtypeStructs, or arrays if their values determine the work."""

    kernel: str
    shape: str
    args: tuple[jax.ShapeDtypeStruct | np.ndarray, ...]
    implementations: dict[str, Load]
    model: str = ""  # where in a model the shape occurs, for rows taken from models
    passes: int = 1  # of the MXU, for f32 multiplied at full f32 precision
    share: float = 1.0  # share of XLA's work that is needed: half, if half of the scores do not count
    reads_all: bool = False  # whether every element of every argument counts, which is not visible if tables select
    choices: dict[str, tuple] = dataclasses.field(default_factory=dict)  # blocks to search, where it chooses none

    @property
    def dtype(self) -> str:
        return {"bfloat16": "bf16", "float32": "f32"}[self.args[0].dtype.name]


def rows() -> list[Row]:
    """Return every row, in table order."""
    import attention_rows
    import drawn_rows
    import grouped_rows
    import lookup_rows

    return [
        *(matmul(*sizes) for sizes in MATMULS),
        *(linear(4096, 1024, 4096, activation) for activation in GELUS),
        *(linear_and_gradients(2048, 2048, 2048, activation) for activation in GELUS),
        row_wise("softmax", "softmax", lambda x: jax.nn.softmax(x, axis=-1)),
        row_wise("RMSNorm", "norm.rms_norm", rms_norm, _tokamax_norm(centred=False), vectors=1),
        row_wise("LayerNorm", "norm.layer_norm", layer_norm, _tokamax_norm(centred=True), vectors=2),
        *attention_rows.rows(),
        *grouped_rows.rows(),
        *lookup_rows.rows(),
        guide(8192),
        *(product_of_a_model(*row) for row in PRODUCTS),
        *(row_wise_of_a_model(*row) for row in ROW_WISE),
        *drawn_rows.rows(),
    ]


MATMULS = (
    *((n, n, n) for n in (1024, 2048, 4096, 8192)),
    (512, 8192, 2048),
    (8192, 512, 8192),
)


# Where it occurs, sizes, dtype. f32 is multiplied in six passes.
PRODUCTS = (
    ("decode", (1, 4096, 4096), "bf16"),
    ("decode", (8, 4096, 14336), "bf16"),
    ("decode", (16, 8192, 1024), "bf16"),
    ("prefill", (2048, 4096, 4096), "bf16"),
    ("prefill", (512, 768, 2304), "bf16"),
    ("prefill", (4096, 768, 3072), "bf16"),
    ("vocabulary", (100, 768, 50257), "bf16"),
    ("vocabulary", (256, 2048, 32000), "bf16"),
    ("vision", (3152, 768, 3072), "bf16"),
    ("vision", (3136, 147, 96), "bf16"),
    ("odd", (777, 777, 777), "bf16"),
    ("odd", (3000, 3000, 3000), "bf16"),
    ("odd", (1111, 2222, 3333), "bf16"),
    ("odd", (640, 1920, 1080), "bf16"),
    ("odd", (513, 1025, 2049), "bf16"),
    ("odd", (8, 5000, 777), "bf16"),
    ("odd", (777, 777, 777), "f32"),
    ("odd", (1000, 1000, 1000), "f32"),
)
ROW_WISE = (
    ("vocabulary", "softmax", (256, 50257), "bf16"),
    ("vision", "softmax", (3152, 197), "f32"),
    ("attention", "softmax", (65536, 64), "f32"),
    ("prefill", "RMSNorm", (2048, 4096), "bf16"),
    ("decode", "RMSNorm", (8, 4096), "bf16"),
    ("odd", "RMSNorm", (100_000, 100), "f32"),
    ("small", "LayerNorm", (512, 768), "f32"),
    ("vision", "LayerNorm", (3152, 768), "bf16"),
    ("prefill", "gelu", (4096, 3072), "bf16"),
    ("prefill", "silu", (2048, 14336), "bf16"),
    ("long", "cumsum", (4, 1_000_000), "f32"),
    ("long", "cumsum", (8192, 2048), "bf16"),
)

GELUS = {
    "gelu": functools.partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": functools.partial(jax.nn.gelu, approximate=True),
}


def matmul(m: int, k: int, n: int) -> Row:
    """Return the row of ``x @ y``, (m, k) by (k, n), bf16."""
    return Row(
        kernel="matmul",
        shape=f"{m} x {k} x {n}",
        args=(_array(m, k), _array(k, n)),
        implementations={
            OURS: _ours("matmul", "matmul"),
            XLA: lambda: jnp.matmul,
            PALLAS_OPS: _pallas_ops_matmul,
            TOKAMAX: _tokamax_matmul,
        },
        choices={PALLAS_OPS: ((512, 512, 512), (1024, 512, 1024), (512, 512, 2048), (1024, 512, 2048))},
    )


def linear(m: int, k: int, n: int, activation: str) -> Row:
    """Return the row of ``act(x @ w + b)``, bf16."""
    return Row(
        kernel=f"linear, {activation}",
        shape=f"{m} x {k} x {n}",
        args=(_array(m, k), _array(k, n), _array(n)),
        implementations={OURS: lambda: our_linear(activation), XLA: lambda: plain_linear(activation)},
    )


def linear_and_gradients(m: int, k: int, n: int, activation: str) -> Row:
    """Return the row of the same with its gradients: (x, w, b, dy) to (y, dx, dw, db)."""
    return Row(
        kernel=f"linear, {activation}, and gradients",
        shape=f"{m} x {k} x {n}",
        args=(_array(m, k), _array(k, n), _array(n), _array(m, n)),
        implementations={
            OURS: lambda: with_gradients(our_linear(activation)),
            XLA: lambda: with_gradients(plain_linear(activation)),
        },
    )


def row_wise(kernel: str, op: str, plain: Callable, tokamax: Load | None = None, vectors: int = 0) -> Row:
    """Return the row of a kernel that reads each row of an f32 array once, and ``vectors`` weights of one row."""
    family, _, name = op.partition(".")
    shape = (8192, 2048)
    others = {TOKAMAX: tokamax} if tokamax else {}
    return Row(
        kernel=kernel,
        shape=" x ".join(map(str, shape)),
        args=(_array(*shape, dtype=jnp.float32), *[_array(shape[1], dtype=jnp.float32)] * vectors),
        implementations={OURS: _ours(family, name or family), XLA: lambda: plain, **others},
    )


def product_of_a_model(model: str, sizes: tuple[int, int, int], dtype: str) -> Row:
    """Return the row of ``x @ y``, with f32 at full precision."""
    m, k, n = sizes
    return Row(
        kernel="matmul",
        model=model,
        passes=6 if dtype == "f32" else 1,
        shape=f"{m} x {k} x {n}",
        args=(_array(m, k, dtype=DTYPES[dtype]), _array(k, n, dtype=DTYPES[dtype])),
        implementations={
            OURS: _ours("matmul", "matmul"),
            XLA: lambda: functools.partial(jnp.matmul, precision="highest"),
        },
    )


def row_wise_of_a_model(model: str, kernel: str, shape: tuple[int, int], dtype: str) -> Row:
    """Return the row of an op that reads an array once and writes one like it, compared with plain JAX."""
    op, plain, vectors = {
        "softmax": ("softmax.softmax", lambda x: jax.nn.softmax(x, axis=-1), 0),
        "RMSNorm": ("norm.rms_norm", rms_norm, 1),
        "LayerNorm": ("norm.layer_norm", layer_norm, 2),
        "gelu": ("activations.gelu", GELUS["gelu"], 0),
        "silu": ("activations.silu", jax.nn.silu, 0),
        "cumsum": ("scan.cumsum", lambda x: jnp.cumsum(x, axis=-1), 0),
    }[kernel]
    return Row(
        kernel=kernel,
        model=model,
        shape=" x ".join(map(str, shape)),
        args=tuple(_array(*s, dtype=DTYPES[dtype]) for s in (shape, *[shape[1:]] * vectors)),
        implementations={OURS: _ours(*op.split(".")), XLA: lambda: plain},
    )


def guide(n: int) -> Row:
    """Return the row of ``relu(a @ b)``, f32: a public guide's kernel and ours, both in one bf16 pass."""

    return Row(
        kernel="relu(a @ b), as in a guide",
        shape=f"{n} x {n} x {n}",
        args=(_array(n, n, dtype=jnp.float32), _array(n, n, dtype=jnp.float32)),
        implementations={
            OURS: lambda: functools.partial(our_linear("relu"), precision="default"),
            XLA: lambda: lambda a, b: jax.nn.relu(a @ b),
            GUIDE: lambda: functools.partial(guide_kernel, vmem_limit_bytes=32 << 20),
            PUBLISHED: lambda: guide_kernel,
        },
    )


def guide_kernel(a: jax.Array, b: jax.Array, vmem_limit_bytes: int | None = None) -> jax.Array:
    """Compute ``relu(a @ b)`` in tiles of 128 x 128, each from 128 whole rows of a and 128 whole columns of b.

    This is the tiling of keras.io's guide "How to write a custom TPU or GPU kernel in Keras" (December 2025). For n =
    8192 in f32 its blocks exceed the 16 MiB that a kernel may use on a v5e; ``vmem_limit_bytes`` raises that limit.
    """
    (m, k), n, tile = a.shape, b.shape[1], 128

    def kernel(a_ref, b_ref, o_ref):
        product = jnp.dot(a_ref[...], b_ref[...], preferred_element_type=jnp.float32)
        o_ref[...] = jnp.maximum(product, 0).astype(o_ref.dtype)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), a.dtype),
        grid=(m // tile, n // tile),
        in_specs=[pl.BlockSpec((tile, k), lambda i, j: (i, 0)), pl.BlockSpec((k, tile), lambda i, j: (0, j))],
        out_specs=pl.BlockSpec((tile, tile), lambda i, j: (i, j)),
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=vmem_limit_bytes),
    )(a, b)


def our_linear(activation: str) -> Callable:
    return functools.partial(_ours("linear", "linear")(), activation=activation)


def plain_linear(activation: str) -> Callable:
    """Return the same in plain JAX, with accumulation and activation in f32."""

    def linear(x, w, b):
        z = jnp.dot(x, w, preferred_element_type=jnp.float32) + b.astype(jnp.float32)
        return GELUS[activation](z).astype(x.dtype)

    return linear


def rms_norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * weight


def layer_norm(x: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-6) * weight + bias


def with_gradients(fn: Callable) -> Callable:
    """Return a function of ``fn``'s arguments and a cotangent, which returns the value and the gradients."""

    def value_and_gradients(*args):
        value, back = jax.vjp(fn, *args[:-1])
        return value, *back(args[-1])

    return value_and_gradients


def _array(*shape: int, dtype=jnp.bfloat16) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def _ours(family: str, op: str) -> Load:
    return lambda: getattr(importlib.import_module(f"course_lib.kernels.{family}"), op)


def _pallas_ops_matmul() -> Callable:
    """Load the JAX wheel's example, which does not choose blocks: here they are (bm, bk, bn)."""
    from jax.experimental.pallas.ops.tpu import matmul as example

    def product(x, y, *, blocks):
        bm, bk, bn = blocks
        return example.matmul(x, y, block_shape=(bm, bn), block_k=bk)

    return product


def _tokamax_matmul() -> Callable:
    """Load Tokamax's grouped matmul with a single group, because it has no plain one."""
    import tokamax

    def product(x, y):
        sizes = jnp.array([x.shape[0]], jnp.int32)
        with tokamax.config.cross_compile(True):
            return tokamax.ragged_dot(x, y[None], group_sizes=sizes, implementation="mosaic_tpu")

    return product


def _tokamax_norm(centred: bool) -> Load:
    """Return a loader of Tokamax's LayerNorm, which has no TPU kernel of its own and leaves the work to XLA."""

    def load() -> Callable:
        import tokamax

        def norm(x, weight, bias=None):
            with tokamax.config.cross_compile(True):
                return tokamax.layer_norm(x, weight, bias, subtract_mean=centred)

        return norm

    return load
