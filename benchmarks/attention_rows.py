"""The rows of ``make bench`` for attention, compared with XLA and with the flash attention in the JAX wheel."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from kernel_rows import OURS, PALLAS_OPS, XLA, Load, Row, with_gradients

# Blocks of the wheel's kernel: queries, keys in VMEM, keys computed at once.
CHOICES = ((512, 512, 512), (1024, 512, 512), (1024, 1024, 1024), (1024, 2048, 1024))


def rows() -> list[Row]:
    """Return the rows: eight heads of 128, full and causal; heads of 64; short sequences; and with gradients."""
    return [
        row(8, 2048, 128, causal=False),
        row(8, 2048, 128, causal=True),
        row(8, 2048, 64, causal=False),
        row(32, 512, 128, causal=False),
        row(8, 2048, 128, causal=False, gradients=True),
        row(8, 2048, 128, causal=True, gradients=True),
    ]


def row(heads: int, size: int, depth: int, *, causal: bool, gradients: bool = False) -> Row:
    """Return a row of bf16 self-attention, (heads, positions, elements), or (o, dq, dk, dv) of (q, k, v, do)."""
    array = jax.ShapeDtypeStruct((1, heads, size, depth), jnp.bfloat16)
    change = with_gradients if gradients else lambda fn: fn
    return Row(
        kernel="attention" + ", causal" * causal + ", and gradients" * gradients,
        shape=f"{heads} x {size} x {depth}",
        args=(array,) * (4 if gradients else 3),
        share=0.5 if causal else 1.0,
        implementations={
            OURS: lambda: change(ours(causal)),
            XLA: lambda: change(functools.partial(plain, causal=causal)),
            PALLAS_OPS: in_the_wheel(causal, change),
        },
        choices={PALLAS_OPS: tuple(tuple(min(size, n) for n in choice) for choice in CHOICES)},
    )


def ours(causal: bool) -> Callable:
    from course_lib.kernels import attention

    return functools.partial(attention.flash_attention, causal=causal)


def plain(q: jax.Array, k: jax.Array, v: jax.Array, *, causal: bool) -> jax.Array:
    """Compute attention as written: scores and softmax in f32, matmuls in bf16."""
    s = jnp.einsum("bhsd,bhtd->bhst", q, k, preferred_element_type=jnp.float32) * q.shape[-1] ** -0.5
    if causal:
        s = jnp.where(jnp.tri(s.shape[-2], s.shape[-1], dtype=bool), s, -jnp.inf)
    return jnp.einsum("bhst,bhtd->bhsd", jax.nn.softmax(s).astype(v.dtype), v)


def in_the_wheel(causal: bool, change: Callable) -> Load:
    """Return a loader of ``jax.experimental.pallas.ops.tpu.flash_attention``, with the blocks set for every kernel."""

    def load() -> Callable:
        from jax.experimental.pallas.ops.tpu import flash_attention as wheel

        def attention(*args, blocks):
            q, major, k = blocks
            sizes = wheel.BlockSizes(
                **{"block_q": q, "block_k_major": major, "block_k": k, "block_b": 1},
                **{"block_q_major_dkv": q, "block_k_major_dkv": major, "block_k_dkv": k, "block_q_dkv": q},
                **{"block_k_major_dq": major, "block_k_dq": k, "block_q_dq": q},
            )
            scale = args[0].shape[-1] ** -0.5
            return change(
                lambda q, k, v: wheel.flash_attention(q, k, v, causal=causal, sm_scale=scale, block_sizes=sizes)
            )(*args)

        return attention

    return load
