"""A change of one value of a reference, which a slip would make."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Edit(NamedTuple):
    """``of`` takes all values before this one, and its own, and returns another in the place of number ``value``."""

    value: int
    means: str
    next: str
    of: Callable[[dict], jax.Array]


def shaped(value: jax.Array, like: jax.Array) -> jax.Array:
    """Return ``value`` in the shape and dtype of the value that it replaces."""
    return jnp.broadcast_to(value, like.shape).astype(like.dtype)
