"""Kernels of sgl-project/sglang-jax: routing, caches and linear attention for serving."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

from public_kernels.adapter import F32, Adapter, Project, array
from public_kernels.references import grouped

FOLDER = "python/sgl_jax/srt/kernels"


def biased_topk():
    from sgl_jax.srt.kernels.biased_topk.v1 import kernel

    return functools.partial(kernel.biased_topk_pallas, topk=4, block_tokens=128)


def biased_topk_reference(logits, bias):
    """Return the four experts with the largest biased logits, and their logits without the bias."""
    _, ids = jax.lax.top_k(logits + bias, 4)
    return jnp.take_along_axis(logits, ids, axis=1), ids


def topk():
    from sgl_jax.srt.kernels.biased_topk.v1 import kernel

    return functools.partial(kernel.topk_pallas, topk=4, block_tokens=128)


def grouped_topk(packed: bool = False):
    from sgl_jax.srt.kernels.grouped_topk.v1 import kernel

    sizes = {"num_expert_group": 8, "topk_group": 2, "topk": 4, "block_tokens": 128}
    return functools.partial(kernel.grouped_topk_pallas, packed=packed, **sizes)


def grouped_topk_reference(logits, bias):
    """Keep the two of eight groups whose two largest biased logits add up to most, and take four experts of them."""
    scores = logits + bias
    groups = scores.reshape(len(scores), 8, -1)
    _, kept = jax.lax.top_k(jnp.sum(jax.lax.top_k(groups, 2)[0], axis=-1), 2)
    chosen = jnp.any(kept[:, :, None] == jnp.arange(8), axis=1)
    masked = jnp.where(chosen[:, :, None], groups, -jnp.inf).reshape(scores.shape)
    _, ids = jax.lax.top_k(masked, 4)
    return jnp.take_along_axis(logits, ids, axis=1), ids


def cache_update():
    from sgl_jax.srt import utils

    utils.cdiv = pl.cdiv  # of that package, which imports the whole server, the kernel needs this alone
    from sgl_jax.srt.kernels.update_kv_cache import update_kv_cache as module

    return lambda new, slices, cache, count: module.kv_cache_update_impl(new, slices, cache, count, 1, 4)


def cache_slices() -> tuple:
    """Return eight tokens, each one slice, for a cache of four pages of eight tokens; two heads of 128, in pairs."""
    slices = np.array([[3, 9, 30, 16, 1, 25, 8, 20], np.arange(8), np.ones(8)], np.int32)
    return (
        array(8, 1, 1, 2, 128),
        slices,
        array(4, 8, 1, 2, 128),
        np.array([8], np.int32),
    )


def updated(new, slices, cache, count):
    flat = cache.reshape(-1, *cache.shape[2:])
    return flat.at[slices[0]].set(new[slices[1], 0]).reshape(cache.shape)


def gmm():
    from sgl_jax.srt.kernels.gmm.megablox_gmm_kernel.gmm import gmm

    return lambda x, y, sizes: gmm(x, y, sizes, preferred_element_type=F32, tiling=(128, 128, 128))


def quantized_matmul():
    from sgl_jax.srt.kernels.quantized_matmul.quantized_matmul_kernels import kernel
    from sgl_jax.srt.kernels.quantized_matmul.quantized_matmul_kernels.tuned_block_sizes import (
        TunedValue,
    )

    tuned = TunedValue(batch_block_size=128, out_block_size=128, in_block_size=128)
    return lambda x, w, scale: kernel.quantized_matmul_kernel(x, w, scale, tuned_value=tuned)


def weights_scaled(x, w, scale):
    return jnp.dot(x, w.astype(F32).T, precision="highest") * scale


def chunk_states():
    from sgl_jax.srt.kernels.simple_gla import simple_gla as module

    return lambda k, v: module.chunk_fwd_h_kernel_varlen(
        k,
        v,
        cu_seqlens_dev=jnp.asarray(ENDS),
        output_final_state=True,
        states_in_fp32=True,
        chunk_size=128,
    )


def states_reference(k, v):
    """Return for each chunk the sum of kᵀ v over its sequence's earlier chunks, and each sequence's last state."""
    k, v = (x[0].reshape(3, 128, x.shape[2], -1) for x in (k, v))
    updates = jnp.einsum("cthk,cthv->chkv", k, v, precision="highest")
    zero = jnp.zeros_like(updates[0])
    return jnp.stack([zero, updates[0], zero]), jnp.stack([updates[0] + updates[1], updates[2]])


def chunk_outputs():
    from sgl_jax.srt.kernels.simple_gla import simple_gla as module

    return lambda q, k, v, h, g: module.chunk_fwd_o(q, k, v, h, g=g, scale=0.1, chunk_size=64)


def outputs_reference(q, k, v, h, g):
    """Return gated linear attention within chunks of 64, with each chunk's state added: (B, T, H, D)."""
    (b, t, heads, _), n = q.shape, q.shape[1] // 64
    q, k, v = (x.reshape(b, n, 64, heads, -1) for x in (q, k, v))
    g, h = g.reshape(b, n, 64, heads), h.reshape(b, n, heads, *h.shape[-2:])
    passed = jnp.einsum("bnthk,bnhkv->bnthv", q, h, precision="highest") * jnp.exp(g)[..., None]
    scores = jnp.einsum("bnthk,bnshk->bnhts", q, k, precision="highest")
    gates = jnp.moveaxis(g[:, :, :, None] - g[:, :, None], -1, 2)
    weights = jnp.where(jnp.tril(jnp.ones((64, 64), bool)), scores * jnp.exp(gates), 0.0)
    inside = jnp.einsum("bnhts,bnshv->bnthv", weights, v, precision="highest")
    return ((passed + inside) * 0.1).reshape(b, t, heads, -1)


