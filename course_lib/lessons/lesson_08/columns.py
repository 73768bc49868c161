"""Columns whose exponentials overflow or vanish under any fixed offset, so a running maximum is needed."""

import jax.numpy as jnp

from course_lib.checks.inputs import arguments

# Rise per block of 32 rows, up and down: small, so that a wrong factor shows, and more than exp can hold.
_RISES = (5, 100, -5, -100, 5, 100)
_FAR_DOWN = 700  # offset of those that rise by 100: they lie below any initial value except -inf


def columns(sizes: tuple[dict[str, int], ...]) -> list[tuple]:
    """Return x: float32[M, N] at each of three sizes, position-coded and random; every value is negative."""
    cases = arguments(("x: f32[M,N]",), sizes, (), (-110, -90))
    return [(_ramp(x, rise),) for (x,), rise in zip(cases, _RISES, strict=True)]


def _ramp(x, rise):
    blocks = jnp.arange(x.shape[0])[:, None] // 32
    return x + rise * blocks - (_FAR_DOWN if rise == max(_RISES) else 0)
