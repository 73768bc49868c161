"""The arrays of the exercises on SparseCores, and a demand that they share."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import chips, judges


def rows(seed: int, *shape: int) -> jax.Array:
    """Return values that are multiples of 1/8, so that sums of many are exact."""
    return jnp.asarray(np.random.default_rng(seed).integers(-64, 65, shape) / 8, jnp.float32)


def indices(seed: int, count: int, size: int) -> jax.Array:
    """Return ``size`` indices below ``count``, many of them several times."""
    return jnp.asarray(np.random.default_rng(seed).integers(0, count, size), jnp.int32)


def all_work(case: Callable[[], tuple], chip: str) -> Callable:
    """Return a demand: with the arguments of ``case``, every vector subcore of ``chip`` moves something."""

    def idle(fn: Callable) -> tuple[str, str] | None:
        cores = chips.sparse_cores(chip)
        busy, there = len(judges.sparse_core_traffic(fn, *case(), chip=chip).subcores), cores.cores * cores.subcores
        if busy == there:
            return None
        return (
            f"The values are right, but only {busy} of the {there} vector subcores of a {chip} copy anything from or "
            "to HBM.",
            "divide the work by both axes of the mesh, so that every subcore of every SparseCore has a share.",
        )

    return idle
