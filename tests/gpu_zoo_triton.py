"""Kernels by ``pl.pallas_call``, which goes through Triton on a GPU: those of gpu_zoo.py, right and with a bug each."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

BLOCK = 128
RNG = np.random.default_rng(0)
RAGGED, ROW = (RNG.normal(size=size).astype(np.float32) for size in (1000, 100))


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def by_triton(x, *, mask=True, above=0):
    """On Triton's road, in blocks of 128 of which the last reaches past x; a mask may let one number too many in."""

    def kernel(x_ref, o_ref):
        if not mask:
            o_ref[...] = x_ref[...] * 2
            return
        here = pl.program_id(0) * BLOCK + lax.broadcasted_iota(jnp.int32, (BLOCK,), 0) < x.size + above
        plt.store(o_ref, plt.load(x_ref, mask=here, other=0.0) * 2, mask=here)

    spec = pl.BlockSpec((BLOCK,), lambda i: (i,))
    grid = (pl.cdiv(x.size, BLOCK),)
    return pl.pallas_call(kernel, out_shape=like(x), grid=grid, in_specs=[spec], out_specs=spec)(x)


def row_by_triton(x, *, mask):
    """The softmax of a row of 100 numbers, in a block of 128."""

    def kernel(x_ref, o_ref):
        here = lax.broadcasted_iota(jnp.int32, (BLOCK,), 0) < x.size
        row = plt.load(x_ref, mask=here, other=-jnp.inf) if mask else x_ref[...]
        powers = jnp.exp(row - jnp.max(row))
        plt.store(o_ref, powers / jnp.sum(powers), mask=here)

    spec = pl.BlockSpec((BLOCK,), lambda i: (0,))
    return pl.pallas_call(kernel, out_shape=like(x), grid=(1,), in_specs=[spec], out_specs=spec)(x)


def summed_over_the_grid_by_triton(x):
    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def _zero():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((BLOCK,), x.dtype),
        grid=(x.size // BLOCK,),
        in_specs=[pl.BlockSpec((BLOCK,), lambda i: (i,))],
        out_specs=pl.BlockSpec((BLOCK,), lambda i: (0,)),
    )(x)