def chunk_sums(reverse: bool):
    from sgl_jax.srt.kernels.kda import kda

    ends, chunks = (
        jnp.array([0, 128], jnp.int32),
        jnp.array([[0, 0], [0, 1]], jnp.int32),
    )
    return lambda g: kda.chunk_local_cumsum_vector(g, 64, reverse=reverse, cu_seqlens=ends, chunk_indices=chunks)


def sums_reference(g, reverse=False):
    chunks = g.reshape(g.shape[0], -1, 64, *g.shape[2:])
    return jax.lax.cumsum(chunks, axis=2, reverse=reverse).reshape(g.shape)


ENDS = np.array([0, 256, 384], np.int32)
LOGITS, BIAS = array(256, 128), array(128)
GROUPS = np.array([100, 28, 128], np.int32)
HEADS = array(1, 128, 2, 128)
GATES = -np.random.default_rng(0).uniform(0, 1, (1, 128, 2)).astype(np.float32)
_TOPK = {"path": f"{FOLDER}/biased_topk/v1/kernel.py", "style": "pallas_call"}
_GROUPED_TOPK = {"path": f"{FOLDER}/grouped_topk/v1/kernel.py", "style": "pallas_call"}
_GLA = {"path": f"{FOLDER}/simple_gla/simple_gla.py", "style": "pallas_call"}
_KDA = {"path": f"{FOLDER}/kda/kda.py", "style": "pallas_call"}

PROJECTS = (
    Project(
        name="sgl-project/sglang-jax",
        package="python/sgl_jax",
        stubs=(
            "flax",
            "absl",
            "fastapi",
            "zmq",
            "psutil",
            "torch",
            "sgl_jax.srt.utils",
        ),
        adapters=(
            Adapter(
                name="biased top-k",
                **_TOPK,
                load=biased_topk,
                reference=biased_topk_reference,
                args=lambda: (LOGITS, BIAS),
                arrays="f32[256,128], 4 of 128 experts",
            ),
            Adapter(
                name="top-k",
                **_TOPK,
                load=topk,
                reference=lambda logits: tuple(jax.lax.top_k(logits, 4)),
                args=lambda: (LOGITS,),
                arrays="f32[256,128], 4 of 128 experts",
            ),
            Adapter(
                name="grouped top-k",
                **_GROUPED_TOPK,
                load=grouped_topk,
                reference=grouped_topk_reference,
                args=lambda: (LOGITS, BIAS),
                arrays="f32[256,128], 4 experts of 2 groups",
            ),
            Adapter(
                name="KV cache update",
                path=f"{FOLDER}/update_kv_cache/update_kv_cache.py",
                style="scalar prefetch, manual copies, aliases",
                load=cache_update,
                reference=updated,
                args=cache_slices,
                arrays="8 tokens into 4 pages of 8",
            ),
            Adapter(
                name="gmm",
                path=f"{FOLDER}/gmm/megablox_gmm_kernel/gmm.py",
                style="scalar prefetch",
                load=gmm,
                reference=grouped,
                args=lambda: (array(256, 128), array(3, 128, 128), GROUPS),
                arrays="256 rows in groups of 100, 28, 128",
            ),
            Adapter(
                name="quantized matmul",
                path=f"{FOLDER}/quantized_matmul/quantized_matmul_kernels/kernel.py",
                style="pallas_call",
                load=quantized_matmul,
                reference=weights_scaled,
                args=lambda: (
                    array(128, 256),
                    array(256, 256, dtype=jnp.int8),
                    array(256),
                ),
                arrays="f32[128,256], int8[256,256]",
            ),
            Adapter(
                name="gated linear attention, states",
                **_GLA,
                load=chunk_states,
                reference=states_reference,
                args=lambda: (array(1, 384, 2, 128),) * 2,
                arrays="f32[1,384,2,128], 2 sequences",
            ),
            Adapter(
                name="gated linear attention, outputs",
                **_GLA,
                load=chunk_outputs,
                reference=outputs_reference,
                args=lambda: (HEADS, HEADS, HEADS, array(2, 2, 128, 128), GATES),
                arrays="f32[1,128,2,128], chunks of 64",
            ),
            Adapter(
                name="delta attention, sums in chunks",
                **_KDA,
                load=lambda: chunk_sums(reverse=False),
                reference=sums_reference,
                args=lambda: (array(1, 128, 2, 128),),
                arrays="f32[1,128,2,128], chunks of 64",
            ),
            Adapter(
                name="delta attention, sums from the end",
                **_KDA,
                load=lambda: chunk_sums(reverse=True),
                reference=functools.partial(sums_reference, reverse=True),
                args=lambda: (array(1, 128, 2, 128),),
                arrays="f32[1,128,2,128], chunks of 64",
            ),
        ),
    ),
)
