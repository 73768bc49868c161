"""Elementwise kernels on GPUs from Hopper on, by Mosaic GPU: what the reference of each elementwise op does.

Cost   bytes size * (sum of the itemsizes of all operands): every element is read once, or written once
SMEM   none
Regs   of a thread ``elements`` / 128 for each operand

An array of any shape is seen as a vector. A warpgroup takes ``elements`` of it, straight from memory into registers,
each thread 16 bytes at a time and neighbours side by side; nothing is read twice, so nothing is gained by a stop in
shared memory. Several such blocks share an SM, and hide the latency of one another.
"""

import dataclasses
from collections.abc import Callable

import jax
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from course_lib.arrays import Array, Num
from course_lib.kernels.common import chip

_THREADS = 128


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Elements that a block of the grid takes, a multiple of 128. They never change the result."""

    elements: int = 2048

    def __post_init__(self):
        if self.elements < _THREADS or self.elements % _THREADS:
            raise ValueError(f"{self}: elements must be a multiple of {_THREADS}.")


def blocks_for(size: int) -> Blocks:
    """The most elements, up to 2,048, that divide ``size``, a multiple of 128."""
    return Blocks(elements=next(n for n in (2048, 1024, 512, 256, _THREADS) if size % n == 0))


def unfit(*operands: Array) -> str:
    """Why this kernel cannot take them: "" where it can."""
    if operands[0].size % _THREADS:
        return f"it takes a multiple of {_THREADS} elements, and x has {operands[0].size:,}"
    return ""


def on_gpu(*operands: Array, compute: Callable, dtype, name: str) -> Array:
    """``pointwise`` for the GPU traced for. Raises ``chip.NoKernel`` where this kernel cannot do it."""
    if why := unfit(*operands):
        raise chip.NoKernel(why)
    return pointwise(compute, *operands, dtype=dtype, name=name)


def pointwise(
    compute: Callable[..., Num[Array, " elements"]],
    *operands: Num[Array, "*shape"],
    dtype=None,
    name: str = "pointwise",
    blocks: Blocks | None = None,
    interpret: plgpu.InterpretGPUParams | None = None,
) -> Num[Array, "*shape"]:
    """``compute`` of the elements of operands of one shape, as ``dtype`` (None: that of the first)."""
    x = operands[0]
    elements = (blocks or blocks_for(x.size)).elements

    def kernel(*refs):
        here = pl.ds(lax.axis_index("i") * elements, elements)
        refs[-1][here] = compute(*(ref[here] for ref in refs[:-1])).astype(refs[-1].dtype)

    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((x.size,), dtype or x.dtype),
        grid=(x.size // elements,),
        grid_names=("i",),
        interpret=interpret,
        kernel_name=name,
    )(*(operand.reshape(-1) for operand in operands)).reshape(x.shape)
