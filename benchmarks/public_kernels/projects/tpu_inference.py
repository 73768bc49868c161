"""Kernels of vllm-project/tpu-inference: serving on TPUs."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from public_kernels.adapter import BF16, F32, Adapter, Project, array
from public_kernels.references import causal_attention, full_attention, grouped

FOLDER = "tpu_inference/kernels"


def newton_schulz():
    from tpu_inference.kernels.gdn import triangle_solver

    return functools.partial(triangle_solver.newton_schulz_inverse_pallas, block_size=4)


def blocked_inverse():
    from tpu_inference.kernels.gdn import triangle_solver

    return functools.partial(triangle_solver.decompose_triangular_matrix_inverse_pallas, n_block_size=4)


def triangles() -> tuple:
    """Return 8 lower triangular matrices with ones on the diagonal."""
    values = np.random.default_rng(0).normal(size=(8, 64, 64)).astype(np.float32) * 0.1
    return (np.tril(values, -1) + np.eye(64, dtype=np.float32),)


def inverse(a):
    identity = jnp.broadcast_to(jnp.eye(a.shape[-1], dtype=a.dtype), a.shape)
    return jax.lax.linalg.triangular_solve(a, identity, left_side=True, lower=True, unit_diagonal=True)


def transposed_whole():
    from tpu_inference.kernels.mla.v2 import transpose

    return lambda x: transpose.xpose_full(x, transpose_axes=(1, 0, 2))[0]


def transposed_in_tiles():
    from tpu_inference.kernels.mla.v2 import transpose

    return lambda x: transpose.xpose_pipeline(x, transpose_axes=(1, 0, 2), n_tile=16, m_tile=16)[0]


def recombined():
    from tpu_inference.kernels.experimental.deepseek_v4.mhc import post_kernel

    return functools.partial(post_kernel.mhc_post, token_block_size=32)


def recombined_reference(x, residual, post, comb):
    mixed = jnp.einsum("tij,tih->tjh", comb, residual.astype(F32), precision="highest")
    return (post * x.astype(F32)[:, None, :] + mixed).astype(BF16)


def mixes():
    from tpu_inference.kernels.experimental.deepseek_v4.mhc import pre_kernel

    return functools.partial(pre_kernel.mhc_pre_mixes, token_block_size=32)


def mixes_reference(x, weights):
    x = x.astype(F32)
    return jnp.dot(x, weights.T, precision="highest"), jnp.sum(x * x, axis=-1, keepdims=True)


def mixes_collapse():
    from tpu_inference.kernels.experimental.deepseek_v4.mhc import pre_kernel

    return lambda x, w, scale, base: pre_kernel.mhc_pre_mixes_collapse(
        x, w, scale, base, 1e-6, 1e-6, token_block_size=32
    )


def collapse_reference(x, weights, scale, base):
    mixes, squares = mixes_reference(x, weights)
    streams = 4
    gates = jax.nn.sigmoid(mixes[:, :streams] * jax.lax.rsqrt(squares / x.shape[1] + 1e-6) * scale[0] + base[:streams])
    parts = x.astype(F32).reshape(x.shape[0], streams, -1)
    return (
        mixes,
        squares,
        jnp.einsum("ti,tih->th", gates + 1e-6, parts, precision="highest").astype(BF16),
    )


def quantized_matmul(x_dtype=None):
    from tpu_inference.kernels.quantized_matmul import kernel
    from tpu_inference.kernels.quantized_matmul.tuned_block_sizes import TunedValue

    tuned = TunedValue(batch_block_size=128, out_block_size=128, in_block_size=128)
    return lambda x, w, scale: kernel.quantized_matmul_kernel(x, w, scale, x_q_dtype=x_dtype, tuned_value=tuned)


def weights_scaled(x, w, scale):
    product = jnp.dot(x.astype(F32), w.astype(F32).T, precision="highest")
    return (product * scale).astype(x.dtype)


def quantized_reference(x, w, scale):
    """Return the same, where each row of x is rounded to int8 by its largest element."""
    largest = jnp.max(jnp.abs(x), axis=-1, keepdims=True) / 127
    rounded = jnp.rint(x / largest)
    return jnp.dot(rounded, w.astype(F32).T, precision="highest") * scale * largest


def cache_update():
    from tpu_inference.kernels.ragged_paged_attention.v2 import (
        ragged_kv_cache_update as module,
    )

    return functools.partial(module.kv_cache_update, page_size=8, num_slices_per_block=2)


def cache_slices() -> tuple:
    """Return 12 new tokens and a cache of 64, written as slices of 5, 4 and 3 tokens."""
    slices = np.array([[8, 24, 40, 0], [0, 5, 9, 0], [5, 4, 3, 0]], np.int32)
    return array(12, 2, 128), slices, array(64, 2, 128), np.array([3], np.int32)


def updated(new, slices, cache, count):
    rows = jnp.arange(cache.shape[0])
    for at, start, length in slices.T:
        inside = (rows >= at) & (rows < at + length)
        fresh = new[jnp.clip(rows - at + start, 0, new.shape[0] - 1)]
        cache = jnp.where(inside[:, None, None], fresh, cache)
    return cache


def flash(**options):
    from tpu_inference.kernels.flash_attention import kernel

    blocks = kernel.BlockSizes(block_q=128, block_k_major=128, block_k=128, block_b=1)
    return functools.partial(kernel.flash_attention, block_sizes=blocks, **options)


def flash_of_segments():
    from tpu_inference.kernels.flash_attention import kernel

    blocks = kernel.BlockSizes(block_q=128, block_k_major=256, block_k=256, block_b=1)
    return lambda q, k, v, s: kernel.flash_attention(q, k, v, segment_ids=kernel.SegmentIds(s, s), block_sizes=blocks)


def gmm():
    from tpu_inference.kernels.megablox.gmm import gmm

    return lambda x, y, sizes: gmm(x, y, sizes, preferred_element_type=F32, tiling=(128, 128, 128))


def gmm_v2():
    from tpu_inference.kernels.megablox.gmm_v2 import gmm_v2

    return gmm_v2


def spmm(rhs_sparse: bool):
    from tpu_inference.kernels.structured_sparse_matmul.v1 import spmm as module

    dense, mask = sparse_matrix()
    sparse = module.Sparsifier(
        jnp.asarray(dense),
        jnp.asarray(mask),
        sparsity=(1, 4),
        sparse_dim=0 if rhs_sparse else 1,
        stride=128,
    )
    options = {"rhs_sparse": rhs_sparse, "contract_sparse": True, "stride": 128}
    blocks = {"block_m": 128, "block_k": 512, "block_n": 128}
    return lambda matrix: module.structured_spmm((1, 4), sparse.nonzeros, sparse.metadata, matrix, **options, **blocks)


def sparse_matrix():
    """Return a matrix (128, 512) and its mask: of each four elements 128 apart, one is kept."""
    rng = np.random.default_rng(0)
    kept = np.eye(4, dtype=np.int32)[rng.integers(0, 4, (128, 128))]  # rows, lanes, which of four
    mask = np.moveaxis(kept, 2, 1).reshape(128, 512)
    return rng.normal(size=(128, 512)).astype(np.float32), mask


def spmm_reference(matrix):
    dense, mask = sparse_matrix()
    return jnp.dot(jnp.asarray(dense * mask), matrix, precision="highest")


def rope(inverse=False):
    from tpu_inference.kernels.experimental.deepseek_v4 import rope as module

    return functools.partial(module.rope, inverse=inverse)


def rotated(x, places, table, sign=1.0):
    """Rotate the last 64 channels of x (tokens, heads, depth) in neighboring pairs, by the rows of ``table``."""
    half = table.shape[1] // 2
    cos, sin = table[places][:, None, :half], sign * table[places][:, None, half:]
    kept, turned = x[..., : -2 * half], x[..., -2 * half :].astype(F32)
    even, odd = turned[..., 0::2], turned[..., 1::2]
    pairs = jnp.stack([even * cos - odd * sin, odd * cos + even * sin], axis=-1)
    return jnp.concatenate([kept, pairs.reshape(turned.shape).astype(x.dtype)], axis=-1)


def qnorm_rope():
    from tpu_inference.kernels.experimental.deepseek_v4 import rope as module

    return module.qnorm_rope


def normalized_and_rotated(x, places, table):
    wide = x.astype(F32)
    return rotated(
        wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6),
        places,
        table,
    )


def gather_cos_sin():
    from tpu_inference.kernels.experimental.deepseek_v4 import o_projection as module

    return module.gather_cos_sin


def cos_sin_reference(places, table):
    """Return for each token 128 cosines, then 128 sines: the last lanes hold each pair's angle twice."""
    half = table.shape[1] // 2
    rows = table[places]
    cos, sin = (jnp.repeat(part, 2, axis=1) for part in (rows[:, :half], rows[:, half:]))
    pad = ((0, 0), (128 - 2 * half, 0))
    return jnp.concatenate([jnp.pad(cos, pad, constant_values=1.0), jnp.pad(sin, pad)], axis=1)


