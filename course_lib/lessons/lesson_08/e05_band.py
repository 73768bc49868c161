"""An index map that copies the blocks of a band, each once."""

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import cost, grid, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.unfit import Unfit


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


def _copies_the_band_alone(band_sums):
    """``band_sums`` as it is. Raises Unfit where a step without work asks for a block that is not the band's next."""
    try:
        (call,) = grid.walk(band_sums, _square()[0][0]).calls
        steps, blocks = list(np.ndindex(*call.grid)), [tuple(map(int, at)) for at in call.inputs[0].indices]
    except Exception:  # the judges say better what is wrong with it
        return band_sums
    if any(block != (i, j) for (j, i), block in zip(steps, blocks, strict=True) if abs(i - j) <= 1):
        return band_sums
    for n, ((j, i), block) in enumerate(zip(steps, blocks, strict=True)):
        wanted = [at for at, (column, row) in zip(blocks[n:], steps[n:], strict=True) if abs(row - column) <= 1][:1]
        if abs(i - j) > 1 and block not in blocks[max(0, n - 1) : n] + wanted:
            raise Unfit(
                f"Step ({j}, {i}) has nothing to do, and the map asks for block {block}, which is copied for nothing.",
                f"before it there was {blocks[n - 1]}, and the next one needed is {wanted[0]}: either costs nothing."
                if wanted
                else f"before it there was {blocks[n - 1]}: to stay costs nothing.",
                headline="a block is copied that nobody reads.",
            )
    return band_sums


EXERCISE = Exercise(
    id="08.5",
    title="Configure only: a band",
    kind="configure",
    defines="band_map",
    judged="band_sums",
    cases=_square,
    reference=_band_sums,
    build=_copies_the_band_alone,
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
