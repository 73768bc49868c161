"""RMSNorm, LayerNorm and softmax on GPUs from Hopper on, by Mosaic GPU: what their references do.

Cost   bytes 2 * M * N * itemsize: each row read once and written once; weight and bias come from the L2 cache
SMEM   a few words, through which the four warps add up what each has summed
Regs   of a thread about N / 128 for its part of the row in f32, and as many for what becomes of it

A warpgroup, 128 threads, computes ``rows`` rows one after another. A row stays in its registers from its only load to
its only store, so statistics that need it twice cost no traffic. Several such blocks share an SM: while one waits for
its row, the others compute. Neither TMA nor wgmma is needed.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from course_lib.arrays import Array, Float, Float32
from course_lib.kernels.common import chip

_THREADS = 128
_LONGEST = 8192  # of a row: 64 numbers in each thread; twice as many, and LayerNorm spills registers


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Rows that a block of the grid computes, one after another. They change the speed, not the result."""

    rows: int = 1

    def __post_init__(self):
        if self.rows < 1:
            raise ValueError(f"{self}: rows must be 1 or more.")


def blocks_for(columns: int) -> Blocks:
    """Return one row, which on an H100 was the fastest; of rows shorter than 1,024 as many as hold 2,048 numbers."""
    return Blocks(rows=1 if columns >= 1024 else 2048 // columns)


def unfit(x: Array, *vectors: Array) -> str:
    """Return why these kernels cannot take the operands; "" if they can."""
    if x.dtype not in (jnp.float32, jnp.bfloat16):
        return f"it takes float32 and bfloat16, and x is {x.dtype}"
    if x.shape[-1] % _THREADS or x.shape[-1] > _LONGEST:
        return f"it takes rows of a multiple of {_THREADS} numbers up to {_LONGEST:,}, and x has shape {x.shape}"
    return ""


def rms_norm(
    x: Float[Array, "*shape N"], weight: Float[Array, " N"], *, eps: float = 1e-6, **how
) -> Float[Array, "*shape N"]:
    """Return ``norm.rms_norm``; ``how``: blocks and interpret, as in ``by_rows``."""

    def normed(x, weight):
        return x * lax.rsqrt(jnp.sum(x * x) / x.size + eps) * weight

    return by_rows(normed, x, weight, name="rms_norm", **how)


def layer_norm(
    x: Float[Array, "*shape N"], weight: Float[Array, " N"], bias: Float[Array, " N"], *, eps: float = 1e-6, **how
) -> Float[Array, "*shape N"]:
    """Return ``norm.layer_norm``; ``how`` as in ``by_rows``."""

    def normed(x, weight, bias):
        centred = x - jnp.sum(x) / x.size
        return centred * lax.rsqrt(jnp.sum(centred * centred) / x.size + eps) * weight + bias

    return by_rows(normed, x, weight, bias, name="layer_norm", **how)


def softmax(x: Float[Array, "*shape N"], **how) -> Float[Array, "*shape N"]:
    """Return ``softmax.softmax``; ``how`` as in ``by_rows``."""

    def shares(x):
        powers = jnp.exp(x - jnp.max(x))
        return powers * (1 / jnp.sum(powers))

    return by_rows(shares, x, name="softmax", **how)


def on_gpu(x: Array, *vectors: Array, op: Callable, **how) -> Array:
    """Run ``op``, one of the three, on the GPU traced for. Raises ``chip.NoKernel`` if it cannot take the operands."""
    if why := unfit(x, *vectors):
        raise chip.NoKernel(why)
    return op(x, *vectors, **how)


def by_rows(
    compute: Callable[..., Float32[Array, " N"]],
    x: Float[Array, "*shape N"],
    *vectors: Float[Array, " N"],
    name: str,
    blocks: Blocks | None = None,
    interpret: plgpu.InterpretGPUParams | None = None,
) -> Float[Array, "*shape N"]:
    """Return ``compute(row, *vectors)`` for each row, computed in f32 and rounded once to the dtype of x."""
    columns = x.shape[-1]
    rows = (blocks or blocks_for(columns)).rows
    flat = x.reshape(-1, columns)

    def kernel(x_gmem, *refs):
        vectors_gmem, o_gmem = refs[:-1], refs[-1]
        first = lax.axis_index("i") * rows

        @pl.loop(first, lax.min(first + rows, flat.shape[0]))
        def _row(row):
            beside = (vector[...].astype(jnp.float32) for vector in vectors_gmem)
            o_gmem[row] = compute(x_gmem[row].astype(jnp.float32), *beside).astype(o_gmem.dtype)

    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct(flat.shape, x.dtype),
        grid=(pl.cdiv(flat.shape[0], rows),),
        grid_names=("i",),
        interpret=interpret,
        kernel_name=name,
    )(flat, *vectors).reshape(x.shape)