_OWN = (
    "tpu_inference.logger",
    "tpu_inference.envs",
    "tpu_inference.layers",
)  # not needed by its kernels
PLACES = np.array([3, 0, 31, 7, 7, 12, 1, 30], np.int32)
HEADS = array(1, 2, 256, 128)
GROUPS = np.array([100, 28, 128], np.int32)
_MHC = f"{FOLDER}/experimental/deepseek_v4/mhc"
_ROPE = {
    "path": f"{FOLDER}/experimental/deepseek_v4/rope.py",
    "style": "scalar prefetch, emit_pipeline, manual copies, aliases",
}
_FLASH = {"path": f"{FOLDER}/flash_attention/kernel.py", "style": "pallas_call"}
_QUANTIZED = {"path": f"{FOLDER}/quantized_matmul/kernel.py", "style": "pallas_call"}
_SPARSE = {
    "path": f"{FOLDER}/structured_sparse_matmul/v1/spmm.py",
    "style": "pallas_call",
}
_TRANSPOSE = {"path": f"{FOLDER}/mla/v2/transpose.py", "style": "pallas_call"}
_SOLVER = {"path": f"{FOLDER}/gdn/triangle_solver.py", "style": "pallas_call"}

PROJECTS = (
    Project(
        name="vllm-project/tpu-inference",
        package="tpu_inference",
        stubs=("vllm", "torch", "torchax", "flax", "absl", "sympy", *_OWN),
        adapters=(
            Adapter(
                name="triangular inverse, Newton-Schulz",
                **_SOLVER,
                load=newton_schulz,
                reference=inverse,
                args=triangles,
                arrays="f32[8,64,64]",
            ),
            Adapter(
                name="triangular inverse, blocked",
                **_SOLVER,
                load=blocked_inverse,
                reference=inverse,
                args=triangles,
                arrays="f32[8,64,64]",
            ),
            Adapter(
                name="transpose, whole",
                **_TRANSPOSE,
                load=transposed_whole,
                reference=lambda x: jnp.swapaxes(x, 0, 1),
                args=lambda: (array(16, 32, 128),),
                arrays="f32[16,32,128]",
            ),
            Adapter(
                name="mHC, recombine streams",
                path=f"{_MHC}/post_kernel.py",
                style="pallas_call",
                load=recombined,
                reference=recombined_reference,
                args=lambda: (
                    array(64, 128, dtype=BF16),
                    array(64, 4, 128, dtype=BF16),
                    array(64, 4, 1),
                    array(64, 4, 4),
                ),
                arrays="64 tokens, 4 streams of bf16[128]",
            ),
            Adapter(
                name="mHC, mixes",
                path=f"{_MHC}/pre_kernel.py",
                style="pallas_call",
                load=mixes,
                reference=mixes_reference,
                args=lambda: (array(64, 512, dtype=BF16), array(24, 512)),
                arrays="bf16[64,512], f32[24,512]",
            ),
            Adapter(
                name="mHC, mixes and collapse",
                path=f"{_MHC}/pre_kernel.py",
                style="pallas_call",
                load=mixes_collapse,
                reference=collapse_reference,
                args=lambda: (
                    array(64, 512, dtype=BF16),
                    array(24, 512),
                    array(3),
                    array(24),
                ),
                arrays="bf16[64,512], f32[24,512]",
            ),
            Adapter(
                name="quantized matmul, int8 weights",
                **_QUANTIZED,
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
                name="quantized matmul, int8 both",
                **_QUANTIZED,
                load=lambda: quantized_matmul(jnp.int8),
                reference=quantized_reference,
                args=lambda: (
                    array(128, 256),
                    array(256, 256, dtype=jnp.int8),
                    array(256),
                ),
                arrays="f32[128,256], int8[256,256]",
            ),
            Adapter(
                name="KV cache update",
                path=f"{FOLDER}/ragged_paged_attention/v2/ragged_kv_cache_update.py",
                style="scalar prefetch, manual copies, aliases",
                load=cache_update,
                reference=updated,
                args=cache_slices,
                arrays="12 tokens into a cache of 64",
            ),
            Adapter(
                name="flash attention, causal",
                **_FLASH,
                load=lambda: flash(causal=True),
                reference=causal_attention,
                args=lambda: (HEADS,) * 3,
                arrays="f32[1,2,256,128] three times",
            ),
            Adapter(
                name="flash attention, bias",
                **_FLASH,
                load=flash,
                reference=lambda q, k, v, bias: jnp.einsum(
                    "bhqk,bhkd->bhqd",
                    jax.nn.softmax(jnp.einsum("bhqd,bhkd->bhqk", q, k) + bias, axis=-1),
                    v,
                ),
                args=lambda: (HEADS, HEADS, HEADS, array(1, 2, 256, 256)),
                arrays="f32[1,2,256,128] and a bias",
            ),
            Adapter(
                name="flash attention, one step",
                **_FLASH,
                load=flash_of_segments,
                reference=lambda q, k, v, s: full_attention(q, k, v, s[:, None, :, None] == s[:, None, None, :]),
                args=lambda: (HEADS,) * 3 + (np.repeat(np.arange(2, dtype=np.int32), 128)[None],),
                arrays="f32[1,2,256,128], two segments",
            ),
            Adapter(
                name="gmm",
                path=f"{FOLDER}/megablox/gmm.py",
                style="scalar prefetch",
                load=gmm,
                reference=grouped,
                args=lambda: (array(256, 128), array(3, 128, 128), GROUPS),
                arrays="256 rows in groups of 100, 28, 128",
            ),
            Adapter(
                name="gmm v2",
                path=f"{FOLDER}/megablox/gmm_v2.py",
                style="scalar prefetch, emit_pipeline",
                load=gmm_v2,
                reference=grouped,
                args=lambda: (array(256, 128), array(3, 128, 128), GROUPS),
                arrays="256 rows in groups of 100, 28, 128",
            ),
            Adapter(
                name="sparse matmul, 1 of 4",
                **_SPARSE,
                load=lambda: spmm(rhs_sparse=False),
                reference=spmm_reference,
                args=lambda: (array(512, 128),),
                arrays="f32[128,512] sparse, f32[512,128]",
            ),
            Adapter(
                name="rope",
                **_ROPE,
                load=rope,
                reference=rotated,
                args=lambda: (array(8, 4, 128), PLACES, array(32, 64)),
                arrays="f32[8,4,128]",
            ),
            Adapter(
                name="norm and rope",
                **_ROPE,
                load=qnorm_rope,
                reference=normalized_and_rotated,
                args=lambda: (array(8, 4, 256), PLACES, array(32, 64)),
                arrays="f32[8,4,256]",
            ),
            Adapter(
                name="cosines and sines of tokens",
                path=f"{FOLDER}/experimental/deepseek_v4/o_projection.py",
                style="scalar prefetch, emit_pipeline, manual copies",
                load=gather_cos_sin,
                reference=cos_sin_reference,
                args=lambda: (PLACES, array(32, 64)),
                arrays="8 of 32 rows of f32[64]",
            ),
        ),
    ),
)
