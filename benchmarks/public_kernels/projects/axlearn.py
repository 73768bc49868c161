"""Kernels of apple/axlearn."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from public_kernels import old_names
from public_kernels.adapter import F32, Adapter, Project, array


def log_probs(top_k: int):
    old_names.put_back()
    from axlearn.common import utils

    utils.get_tpu_dot_precision = lambda dtype: {F32: "highest"}.get(jnp.dtype(dtype).type)
    from axlearn.common.kernels import online_softmax_log_probs as module

    return functools.partial(module.online_softmax_log_probs_pallas, top_k=top_k, tile_s=64, tile_v=256)


def log_normalizer(x, weight):
    return jax.nn.logsumexp(jnp.einsum("bsd,vd->bsv", x, weight, precision="highest"), axis=-1)


def with_top_4(x, weight):
    logits = jnp.einsum("bsd,vd->bsv", x, weight, precision="highest")
    return jax.nn.logsumexp(logits, axis=-1), *jax.lax.top_k(logits, 4)


def scatter_pages():
    from axlearn.common.kv_cache import paged_kv_cache_tpu_kernel as module

    return module.tpu_scatter_update_pages_shmap_fn


def page_arguments() -> tuple:
    """Return six pages of 16 tokens for two heads, a new token for each of three sequences, and where it belongs."""
    table = np.array([[1, 2], [3, 4], [5, 0]], np.int32)
    return (
        array(2, 6, 16, 128),
        array(2, 3, 1, 128),
        table,
        np.array([20, 3, 15], np.int32),
    )


def scattered(pages, new, table, places):
    rows = jnp.arange(len(places))
    return pages.at[:, table[rows, places // 16], places % 16].set(new[:, rows, 0])


PROJECTS = (
    Project(
        name="apple/axlearn",
        package="axlearn",
        stubs=("axlearn.common.utils",),
        adapters=(
            Adapter(
                name="log-normalizer of logits",
                path="axlearn/common/kernels/online_softmax_log_probs.py",
                style="pallas_call",
                load=lambda: log_probs(0),
                reference=log_normalizer,
                args=lambda: (array(1, 128, 128), array(600, 128)),
                arrays="f32[1,128,128], f32[600,128]",
            ),
            Adapter(
                name="log-normalizer and top 4 of logits",
                path="axlearn/common/kernels/online_softmax_log_probs.py",
                style="pallas_call",
                load=lambda: log_probs(4),
                reference=with_top_4,
                args=lambda: (array(1, 64, 128), array(600, 128)),
                arrays="f32[1,64,128], f32[600,128]",
            ),
            Adapter(
                name="new tokens into pages",
                path="axlearn/common/kv_cache/paged_kv_cache_tpu_kernel.py",
                style="scalar prefetch, aliases",
                load=scatter_pages,
                reference=scattered,
                args=page_arguments,
                arrays="3 tokens into 6 pages of 16",
            ),
        ),
    ),
)
