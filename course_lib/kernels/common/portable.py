"""TPU kernel bodies on Ampere and Ada GPUs, by ``pl.pallas_call`` and Triton, with masked edges.

A body runs there unchanged if it carries nothing from one grid step to another, because the steps run at the same time
and in any order, and if it needs no scratch. It reads and writes through ``Block``.

Triton's arrays have a power of two of elements, so the last block of an array nearly always reaches past an edge. A TPU
reads garbage there and drops what is written; on a GPU it is another array's memory. So a block is read and written
under a mask unless its array is a whole number of blocks.

JAX 0.11 has deprecated its Triton backend and will remove it. This file goes then, and ``matmul/triton.py``.
"""

import functools
import math
import operator
from collections.abc import Callable

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from course_lib.arrays import Array, Float, Num, Ref
from course_lib.kernels.common import chip
from course_lib.kernels.common.outputs import out_type

_ELEMENTS = 1024  # of a block of an elementwise kernel: 8 of each of 128 threads, 16 bytes of bf16
_ROW_BLOCK = 2048  # elements of a block of short rows
_LONGEST_ROW = 16384
_A_WARP = 1024  # elements of a block of rows for each warp: 32 in the registers of a thread
_FEWEST_WARPS = 4
_MOST_ELEMENTS = 2**31  # of an array: offsets have 32 bits


class Block:
    """A block of an array that a kernel's body uses like a reference; past the array's edge it reads ``outside``.

    ``inside`` is the mask of the elements in the array, broadcast to the block; None if all of them are.
    """

    def __init__(self, ref: Num[Ref, "*block"], inside: Num[Array, "*block"] | None, outside: float = 0):
        self.ref, self.inside, self.outside, self.written = ref, inside, outside, None
        self.shape, self.dtype = ref.shape, ref.dtype

    def __getitem__(self, _everything) -> Num[Array, "*block"]:
        if self.written is not None:  # by all threads of the block: one that reads it back would have to wait for them
            return self.written
        if self.inside is None:
            return self.ref[...]
        return plt.load(self.ref, mask=self.inside, other=jnp.asarray(self.outside, self.dtype))

    def __setitem__(self, _everything, value: Num[Array, "*block"]) -> None:
        self.written = value
        if self.inside is None:
            self.ref[...] = value
        else:
            plt.store(self.ref, value, mask=self.inside)


def inside(starts: tuple, block: tuple[int, ...], shape: tuple[int, ...]) -> Array | None:
    """Return the mask of the elements inside an array of ``shape``, for a ``block`` that begins at ``starts``.

    None if blocks of this size never reach past the array.
    """
    axes = [axis for axis, (size, length) in enumerate(zip(block, shape, strict=True)) if length % size]
    along = {axis: tuple(size if a == axis else 1 for a, size in enumerate(block)) for axis in axes}
    masks = [starts[axis] + lax.broadcasted_iota(jnp.int32, along[axis], axis) < shape[axis] for axis in axes]
    return functools.reduce(operator.and_, masks) if masks else None


def refuse(*operands: Array) -> None:
    """Raise ``chip.NoKernel`` for operands that no Triton kernel here accepts."""
    if large := [a.shape for a in operands if a.size >= _MOST_ELEMENTS]:
        raise chip.NoKernel(f"it counts elements in 32 bits, and an operand has shape {large[0]}")


def by_elements(
    *operands: Num[Array, "*shape"], kernel: Callable, dtype, name: str, interpret: bool = False
) -> Num[Array, "*shape"]:
    """Run ``kernel(*blocks, o_block)``, an elementwise body, on operands of one shape, viewed as vectors."""
    refuse(*operands)
    x = operands[0]
    block = min(_ELEMENTS, pl.next_power_of_2(x.size))

    def body(*refs):
        mask = inside((pl.program_id(0) * block,), (block,), (x.size,))
        kernel(*(Block(ref, mask) for ref in refs))

    spec = pl.BlockSpec((block,), lambda i: (i,))
    return pl.pallas_call(
        named(body, name),
        out_shape=out_type(x, (x.size,), dtype),
        grid=(pl.cdiv(x.size, block),),
        in_specs=[spec] * len(operands),
        out_specs=spec,
        compiler_params=plt.CompilerParams(num_warps=4, num_stages=1),
        interpret=interpret,
    )(*(operand.reshape(-1) for operand in operands)).reshape(x.shape)


def by_rows(
    *operands: Float[Array, "..."],
    kernel: Callable,
    arrays: int = 1,
    results: int = 1,
    outside: float = 0,
    name: str,
    interpret: bool = False,
) -> Float[Array, "*shape N"] | tuple[Float[Array, "*shape N"], ...]:
    """Run ``kernel(*blocks, *results)``, a body on whole rows of ``arrays`` arrays like x, followed by vectors.

    Raises ``chip.NoKernel`` if a row is too long for the registers of a block.
    """
    refuse(*operands)
    x, columns = operands[0], operands[0].shape[-1]
    if columns > _LONGEST_ROW:
        raise chip.NoKernel(f"it takes rows of up to {_LONGEST_ROW:,} numbers, and x has shape {x.shape}")
    rows, width = math.prod(x.shape[:-1]), pl.next_power_of_2(columns)
    height = min(pl.next_power_of_2(rows), max(1, _ROW_BLOCK // width))

    def body(*refs):
        mask = inside((pl.program_id(0) * height, 0), (height, width), (rows, columns))
        mask_of_vector, vectors = inside((0,), (width,), (columns,)), range(arrays, len(operands))
        kernel(*(Block(ref, mask_of_vector if n in vectors else mask, outside) for n, ref in enumerate(refs)))

    row_block, vector = pl.BlockSpec((height, width), lambda i: (i, 0)), pl.BlockSpec((width,), lambda i: (0,))
    flat = [operand.reshape(rows, columns) for operand in operands[:arrays]]
    outs = pl.pallas_call(
        named(body, name),
        out_shape=[out_type(x, (rows, columns), x.dtype)] * results,
        grid=(pl.cdiv(rows, height),),
        in_specs=[row_block] * arrays + [vector] * (len(operands) - arrays),
        out_specs=[row_block] * results,
        compiler_params=plt.CompilerParams(num_warps=max(_FEWEST_WARPS, height * width // _A_WARP), num_stages=1),
        interpret=interpret,
    )(*flat, *operands[arrays:])
    outs = tuple(out.reshape(x.shape) for out in outs)
    return outs if results > 1 else outs[0]


def named(body: Callable, name: str) -> Callable:
    """Return ``body`` under the kernel's name, because Triton names a kernel after its Python function."""
    body.__name__ = name.replace(" ", "_")
    return body
