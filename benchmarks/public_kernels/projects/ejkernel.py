"""Kernels of erfanzar/ejkernel: attention in pages, for decoding and for training, and grouped matmuls."""

import functools
import types

import jax.numpy as jnp
import numpy as np

from public_kernels import old_names
from public_kernels.adapter import Adapter, Project, array
from public_kernels.projects.jax_wheel import (
    ragged_attention,
    ragged_pages,
    transposed_groups,
)
from public_kernels.references import (
    by_pages,
    causal_attention,
    full_attention,
    grouped,
)

FOLDER = "ejkernel/kernels/_pallas/tpu"


def paged(inline: bool):
    old_names.put_back()
    from ejkernel.kernels._pallas.tpu.page_attention import _interface as module

    return functools.partial(module.page_attention, pages_per_compute_block=2, inline_seq_dim=inline)


def pages() -> tuple:
    """Return 16 query heads and 2 key heads of f32; sequences of 50 and 64 tokens, in shuffled pages of 16."""
    table = np.array([[3, 1, 4, 5], [9, 2, 6, 7]], np.int32)
    return (
        array(2, 16, 128),
        array(2, 16, 16, 128),
        array(2, 16, 16, 128),
        np.array([50, 64], np.int32),
        table,
    )


def ragged_decode():
    from ejkernel.kernels._pallas.tpu.ragged_decode_attention import (
        _pallas_impl_fwd as module,
    )

    blocks = types.SimpleNamespace(kv_blocksize=128)
    return lambda q, k, v, start, end: module.inner_decode_tpu(q, k, v, start, end, 0.1, blocks)


def decode_reference(q, k, v, start, end):
    """Attend with one query per sequence to the keys from ``start`` to ``end``: (B, H, D), (B, T, Hkv, D) twice."""
    groups, places = q.shape[1] // k.shape[2], jnp.arange(k.shape[1])
    k, v = (jnp.moveaxis(jnp.repeat(x, groups, axis=2), 1, 2) for x in (k, v))
    seen = (places >= start[:, None]) & (places < end[:, None])
    return full_attention(q[:, :, None] * 0.1, k, v, seen[:, None, None])[:, :, 0]


def flash(causal: bool, blocks: int = 128):
    old_names.put_back()
    from ejkernel.kernels._pallas.tpu.flash_attention import _pallas_impl_fwd as module

    return lambda q, k, v: module._flash_attention_impl(q, k, v, None, None, False, causal, 0.1, 1, 128, blocks, blocks)


def ragged_paged():
    old_names.put_back()
    from ejkernel.kernels._pallas.tpu.ragged_page_attention import _interface as module

    sizes = {"num_kv_pages_per_block": 2, "num_queries_per_block": 8}
    return functools.partial(module._ragged_page_attention, softmax_scale=0.1, **sizes)


def gmm():
    from ejkernel.kernels._pallas.tpu.grouped_matmul import _pallas_impl as module

    return module.grouped_matmul


def tgmm():
    from ejkernel.kernels._pallas.tpu.grouped_matmul import _pallas_impl as module

    return module.transposed_grouped_matmul


HEADS = array(1, 2, 256, 128)
GROUPS = np.array([100, 28, 128], np.int32)
_PAGED = {
    "path": f"{FOLDER}/page_attention/_interface.py",
    "style": "scalar prefetch, manual copies",
}
_FLASH = {
    "path": f"{FOLDER}/flash_attention/_pallas_impl_fwd.py",
    "style": "pallas_call",
}
_GROUPED = {
    "path": f"{FOLDER}/grouped_matmul/_pallas_impl.py",
    "style": "scalar prefetch",
}

PROJECTS = (
    Project(
        name="erfanzar/ejkernel",
        package="ejkernel",
        stubs=(
            "chex",
            "beartype",
            "einops",
            "flax",
            "triton",
            "jax_triton",
            "ejkernel.callib",
            "ejkernel.ops",
            "ejkernel.kernels._registry",
        ),
        adapters=(
            Adapter(
                name="paged attention",
                **_PAGED,
                load=lambda: paged(inline=False),
                reference=by_pages,
                args=pages,
                arrays="pages of 16 in f32",
            ),
            Adapter(
                name="paged attention, one step a head",
                **_PAGED,
                load=lambda: paged(inline=True),
                reference=by_pages,
                args=pages,
                arrays="pages of 16 in f32",
            ),
            Adapter(
                name="ragged decode attention",
                path=f"{FOLDER}/ragged_decode_attention/_pallas_impl_fwd.py",
                style="scalar prefetch",
                load=ragged_decode,
                reference=decode_reference,
                args=lambda: (
                    array(3, 16, 128),
                    array(3, 256, 2, 128),
                    array(3, 256, 2, 128),
                    np.array([0, 130, 20], np.int32),
                    np.array([200, 256, 21], np.int32),
                ),
                arrays="3 sequences of up to 256 keys",
            ),
            Adapter(
                name="flash attention, causal",
                **_FLASH,
                load=lambda: flash(causal=True),
                reference=lambda q, k, v: causal_attention(q * 0.1, k, v),
                args=lambda: (HEADS,) * 3,
                arrays="f32[1,2,256,128] three times",
            ),
            Adapter(
                name="flash attention, one step",
                **_FLASH,
                load=lambda: flash(causal=False, blocks=256),
                reference=lambda q, k, v: full_attention(q * 0.1, k, v),
                args=lambda: (HEADS,) * 3,
                arrays="f32[1,2,256,128] three times",
            ),
            Adapter(
                name="ragged paged attention",
                path=f"{FOLDER}/ragged_page_attention/_pallas_impl_fwd.py",
                style="scalar prefetch, manual copies",
                load=ragged_paged,
                reference=ragged_attention,
                args=ragged_pages,
                arrays="3 sequences, bf16 pages of 16",
            ),
            Adapter(
                name="gmm",
                **_GROUPED,
                load=gmm,
                reference=grouped,
                args=lambda: (array(256, 128), array(3, 128, 128), GROUPS),
                arrays="256 rows in groups of 100, 28, 128",
            ),
            Adapter(
                name="tgmm",
                **_GROUPED,
                load=tgmm,
                reference=transposed_groups,
                args=lambda: (array(128, 256), array(256, 128), GROUPS),
                arrays="256 rows in groups of 100, 28, 128",
            ),
        ),
    ),
)
