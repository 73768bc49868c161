"""What a kernel call is, as plain data: its grid, its operands, and the block of each operand at every step."""

import dataclasses
import itertools

import jax
import jax.extend.core
import numpy as np
from jax.experimental import pallas as pl

from course_lib.grid import tiles


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Operand:
    """One input or output of a kernel, over the whole grid of S steps."""

    name: str  # as the kernel calls its ref
    role: str  # "input", "output", or "prefetch": scalars that the index maps may read, in SMEM from the start
    shape: tuple[int, ...]  # of the whole array
    dtype: np.dtype
    block_shape: tuple[int, ...]  # one entry per array axis; a squeezed axis counts 1
    indices: np.ndarray  # int64[S, rank]: the block index at each step; on an Element axis the element it starts at
    memory_space: str = "vmem"  # "vmem", "smem", or "hbm" for a ref left where it is
    buffers: int = 2  # copies of the block in VMEM: 2, so that one is filled while the other is read
    element: tuple[bool, ...] = ()  # which axes are pl.Element: indexed by element, blocks may overlap
    padding: tuple[tuple[int, int], ...] = ()  # elements of padding before and behind each axis, of an Element
    letters: tuple[str, ...] = ()  # what its index map calls the grid's indices, where it is known
    aliases: str | None = None  # the other operand that lives in the same memory (input_output_aliases)
    by_hand: bool = False  # its copies are made by the kernel's body, of a pipeline say

    @property
    def pipelined(self) -> bool:
        """Whether blocks are copied automatically. A ref left in HBM is copied by the kernel itself, or not at all."""
        return self.memory_space != "hbm"

    @property
    def blocks(self) -> tuple[int, ...]:
        """How many blocks cover the array along each axis, laid side by side."""
        return tuple(pl.cdiv(n, b) for n, b in zip(self.shape, self.block_shape, strict=True))

    @property
    def starts(self) -> np.ndarray:
        """int64[S, rank]: the first element of the block at each step."""
        if not any(self.element):
            return self.indices * np.array(self.block_shape, np.int64)
        scale = [1 if e else b for e, b in zip(self.element, self.block_shape, strict=True)]
        return self.indices * np.array(scale, np.int64) - np.array([before for before, _ in self.padding], np.int64)

    @property
    def changes(self) -> np.ndarray:
        """bool[S]: the block index differs from the step before (True at step 0)."""
        changed = np.ones(len(self.indices), bool)
        changed[1:] = (self.indices[1:] != self.indices[:-1]).any(axis=1)
        return changed

    @property
    def fetched(self) -> np.ndarray:
        """bool[S]: at this step a block of this input is copied from HBM to VMEM (or SMEM)."""
        return self.changes if self.pipelined and self.role != "output" else np.zeros(len(self.indices), bool)

    @property
    def written(self) -> np.ndarray:
        """bool[S]: after this step the block of this output is copied from VMEM back to HBM."""
        if not self.pipelined or self.role != "output":
            return np.zeros(len(self.indices), bool)
        return np.append(self.changes[1:], True)

    def outside(self) -> np.ndarray:
        """int64[n]: the steps whose block lies wholly outside the array."""
        starts = self.starts
        out = (starts + np.array(self.block_shape, np.int64) <= 0) | (starts >= np.array(self.shape, np.int64))
        return np.flatnonzero(out.any(axis=1))

    def unvisited(self) -> list[tuple[int, ...]]:
        """Blocks of the array, laid side by side, that have an element which no step touches; in order."""
        if not any(self.element):
            seen = set(map(tuple, self.indices.tolist()))
            return [b for b in itertools.product(*map(range, self.blocks)) if b not in seen]
        touched = np.zeros(self.shape, bool)
        for start in np.unique(self.starts, axis=0).tolist():
            touched[tuple(slice(max(0, s), max(0, s + b)) for s, b in zip(start, self.block_shape, strict=True))] = True
        return sorted(
            {tuple(i // b for i, b in zip(at, self.block_shape, strict=True)) for at in np.argwhere(~touched).tolist()}
        )

    @property
    def block_bytes(self) -> np.ndarray:
        """int64[S]: bytes that a copy of each step's block moves: the whole tiles of HBM that it lies in (``tiles``).

        What lies in SMEM goes there without padding.
        """
        if self.memory_space == "smem":
            return self.block_payload
        clipped = (
            [not e or any(p) for e, p in zip(self.element, self.padding, strict=True)] if any(self.element) else True
        )
        return tiles.moved_bytes(
            self.shape, self.dtype, self.starts, self.block_shape, by_hand=self.by_hand, clipped=clipped
        )

    @property
    def block_payload(self) -> np.ndarray:
        """int64[S]: bytes of the part of each step's block that lies inside the array (the last may be ragged)."""
        starts = self.starts
        ends = np.minimum(starts + np.array(self.block_shape, np.int64), np.array(self.shape, np.int64))
        return np.maximum(ends - np.maximum(starts, 0), 0).prod(axis=1) * self.dtype.itemsize


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Scratch:
    """Memory that a kernel has for itself: a scratch ref, kept from one grid step to the next."""

    name: str
    memory_space: str  # "vmem", "smem" or "semaphore"
    shape: tuple[int, ...]
    dtype: np.dtype


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Pipeline:
    """A grid and its operands, step by step: that of a pallas_call, or of an emit_pipeline inside a kernel."""

    name: str
    grid: tuple[int, ...]
    operands: tuple[Operand, ...]

    @property
    def steps(self) -> int:
        return int(np.prod(self.grid, dtype=np.int64))

    def step(self, number: int) -> tuple[int, ...]:
        """Grid coordinates of a step: the last axis runs fastest."""
        return tuple(int(i) for i in np.unravel_index(number, self.grid)) if self.grid else ()

    @property
    def inputs(self) -> tuple[Operand, ...]:
        return tuple(o for o in self.operands if o.role == "input")

    @property
    def outputs(self) -> tuple[Operand, ...]:
        return tuple(o for o in self.operands if o.role == "output")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Call(Pipeline):
    """One pallas_call or pl.kernel. ``operands`` are in the order in which the kernel receives their refs."""

    kernel: jax.extend.core.Jaxpr  # the kernel's body; its invars are the refs
    scratch: tuple[Scratch, ...] = ()
    times: int | None = 1  # how often the function runs it; None: under a condition or a loop that depends on data
    scalars: tuple[np.ndarray, ...] = ()  # the values of the prefetch operands
    semantics: tuple[str, ...] = ()  # per grid axis "parallel" or "arbitrary", where the kernel says


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Walk:
    """Every kernel of a function, in the order it runs them."""

    calls: tuple[Call, ...]
    jaxpr: jax.extend.core.ClosedJaxpr  # of the whole function
    result: object = None  # what the function returns, as shapes and dtypes in their lists and tuples
