"""Kernels of AI-Hypercomputer/maxtext: attention for decoding, mixed residual streams, grouped matmuls."""

import functools

import jax.numpy as jnp
import numpy as np

from public_kernels.adapter import BF16, F32, Adapter, Project, array
from public_kernels.references import grouped

FOLDER = "src/maxtext/kernels"


def ragged_mqa():
    from maxtext.kernels.attention import ragged_attention as module

    return functools.partial(module.ragged_mqa, block_size=128, mask_value=MASKED)


def mqa_reference(q, k, v, lengths):
    """Return attention to the first keys of each sequence, its largest score and its sum of exponentials."""
    scores = jnp.einsum("bhd,btd->bht", q, k, precision="highest")
    scores = jnp.where(jnp.arange(k.shape[1]) < lengths[:, None, None], scores, -jnp.inf)
    largest = jnp.max(scores, axis=-1)
    weights = jnp.exp(scores - largest[..., None])
    total = jnp.sum(weights, axis=-1)
    return (
        jnp.einsum("bht,btd->bhd", weights, v, precision="highest") / total[..., None],
        largest,
        total,
    )


def ragged_gqa():
    from maxtext.kernels.attention import ragged_attention as module

    return functools.partial(module.ragged_gqa, block_size=128, mask_value=MASKED)


def gqa_reference(q, k, v, lengths):
    """Return the same for queries in groups that share a head of keys; the result is not divided by the sum."""
    parts = q[:, 0].reshape(q.shape[0], k.shape[2], -1, q.shape[-1])
    heads = [mqa_reference(parts[:, i], k[:, :, i], v[:, :, i], lengths) for i in range(k.shape[2])]
    out, largest, total = (jnp.concatenate(part, axis=1) for part in zip(*heads, strict=True))
    return (
        (out * total[..., None])[:, None],
        largest[:, None, :, None],
        total[:, None, :, None],
    )


def stream_kernels():
    from maxtext.kernels.mhc import common, mhc_kernels_fwd

    return mhc_kernels_fwd, common.MhcKernelConfig(block_size=32)


def pre_apply():
    module, config = stream_kernels()
    return lambda x, gates: module._pre_apply_fwd(x, gates, config)


def pre_apply_reference(x, gates):
    return jnp.einsum("ts,tsd->td", gates, x.astype(F32), precision="highest").astype(BF16)


def post_apply():
    module, config = stream_kernels()
    return lambda x, y, gates, residual: module._post_apply_fwd(x, y, gates, residual, config)


def post_apply_reference(x, y, gates, residual):
    mixed = jnp.einsum("tkj,tkd->tjd", residual.astype(BF16), x, preferred_element_type=F32)
    return (mixed + gates[:, :, None] * y.astype(F32)[:, None]).astype(BF16)


def gmm_v2():
    from maxtext.kernels.megablox.pallas_mosaic_tpu_v2_gmm_kernel import gmm_v2

    return gmm_v2


MASKED = -0.7 * float(np.finfo(np.float32).max)
LENGTHS = np.array([200, 64, 256, 1], np.int32)
_RAGGED = {
    "path": f"{FOLDER}/attention/ragged_attention.py",
    "style": "scalar prefetch",
}
_STREAMS = {"path": f"{FOLDER}/mhc/mhc_kernels_fwd.py", "style": "emit_pipeline"}

PROJECTS = (
    Project(
        name="AI-Hypercomputer/maxtext",
        package="src/maxtext",
        stubs=("flax", "absl", "qwix", "tokamax", "omegaconf", "maxtext.common"),
        adapters=(
            Adapter(
                name="ragged multi-query attention",
                **_RAGGED,
                load=ragged_mqa,
                reference=mqa_reference,
                args=lambda: (
                    array(4, 8, 128),
                    array(4, 256, 128),
                    array(4, 256, 128),
                    LENGTHS,
                ),
                arrays="4 sequences of up to 256 keys",
            ),
            Adapter(
                name="ragged grouped-query attention",
                **_RAGGED,
                load=ragged_gqa,
                reference=gqa_reference,
                args=lambda: (
                    array(4, 1, 16, 128),
                    array(4, 256, 2, 128),
                    array(4, 256, 2, 128),
                    LENGTHS,
                ),
                arrays="4 sequences of up to 256 keys, 2 heads",
            ),
            Adapter(
                name="streams, collapsed",
                **_STREAMS,
                load=pre_apply,
                reference=pre_apply_reference,
                args=lambda: (array(64, 4, 128, dtype=BF16), array(64, 4)),
                arrays="64 tokens, 4 streams of bf16[128]",
            ),
            Adapter(
                name="streams, mixed",
                **_STREAMS,
                load=post_apply,
                reference=post_apply_reference,
                args=lambda: (
                    array(64, 4, 128, dtype=BF16),
                    array(64, 128, dtype=BF16),
                    array(64, 4),
                    array(64, 4, 4),
                ),
                arrays="64 tokens, 4 streams of bf16[128]",
            ),
            Adapter(
                name="gmm v2",
                path=f"{FOLDER}/megablox/pallas_mosaic_tpu_v2_gmm_kernel.py",
                style="scalar prefetch, emit_pipeline",
                load=gmm_v2,
                reference=grouped,
                args=lambda: (
                    array(256, 128),
                    array(3, 128, 128),
                    np.array([100, 28, 128], np.int32),
                ),
                arrays="256 rows in groups of 100, 28, 128",
            ),
        ),
    ),
)
