"""An index map that copies the blocks of a band, each once."""

import jax
import jax.numpy as jnp

from course_lib import cost, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments


def _square() -> list[tuple]:
    return arguments(("x: f32[N,N]",), ({"N": 512}, {"N": 384}, {"N": 128}))


def _band_sums(x):
    place = jnp.arange(x.shape[0])
    near = jnp.abs(place[:, None] - place[None, :]) <= 128
    return jnp.where(near, x, 0).sum(axis=0, keepdims=True)


def _band_once(x) -> int:
    """Bytes of the blocks that touch the band, each once, and of the sums."""
    blocks = x.shape[0] // 128
    touched = sum(abs(i - j) <= 1 for i in range(blocks) for j in range(blocks))
    return touched * 128 * 128 * 4 + cost.stored_bytes(jax.ShapeDtypeStruct((1, x.shape[0]), x.dtype))


EXERCISE = Exercise(
    id="08.5",
    title="Configure only: a band",
    kind="configure",
    defines="band_map",
    judged="band_sums",
    cases=_square,
    reference=_band_sums,
    budget=judges.Budget(hbm_bytes=_band_once),
    hints=(
        "Where the kernel works, the map must say (i, j). Elsewhere it may say anything: which block costs nothing?",
        "One that is there already, or that is needed next. Above the band the next one needed is j - 1; below it "
        "the last "
        "one was j + 1.",
        "jnp.clip(i, low, high) keeps i between two numbers.",
    ),
    points=2,
)
