"""Columns whose exponentials no fixed number makes fit float32: a maximum must be carried."""

import jax.numpy as jnp

from course_lib.checks.inputs import arguments

# From one block of 32 rows to the next: little, so that a wrong factor shows, and more than exp can hold. Up and down.
_RISES = (5, 100, -5, -100, 5, 100)
_FAR_DOWN = 700  # of those that rise by 100: below what is begun with if it is not -inf


def columns(sizes: tuple[dict[str, int], ...]) -> list[tuple]:
    """x: float32[M, N] at each of three sizes, position-coded and by chance; every number is below 0."""
    cases = arguments(("x: f32[M,N]",), sizes, (), (-110, -90))
    return [(_ramp(x, rise),) for (x,), rise in zip(cases, _RISES, strict=True)]


def _ramp(x, rise):
    blocks = jnp.arange(x.shape[0])[:, None] // 32
    return x + rise * blocks - (_FAR_DOWN if rise == max(_RISES) else 0)
