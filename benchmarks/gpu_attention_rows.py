"""The rows of ``make bench`` on a GPU for attention, compared with XLA and with cuDNN's flash attention."""

import functools
from collections.abc import Callable

import attention_rows
import jax
import jax.numpy as jnp
from gpu_rows import TRITON, Row
from kernel_rows import OURS, XLA

from course_lib.kernels.attention import mosaic_gpu
from course_lib.kernels.attention.scores import Scores

CUDNN = "cuDNN"
BLOCKS = {
    64: tuple(mosaic_gpu.Blocks(stages=stages) for stages in (2, 3, 4)),
    128: (mosaic_gpu.Blocks(),),
}


def rows() -> list[Row]:
    """Return the rows: heads of 128 and 64, full and causal, and a long sequence."""
    return [
        row(4, 16, 2048, 128, causal=False),
        row(4, 16, 2048, 128, causal=True),
        row(4, 16, 2048, 64, causal=False),
        row(4, 16, 2048, 64, causal=True),
        row(1, 16, 8192, 128, causal=False),
        row(1, 16, 8192, 128, causal=True),
    ]


def row(batch: int, heads: int, size: int, depth: int, *, causal: bool) -> Row:
    """Return a row of bf16 self-attention, (batch, heads, positions, elements)."""
    array = jax.ShapeDtypeStruct((batch, heads, size, depth), jnp.bfloat16)
    plain = functools.partial(attention_rows.plain, causal=causal)
    ours = functools.partial(attention_rows.ours, causal)
    return Row(
        kernel="attention" + ", causal" * causal,
        shape=f"{batch} x {heads} x {size} x {depth}",
        args=(array, array, array),
        plain=plain,
        least=(lambda q, k, v: plain(q[..., : size // 2, :], k, v)) if causal else None,
        implementations={OURS: ours, TRITON: ours, XLA: lambda: plain, CUDNN: lambda: in_cudnn(causal)},
        choices={
            blocks: lambda blocks=blocks: functools.partial(_with_blocks, blocks=blocks, causal=causal)
            for blocks in BLOCKS[depth]
        },
    )


def _with_blocks(q, k, v, *, blocks: mosaic_gpu.Blocks, causal: bool) -> jax.Array:
    scores = Scores(scale=q.shape[-1] ** -0.5, softcap=None, causal=causal, window=None, precision=None)
    return mosaic_gpu.forward(q, k, v, scores=scores, blocks=blocks)[0]


def in_cudnn(causal: bool) -> Callable:
    """Return what ``jax.nn.dot_product_attention(implementation="cudnn")`` calls, for arrays whose heads come first."""
    from jax._src.cudnn import fused_attention_stablehlo as cudnn

    mask = cudnn.MaskType.CAUSAL if causal else cudnn.MaskType.NO_MASK

    def attention(q, k, v):
        out = cudnn.dot_product_attention(q, k, v, scale=q.shape[-1] ** -0.5, mask_type=mask, qkv_layout="BNTH")
        return out[0] if isinstance(out, tuple | list) else out

    return attention
