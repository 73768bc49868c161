"""A fused layer, ported from a TPU to a Hopper GPU."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_17 import hopper

BLOCK, COLUMNS = 64, 128  # of K, and of the columns of a block of the result


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


def advise(verdict: judges.Verdict) -> str:
    """Return what multiplies on a Hopper if a ref is multiplied in another way: its value would not help."""
    if "did arithmetic on a Ref" not in verdict.message:
        return ""
    return "plgpu.wgmma multiplies here, and takes refs in shared memory as they are. jnp.dot is not for Mosaic GPU."


def _layer_of(x, w, b, *, of_k=slice(None), bias=lambda b: b):
    """Return the layer with part of the sum over K, and with another bias."""
    return relu_layer(x[:, of_k], w[of_k], bias(b))


def _relu_first(x, w, b):
    sums = jnp.dot(x, w, preferred_element_type=jnp.float32)
    return (jnp.maximum(sums, 0) + b.astype(jnp.float32)).astype(x.dtype)


def _first_block_again(x, w, b):
    """Return the layer if every step of K multiplies the first blocks."""
    sums = (x.shape[1] // BLOCK) * jnp.dot(x[:, :BLOCK], w[:BLOCK], preferred_element_type=jnp.float32)
    return jnp.maximum(sums + b.astype(jnp.float32), 0).astype(x.dtype)


def _by_steps(x, w, b):
    """Return the layer if every step of K adds the bias."""
    sums = jnp.dot(x, w, preferred_element_type=jnp.float32)
    return jnp.maximum(sums + x.shape[1] // BLOCK * b.astype(jnp.float32), 0).astype(x.dtype)


_ALL_OF_K = f"each block sums over all of K, {BLOCK} at a time: compare the range of the loop with K."
SLIPS = (
    judges.Slip(
        means="relu comes before the bias: this is relu(x @ w) + b", value=_relu_first,
        next="layer_tpu says in which order the two follow the sum.",
    ),
    judges.Slip(
        means=f"every block of the grid adds the bias of columns 0 to {COLUMNS - 1}",
        value=lambda x, w, b: _layer_of(x, w, b, bias=lambda b: jnp.tile(b[:COLUMNS], len(b) // COLUMNS)),
        next="which columns of the result does a block compute, and which elements of b belong to them?",
    ),
    judges.Slip(
        means=f"only the first {BLOCK} elements of K are multiplied", next=_ALL_OF_K,
        value=lambda x, w, b: _layer_of(x, w, b, of_k=slice(BLOCK)),
    ),
    judges.Slip(
        means=f"the last {BLOCK} elements of K are left out", next=_ALL_OF_K,
        value=lambda x, w, b: _layer_of(x, w, b, of_k=slice(-BLOCK)),
    ),
    judges.Slip(
        means=f"only the last {BLOCK} elements of K are in the sum",
        value=lambda x, w, b: _layer_of(x, w, b, of_k=slice(-BLOCK, None)),
        next="one accumulator has to live through the whole loop: where is yours made, and what does it start from?",
    ),
    judges.Slip(
        means=f"every step of the loop multiplies the first {BLOCK} elements of K", value=_first_block_again,
        next="let the slices of x and w that are copied move with the step of the loop.",
    ),
    judges.Slip(
        means="the bias is added in every step of the loop", value=_by_steps,
        next="which of layer_tpu's lines run for every k, and which for the last one only?",
    ),
)  # fmt: skip


EXERCISE = Exercise(
    id="17.7",
    title="Port a layer to Hopper",
    kind="write",
    defines="layer",
    cases=lambda: [_case(128, 192, 384), _case(64, 128, 128)],
    reference=relu_layer,
    engine="gpu",
    chips=("h100",),
    also=(by_wgmma,),
    advise=advise,
    slips=SLIPS,
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
