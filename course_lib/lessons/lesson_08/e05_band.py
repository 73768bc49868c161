"""An index map that copies each block of a band exactly once."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

from course_lib import cost, grid, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.unfit import Unfit


def _square() -> list[tuple]:
    return arguments(("x: f32[N,N]",), ({"N": 512}, {"N": 640}, {"N": 128}))


def _band_sums(x):
    place = jnp.arange(x.shape[0])
    near = jnp.abs(place[:, None] - place[None, :]) <= 128
    return jnp.where(near, x, 0).sum(axis=0, keepdims=True)


def _band_once(x) -> int:
    """Return the bytes of the blocks that touch the band, each copied once, and of the sums."""
    blocks = x.shape[0] // 128
    touched = sum(abs(i - j) <= 1 for i in range(blocks) for j in range(blocks))
    return touched * 128 * 128 * 4 + cost.stored_bytes(jax.ShapeDtypeStruct((1, x.shape[0]), x.dtype))


def with_map(band_map):
    """Return the sums with the learner's index map. Raise Unfit if it copies a block that nobody reads."""
    if band_map(0, 0) is None:
        return lambda x: None

    def band_sums(x):
        n = x.shape[0]
        return pl.pallas_call(
            _band_kernel,
            out_shape=jax.ShapeDtypeStruct((1, n), x.dtype),
            grid=(n // 128, n // 128),
            in_specs=[pl.BlockSpec((128, 128), band_map)],
            out_specs=pl.BlockSpec((1, 128), lambda j, i: (0, j)),
        )(x)

    _copies_the_band_alone(band_sums)
    return band_sums


def _band_kernel(x_ref, o_ref):
    """Run the kernel that the exercise gives."""
    j, i = pl.program_id(0), pl.program_id(1)

    @pl.when(i == 0)
    def zero():
        o_ref[...] = jnp.zeros_like(o_ref)

    @pl.when(jnp.abs(i - j) <= 1)
    def add():
        row = 128 * i + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 0)
        column = 128 * j + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
        near = jnp.where(jnp.abs(row - column) <= 128, x_ref[...], 0)
        o_ref[...] += jnp.sum(near, axis=0, keepdims=True)


def _copies_the_band_alone(band_sums) -> None:
    """Raise Unfit if a step without work copies a block that is neither the previous nor the next one needed."""
    try:
        (call,) = grid.walk(band_sums, _square()[0][0]).calls
        steps, blocks = list(np.ndindex(*call.grid)), [tuple(map(int, at)) for at in call.inputs[0].indices]
    except Exception:  # the judges explain better what is wrong with it
        return
    works = [abs(i - j) <= 1 for j, i in steps]
    if any(work and block != (i, j) for (j, i), block, work in zip(steps, blocks, works, strict=True)):
        return
    for n, ((j, i), block) in enumerate(zip(steps, blocks, strict=True)):
        coming = [blocks[later] for later in range(n, len(steps)) if works[later]][:1]
        if not works[n] and block not in (blocks[n - 1], *coming):
            costs_nothing = f"return block {blocks[n - 1]}, which is already in VMEM"
            costs_nothing += f", or block {coming[0]}, which is needed next" if coming else ""
            raise Unfit(
                f"Step ({j}, {i}) has no work, but the map returns block {block}, "
                "so that block is copied and never read.",
                f"{costs_nothing}.",
                headline="the map copies a block that no step reads.",
            )


EXERCISE = Exercise(
    id="08.5",
    title="Configure only: a band",
    kind="configure",
    defines="band_map",
    cases=_square,
    reference=_band_sums,
    build=with_map,
    budget=judges.Budget(hbm_bytes=_band_once),
    hints=(
        "Where the kernel works, the map must return (i, j). Elsewhere it may return anything, so which block costs "
        "no copy?",
        "A block costs no copy if it is already in VMEM, and no extra one if it is needed next. Above the band the "
        "next block needed is in row j - 1; below the band the last one was in row j + 1.",
        "jnp.clip(i, low, high) keeps i between two bounds, which here depend on j.",
    ),
    points=2,
)
