"""A fused layer, ported from a TPU to a Hopper GPU."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_17 import hopper


def _values(seed: int, *shape: int):
    return jnp.asarray(np.random.default_rng(seed).integers(-8, 9, shape) / 8, jnp.bfloat16)


def _case(m: int, k: int, n: int) -> tuple:
    return _values(m, m, k), _values(k, k, n), _values(n, n)


def relu_layer(x, w, b):
    """Return relu(x @ w + b), rounded once."""
    sums = jnp.dot(x, w, preferred_element_type=jnp.float32) + b.astype(jnp.float32)
    return jnp.maximum(sums, 0).astype(x.dtype)


def by_wgmma(fn: Callable) -> tuple[str, str] | None:
    """Report a kernel that multiplies in another way."""
    if not hopper.count(EXERCISE, fn, "wgmma_ref"):
        return (
            "The values are right, but nothing is multiplied by wgmma.",
            "write it with plgpu.kernel and plgpu.wgmma.",
        )
    return None


EXERCISE = Exercise(
    id="17.7",
    title="Port a layer to Hopper",
    kind="write",
    defines="layer",
    cases=lambda: [_case(128, 128, 384), _case(64, 192, 128)],
    reference=relu_layer,
    engine="gpu",
    chips=("h100",),
    also=(by_wgmma,),
    hints=(
        "Each block of the grid (M // 64, N // 128) does what the TPU's steps (i, j, 0), (i, j, 1), ... do. Which of "
        "its lines belong in a loop, and which after it?",
        "In the loop: two TMA copies to shared memory, a wait for both, wgmma, and a wait for wgmma, because the next "
        "copies overwrite what it reads. pl.run_scoped with plgpu.ACC((64, 128), jnp.float32) gives the accumulator.",
        "The barrier needs num_arrivals=2. After the loop return acc_ref[...], add bias_of(b_gmem, columns, shape) "
        "with the accumulator's shape, and take the maximum with 0. Store that in shared memory as bfloat16, and call "
        "commit_smem, copy_smem_to_gmem and wait_smem_to_gmem(0).",
    ),
    points=4,
)
