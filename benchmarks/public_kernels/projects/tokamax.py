"""Kernels of openxla/tokamax, two of them on SparseCores."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from public_kernels.adapter import Adapter, Project, array
from public_kernels.references import grouped

FOLDER = "tokamax/_src/ops"


def gmm_v2(transposed: bool = False):
    from tokamax._src.ops.experimental.gmm_v2 import gmm_v2 as module

    return functools.partial(module.gmm_v2, transpose_rhs=transposed)


def tgmm_v2():
    from tokamax._src.ops.experimental.gmm_v2 import tgmm_v2 as module

    return lambda x, y, sizes: module.tgmm_v2(x, y, sizes, 3, preferred_element_type=jnp.float32)


def tgmm_reference(x, y, sizes):
    """Return for each group its rows of x, transposed, times its rows of y: (M, K), (M, N) -> (G, K, N)."""
    ends, rows = jnp.cumsum(sizes), jnp.arange(x.shape[0])
    mine = (rows >= (ends - sizes)[:, None]) & (rows < ends[:, None])
    return jnp.einsum("mk,mn,gm->gkn", x, y, mine.astype(x.dtype), precision="highest")


def cross_entropy():
    from tokamax._src.ops.linear_softmax_cross_entropy_loss import (
        pallas_mosaic_tpu_kernel as module,
    )

    blocks = {"b_block_size": 1024, "h_block_size": 128, "v_block_size": 256}
    return functools.partial(
        module.linear_softmax_cross_entropy_loss_fwd_pallas_mosaic_tpu,
        reduction="sum",
        **blocks,
    )


def loss_reference(x, labels, w):
    logits = jnp.dot(x, w, precision="highest")
    total = jax.nn.logsumexp(logits, axis=-1)
    return jnp.sum(total - jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]), total


def ragged_gather():
    from tokamax._src.ops.ragged_gather import pallas_mosaic_tpu_kernel as module

    return module.ragged_gather_pallas


def gather_arguments() -> tuple:
    indices = np.random.default_rng(0).integers(0, 64, 1024).astype(np.int32)
    return array(64, 128), indices, np.array([0], np.int32), np.array([1024], np.int32)


GROUPS = np.array([100, 28, 128], np.int32)
_GMM = {
    "path": f"{FOLDER}/experimental/gmm_v2/gmm_v2.py",
    "style": "pl.kernel, emit_pipeline, manual copies",
}

PROJECTS = (
    Project(
        name="openxla/tokamax",
        package="tokamax",
        stubs=("absl", "pydantic", "qwix", "immutabledict", "einshape", "typeguard"),
        adapters=(
            Adapter(
                name="gmm v2",
                **_GMM,
                load=gmm_v2,
                reference=grouped,
                args=lambda: (array(256, 128), array(3, 128, 128), GROUPS),
                arrays="256 rows in groups of 100, 28, 128",
            ),
            Adapter(
                name="gmm v2, transposed rhs",
                **_GMM,
                load=lambda: gmm_v2(transposed=True),
                reference=lambda x, y, sizes: grouped(x, jnp.swapaxes(y, 1, 2), sizes),
                args=lambda: (array(256, 128), array(3, 256, 128), GROUPS),
                arrays="256 rows in groups of 100, 28, 128",
            ),
            Adapter(
                name="tgmm v2",
                path=f"{FOLDER}/experimental/gmm_v2/tgmm_v2.py",
                style="pl.kernel, emit_pipeline, manual copies",
                load=tgmm_v2,
                reference=tgmm_reference,
                args=lambda: (array(256, 128), array(256, 128), GROUPS),
                arrays="256 rows in groups of 100, 28, 128",
            ),
            Adapter(
                name="linear layer and cross entropy",
                path=f"{FOLDER}/linear_softmax_cross_entropy_loss/pallas_mosaic_tpu_kernel.py",
                style="pl.kernel, emit_pipeline",
                load=cross_entropy,
                reference=loss_reference,
                args=lambda: (
                    array(1024, 128),
                    np.arange(1024, dtype=np.int32) % 500,
                    array(128, 512),
                ),
                arrays="f32[1024,128], f32[128,512]",
            ),
            Adapter(
                name="ragged gather, SparseCores",
                path=f"{FOLDER}/ragged_gather/pallas_mosaic_tpu_kernel.py",
                style="pl.kernel, manual copies",
                load=ragged_gather,
                reference=lambda x, indices, start, end: x[indices],
                args=gather_arguments,
                arrays="1,024 of 64 rows of f32[128]",
                chip="v6e",
                sparse_core=True,
            ),
        ),
    ),
)
