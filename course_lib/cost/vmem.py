"""The VMEM that a kernel needs, buffer by buffer, before it is compiled, and the largest block that still fits.

The compiler adds what it needs itself: slots for spilled registers, and temporaries. Its own table is in the Report of
``compiler.compile_tpu``.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from course_lib import chips, grid

WINDOW = 1024  # bytes: an operand's windows take a multiple of this (libtpu 0.0.48); scratch does not


@dataclasses.dataclass(frozen=True, kw_only=True)
class Allocation:
    """One piece of VMEM, counted here or listed by the compiler; ``bytes`` is the total of its ``buffers``."""

    op: str  # the kernel it belongs to; in the compiler's list possibly a fusion
    bytes: int
    purpose: str  # "input window", "output window" or "scratch"; the compiler also has "spill slots" and "other"
    name: str = ""  # the ref it holds; "" if the compiler does not say
    buffers: int = 1  # 2: double buffered, so that one is filled while the other is read
    shape: tuple[int, ...] | None = None  # of one buffer; shape, dtype and why are set only on pieces counted here
    dtype: np.dtype | None = None
    why: str = ""  # why there are this many buffers
    unit: int = 1  # bytes that the total is rounded up to


def vmem(walk: grid.Walk) -> list[Allocation]:
    """Return one row per ref in VMEM, in the order in which kernels receive them, then what their bodies allocate."""
    return [piece for call in walk.calls for piece in _pieces(call)]


def vmem_bytes(walk: grid.Walk) -> int:
    """Return the VMEM of the kernel that needs most; kernels run one after another and share it."""
    return max((sum(b.bytes for b in _pieces(call)) for call in walk.calls), default=0)


def padded_shape(shape: Sequence[int], dtype=np.float32) -> tuple[int, ...]:
    """Return the shape that an array takes in VMEM, with its padding.

    Lanes are padded to a multiple of 128; sublanes to a power of two up to 8, then to a multiple of 8. There are at
    least as many rows as a word of 4 bytes holds, 2 of bf16, 4 of int8 and 8 of int4; a vector is padded to 128 words.
    This is how libtpu 0.0.48 and 0.0.50 allocate windows and scratch for a v5e (a test asks them).
    """
    *rest, lanes = shape or (1,)
    words = grid.rows_in_a_word(held_as(dtype))
    if not rest:
        return (_round_up(lanes, 128 * words),)
    rows = _round_up(rest[-1], 8) if rest[-1] > 4 else max(words, 1 << (rest[-1] - 1).bit_length())
    return (*rest[:-1], rows, _round_up(lanes, 128))


def padded_bytes(shape: Sequence[int], dtype) -> int:
    """Return the bytes of an array in VMEM, padding included."""
    return math.prod(padded_shape(shape, dtype)) * grid.bits(held_as(dtype)) // 8


def held_as(dtype) -> np.dtype:
    """Return the dtype that an array has in VMEM: its own, but int32 for bool, which Pallas passes on as 4 bytes."""
    return np.dtype(np.int32) if np.dtype(dtype) == np.bool_ else np.dtype(dtype)


def legal_sizes(
    length: int, *, axis: int, rank: int, dtype=np.float32, even: bool = True, chip: str = "v5e"
) -> list[int]:
    """Return the block sizes that the TPU accepts along one axis of an array, ascending and always with ``length``.

    ``axis`` counts from the front of an array with ``rank`` axes. The last axis of a block is a multiple of 128, the
    one before it a multiple of 8, or of 32 for one-byte elements and 64 for half a byte (libtpu 0.0.48 refuses others;
    bool, held as int32, may have 8). The only axis of a vector is a multiple of 1024, or a power of two of at least 128
    words of 4 bytes. Other axes are free. (Rules without a source are checks in jax/_src/pallas/mosaic/lowering.py.)
    ``even`` keeps only sizes that divide the length, so that no block is ragged. Raises ValueError for a length below
    1, or an axis that does not exist.
    """
    if length < 1:
        raise ValueError(f"length={length} is not the length of an axis: it is 1 or more.")
    if not -rank <= axis < rank:
        raise ValueError(f"axis={axis} is not an axis of an array of rank {rank}: say {-rank} to {rank - 1}.")
    target = chips.chip(chip)
    behind = rank - 1 - axis % rank
    if rank == 1:
        least = target.lanes * grid.rows_in_a_word(held_as(dtype))
        chunk = target.lanes * target.sublanes
        sizes = {n for n in range(chunk, length, chunk)} | {1 << p for p in range(40) if least <= 1 << p < length}
    else:
        words = grid.rows_in_a_word(held_as(dtype))
        rows = target.sublanes * (words if words >= 4 else 1)
        step = {0: target.lanes, 1: rows}.get(behind, 1)
        sizes = set(range(step, length, step))
    return sorted(n for n in sizes | {length} if not even or length % n == 0)


def is_legal_size(size: int, length: int, *, axis: int, rank: int, dtype=np.float32, chip: str = "v5e") -> bool:
    """Whether the TPU accepts a block of ``size`` along an axis of ``length``; it may be larger than the axis.

    The rule and the other arguments are those of ``legal_sizes``.
    """
    return size == length or size in legal_sizes(size + 1, axis=axis, rank=rank, dtype=dtype, even=False, chip=chip)


def largest_block(needs: Callable[[int], int], sizes: Iterable[int], limit: int) -> int | None:
    """Return the largest of ``sizes`` whose VMEM, ``needs(size)`` bytes, is at most ``limit`` bytes; None if none is.

    ``needs`` must not decrease as the block grows. It may measure a whole kernel:

        largest_block(lambda bk: vmem_bytes(grid.walk(partial(matmul, bk=bk), x, y)), legal_sizes(...), 16 * 2**20)
    """
    sizes = sorted(sizes)
    fits, too_large = -1, len(sizes)
    while too_large - fits > 1:
        middle = (fits + too_large) // 2
        if needs(sizes[middle]) <= limit:
            fits = middle
        else:
            too_large = middle
    return sizes[fits] if fits >= 0 else None


def _pieces(call: grid.Call) -> list[Allocation]:
    rows = [
        _piece(
            call, o.name, o.block_shape, o.dtype, _why(o), buffers=o.buffers, purpose=f"{o.role} window", unit=WINDOW
        )
        for o in call.operands
        if o.memory_space == "vmem"
    ]
    rows += [
        _piece(call, s.name, s.shape, s.dtype, "scratch: kept from one grid step to the next")
        for s in call.scratch
        if s.memory_space == "vmem"
    ]
    return rows + [_scoped(call, s) for s in grid.scoped_scratch(call) if s.memory_space == "vmem"]


def _scoped(call: grid.Call, scratch: grid.Scratch) -> Allocation:
    """Describe scratch that the body allocates. A buffer that is copied in slots is named after the array it holds."""
    for copy in grid.body(call).copies if grid.has_copies_by_hand(call) else ():
        held = {copy.target: (copy.source, "input window"), copy.source: (copy.target, "output window")}.get(
            scratch.name
        )
        if held is not None and scratch.shape[1:] == copy.shape:
            (name, purpose), buffers = held, scratch.shape[0]
            why = f"{buffers} buffers of the pipeline in the kernel's body"
            return _piece(call, name, copy.shape, scratch.dtype, why, buffers=buffers, purpose=purpose)
    return _piece(call, scratch.name, scratch.shape, scratch.dtype, "allocated by the kernel's body")


def _why(operand: grid.Operand) -> str:
    if operand.buffers > 1:
        fills = "the next block is fetched" if operand.role == "input" else "the last block is written back"
        return f"{operand.buffers} buffers: {fills} while one is worked on"
    if len(operand.indices) == 1:
        return "1 buffer: there is only one step, so there is nothing to prefetch"
    if operand.block_shape == operand.shape:
        return "1 buffer: the block is the whole array, so it stays"
    if not operand.changes[1:].any():
        return "1 buffer: its index is the same at every step, so the block stays"
    return "1 buffer, as requested with pl.Buffered(1): the core waits for its copies"


def _piece(
    call: grid.Call, name: str, shape, dtype, why: str, *, buffers: int = 1, purpose: str = "scratch", unit: int = 1
) -> Allocation:
    size = _round_up(padded_bytes(shape, dtype) * buffers, unit)
    of_one = {"shape": shape, "dtype": dtype, "why": why}
    return Allocation(op=call.name, name=name, buffers=buffers, bytes=size, purpose=purpose, unit=unit, **of_one)


def _round_up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple
