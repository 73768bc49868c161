"""The TPU kernels in JAX's wheel, ``jax.experimental.pallas.ops.tpu``."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from public_kernels.adapter import BF16, F32, Adapter, Project, array
from public_kernels.references import (
    by_pages,
    causal_attention,
    full_attention,
    grouped,
    segments_attention,
)

OPS = "jax/experimental/pallas/ops/tpu"


def matmul():
    from jax.experimental.pallas.ops.tpu.matmul import matmul

    def product(x, y):
        block = min(512, x.shape[0] // 2)
        return matmul(x, y, block_shape=(block, block), block_k=block)

    return product


def flash(**options):
    from jax.experimental.pallas.ops.tpu import flash_attention as module

    return functools.partial(module.flash_attention, **options)


def flash_of_segments():
    from jax.experimental.pallas.ops.tpu import flash_attention as module

    def attention(q, k, v, segments):
        return module.flash_attention(q, k, v, segment_ids=module.SegmentIds(segments, segments))

    return attention


def splash(masks_of):
    from jax.experimental.pallas.ops.tpu.splash_attention import (
        splash_attention_kernel as kernels,
    )
    from jax.experimental.pallas.ops.tpu.splash_attention import (
        splash_attention_mask as masks,
    )

    def attention(q, k, v):
        heads, length, _ = q.shape
        mask = masks.MultiHeadMask([masks_of(masks, length)] * heads)
        blocks = kernels.BlockSizes(block_q=128, block_kv=128, block_kv_compute=128)
        return kernels.make_splash_mha(mask, head_shards=1, q_seq_shards=1, block_sizes=blocks)(q, k, v)

    return attention


def local_attention(q, k, v):
    """Return causal attention in which a query also sees no key more than 128 places back."""
    distance = jnp.arange(q.shape[-2])[:, None] - jnp.arange(k.shape[-2])
    return full_attention(q, k, v, (distance >= 0) & (distance <= 128))


def paged():
    from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention

    return functools.partial(paged_attention, pages_per_compute_block=2)


def pages(dtype) -> tuple:
    """Return 8 query heads and 2 key heads; sequences of 50 and 64 tokens, in shuffled pages of 16."""
    table = np.array([[3, 1, 4, 5], [9, 2, 6, 7]], np.int32)
    store = array(2, 16, 16, 128, dtype=dtype)
    return array(2, 8, 128), store, store, np.array([50, 64], np.int32), table


def gmm():
    from jax.experimental.pallas.ops.tpu.megablox.gmm import gmm

    return gmm


def gmm_transposed():
    from jax.experimental.pallas.ops.tpu.megablox.gmm import gmm

    return functools.partial(gmm, transpose_rhs=True)


def tgmm():
    from jax.experimental.pallas.ops.tpu.megablox.gmm import tgmm

    return tgmm


def transposed_groups(x, y, sizes):
    """Return for each group its columns of x times its rows of y: (K, M), (M, N) -> (G, K, N)."""
    ends = jnp.cumsum(sizes)
    rows = jnp.arange(x.shape[1])
    mine = (rows >= (ends - sizes)[:, None]) & (rows < ends[:, None])
    return jnp.einsum("km,mn,gm->gkn", x, y, mine.astype(x.dtype), precision="highest")


def ragged_paged():
    from jax.experimental.pallas.ops.tpu.ragged_paged_attention import (
        ragged_paged_attention,
    )

    return functools.partial(
        ragged_paged_attention,
        num_kv_pages_per_block=2,
        num_queries_per_block=8,
        sm_scale=0.1,
    )


def ragged_pages() -> tuple:
    """Return 4 query heads and 2 key heads of bf16; three sequences of 1, 9 and 6 new tokens in pages of 16."""
    starts, lengths = (
        np.array([0, 1, 10, 16], np.int32),
        np.array([20, 30, 6], np.int32),
    )
    table = np.array([[3, 1], [4, 2], [0, 5]], np.int32)
    store = array(8, 16, 4, 128, dtype=BF16)
    return (
        array(16, 4, 128, dtype=BF16),
        store,
        lengths,
        table,
        starts,
        np.array([3], np.int32),
    )


def ragged_attention(q, kv_pages, lengths, table, starts, count):
    """Attend each new token to the tokens before it in its sequence's pages; in f32."""
    out, groups = jnp.zeros(q.shape, F32), q.shape[1] // (kv_pages.shape[2] // 2)
    for i in range(table.shape[0]):
        keys = kv_pages[table[i]].reshape(-1, *kv_pages.shape[2:]).astype(F32)
        k, v = (jnp.repeat(part, groups, axis=1) for part in (keys[:, 0::2], keys[:, 1::2]))
        rows, length = jnp.arange(q.shape[0]), lengths[i]
        mine = (rows >= starts[i]) & (rows < starts[i + 1])
        place = rows - starts[i + 1] + length
        scores = jnp.einsum("qhd,khd->hqk", q.astype(F32), k) * 0.1
        seen = jnp.arange(k.shape[0]) <= place[:, None]
        weights = jax.nn.softmax(jnp.where(seen, scores, -1e30), axis=-1)
        out = jnp.where(mine[:, None, None], jnp.einsum("hqk,khd->qhd", weights, v), out)
    return out.astype(q.dtype)


def threefry():
    from jax.experimental.pallas.ops.tpu.random import threefry

    return lambda key: threefry.plthreefry_random_bits(key, 32, (256, 256))


def example():
    from jax.experimental.pallas.ops.tpu import example_kernel

    return example_kernel.double


HEADS, MODEL = array(1, 2, 256, 128), array(1, 8, 2048, 128, dtype=BF16)
GROUPS = np.array([100, 0, 156], np.int32)
_FLASH = {"path": f"{OPS}/flash_attention.py", "style": "pallas_call"}
_SPLASH = {
    "path": f"{OPS}/splash_attention/splash_attention_kernel.py",
    "style": "scalar prefetch",
}
_PAGED = {
    "path": f"{OPS}/paged_attention/paged_attention_kernel.py",
    "style": "scalar prefetch, manual copies",
}
_GROUPED = {"path": f"{OPS}/megablox/gmm.py", "style": "scalar prefetch"}

PROJECTS = (
    Project(
        name="jax-ml/jax (wheel)",
        adapters=(
            Adapter(
                name="matmul",
                path=f"{OPS}/matmul.py",
                style="pallas_call",
                load=matmul,
                reference=jnp.matmul,
                args=lambda: (array(512, 512),) * 2,
                arrays="f32[512,512] twice",
                large=(array(4096, 4096, dtype=BF16),) * 2,
                large_arrays="bf16[4096,4096] twice",
            ),
            Adapter(
                name="flash attention, causal",
                **_FLASH,
                load=functools.partial(flash, causal=True),
                reference=causal_attention,
                args=lambda: (HEADS,) * 3,
                arrays="f32[1,2,256,128] three times",
                large=(MODEL,) * 3,
                large_arrays="bf16[1,8,2048,128]",
            ),
            Adapter(
                name="flash attention",
                **_FLASH,
                load=functools.partial(flash, sm_scale=0.1),
                reference=lambda q, k, v: full_attention(q * 0.1, k, v),
                args=lambda: (HEADS,) * 3,
                arrays="f32[1,2,256,128] three times",
            ),
            Adapter(
                name="flash attention, segments",
                **_FLASH,
                load=flash_of_segments,
                reference=segments_attention,
                args=lambda: (HEADS,) * 3 + (np.repeat(np.arange(2, dtype=np.int32), 128)[None],),
                arrays="f32[1,2,256,128], two segments",
            ),
            Adapter(
                name="splash attention, causal",
                **_SPLASH,
                load=lambda: splash(lambda masks, n: masks.CausalMask((n, n))),
                reference=causal_attention,
                args=lambda: (array(2, 256, 128),) * 3,
                arrays="f32[2,256,128] three times",
            ),
            Adapter(
                name="splash attention, local",
                **_SPLASH,
                load=lambda: splash(lambda masks, n: masks.LocalMask((n, n), (128, 0), 0)),
                reference=local_attention,
                args=lambda: (array(2, 384, 128),) * 3,
                arrays="f32[2,384,128] three times",
            ),
            Adapter(
                name="paged attention, f32 pages",
                **_PAGED,
                load=paged,
                reference=by_pages,
                args=lambda: pages(F32),
                arrays="pages of 16 in f32",
            ),
            Adapter(
                name="paged attention, bf16 pages",
                **_PAGED,
                load=paged,
                reference=by_pages,
                args=lambda: pages(BF16),
                arrays="pages of 16 in bf16",
            ),
            Adapter(
                name="gmm",
                **_GROUPED,
                load=gmm,
                reference=jax.lax.ragged_dot,
                args=lambda: (array(256, 128), array(3, 128, 128), GROUPS),
                arrays="256 rows in groups of 100, 0, 156",
            ),
            Adapter(
                name="gmm, transposed rhs",
                **_GROUPED,
                load=gmm_transposed,
                reference=lambda x, y, sizes: grouped(x, jnp.swapaxes(y, 1, 2), sizes),
                args=lambda: (array(256, 128), array(3, 256, 128), GROUPS),
                arrays="256 rows in groups of 100, 0, 156",
            ),
            Adapter(
                name="tgmm",
                **_GROUPED,
                load=tgmm,
                reference=transposed_groups,
                args=lambda: (array(128, 256), array(256, 128), GROUPS),
                arrays="256 rows in groups of 100, 0, 156",
            ),
            Adapter(
                name="ragged paged attention",
                path=f"{OPS}/ragged_paged_attention/kernel.py",
                style="scalar prefetch, manual copies",
                load=ragged_paged,
                reference=ragged_attention,
                args=ragged_pages,
                arrays="3 sequences, bf16 pages of 16",
            ),
            Adapter(
                name="threefry",
                path=f"{OPS}/random/threefry.py",
                style="pallas_call",
                load=threefry,
                reference=lambda key: jax.random.bits(jax.random.wrap_key_data(key, impl="threefry2x32"), (256, 256)),
                args=lambda: (np.array([3, 7], np.uint32),),
                arrays="one key, 65,536 words",
            ),
            Adapter(
                name="example",
                path=f"{OPS}/example_kernel.py",
                style="pallas_call",
                load=example,
                reference=lambda x: x * 2,
                args=lambda: (array(64, 128),),
                arrays="f32[64,128]",
            ),
        ),
    ),
)
