"""Lists of blocks for the exercises of lesson 12, and what block-sparse products return."""

import jax
import jax.numpy as jnp
import numpy as np

SIDE = 128  # of a block


def int32(*values: int) -> jax.Array:
    return jnp.array(values, jnp.int32)


def drawn(count: int, side: tuple[int, int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return block rows and block columns of ``count`` different blocks of a matrix of ``side`` blocks, row by row."""
    places = np.sort(np.random.default_rng(seed).choice(side[0] * side[1], count, replace=False))
    return places // side[1], places % side[1]


def bfloat16(seed: int, *shape: int) -> jax.Array:
    """Return eighths from -1 to 1, exact in bfloat16, the same at every call."""
    values = np.random.default_rng(seed).integers(-8, 9, shape) / 8
    return jnp.array(values, jnp.bfloat16)


def block_product(values, rows, cols, b, count: int, *, turned: bool = False):
    """Return A @ b, or A.T @ b if ``turned``, with ``count`` rows of blocks; blocks at one place add up."""
    a = values.astype(jnp.float32)
    to, of = (cols, rows) if turned else (rows, cols)
    panels = b.astype(jnp.float32).reshape(-1, SIDE, b.shape[1])[of]
    products = jnp.einsum("zki,zkn->zin" if turned else "zik,zkn->zin", a, panels, precision="highest")
    return jax.ops.segment_sum(products, to, count).reshape(-1, b.shape[1]).astype(b.dtype)
