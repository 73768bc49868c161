"""Names that JAX has removed, for kernels that were written before: what they meant, put back under the old name."""

import jax
import jax.numpy as jnp
from jax._src import dtypes
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def put_back() -> None:
    """Define ``pltpu.ANY``, ``pltpu.repeat``, ``pl.dot``, ``pl.load``, ``pl.store`` and the width of a dtype."""
    pltpu.ANY = pl.ANY
    pltpu.repeat = _repeat
    pl.dot = _dot
    pl.load = _load
    pl.store = _store
    dtypes.bit_width = dtypes.itemsize_bits


def _repeat(x: jax.Array, repeats: int, axis: int) -> jax.Array:
    """Put ``repeats`` copies of x behind one another along ``axis``."""
    return jnp.concatenate([x] * repeats, axis=axis)


def _dot(x: jax.Array, y: jax.Array, precision=None) -> jax.Array:
    return jnp.dot(x, y, precision=precision, preferred_element_type=jnp.float32)


def _load(ref, idx, mask=None) -> jax.Array:
    return pltpu.load(ref.at[idx], mask=mask)


def _store(ref, idx, val: jax.Array, mask=None) -> None:
    pltpu.store(ref.at[idx], val, mask=mask)
