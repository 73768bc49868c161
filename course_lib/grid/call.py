"""A kernel call as plain data: its grid, its operands, and the block of each operand at every step."""

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

    name: str  # the name of its ref in the kernel
    role: str  # "input", "output", or "prefetch": scalars that index maps may read, in SMEM from the start
    shape: tuple[int, ...]  # of the whole array
    dtype: np.dtype
    block_shape: tuple[int, ...]  # one entry per array axis; a squeezed axis counts 1
    indices: np.ndarray  # int64[S, rank]: the block index at each step; on an Element axis, the first element
    memory_space: str = "vmem"  # "vmem", "smem", or "hbm" for a ref that stays in HBM
    buffers: int = 2  # copies of the block in VMEM: 2, so that one is filled while the other is read
    element: tuple[bool, ...] = ()  # which axes are pl.Element: indexed by element, blocks may overlap
    padding: tuple[tuple[int, int], ...] = ()  # padding of an Element axis, in elements before and after
    letters: tuple[str, ...] = ()  # the parameters of its index map, if known
    aliases: str | None = None  # the operand that shares its memory (input_output_aliases)
    by_hand: bool = False  # whether the kernel's body makes its copies, in a pipeline for example

    @property
    def pipelined(self) -> bool:
        """Whether blocks are copied automatically. A ref left in HBM is copied by the kernel itself, or not at all."""
        return self.memory_space != "hbm"

    @property
    def blocks(self) -> tuple[int, ...]:
        """How many blocks cover the array along each axis, side by side."""
        return tuple(pl.cdiv(n, b) for n, b in zip(self.shape, self.block_shape, strict=True))

    @property
    def starts(self) -> np.ndarray:
        """First element of the block at each step, int64[S, rank]."""
        if not any(self.element):
            return self.indices * np.array(self.block_shape, np.int64)
        scale = [1 if e else b for e, b in zip(self.element, self.block_shape, strict=True)]
        return self.indices * np.array(scale, np.int64) - np.array([before for before, _ in self.padding], np.int64)

    @property
    def changes(self) -> np.ndarray:
        """Whether the block index differs from the step before, bool[S] (True at step 0)."""
        changed = np.ones(len(self.indices), bool)
        changed[1:] = (self.indices[1:] != self.indices[:-1]).any(axis=1)
        return changed

    @property
    def fetched(self) -> np.ndarray:
        """Whether the step copies a block of this input from HBM to VMEM (or SMEM), bool[S]."""
        return self.changes if self.pipelined and self.role != "output" else np.zeros(len(self.indices), bool)

    @property
    def written(self) -> np.ndarray:
        """Whether the block of this output is copied from VMEM back to HBM after the step, bool[S]."""
        if not self.pipelined or self.role != "output":
            return np.zeros(len(self.indices), bool)
        return np.append(self.changes[1:], True)

    def outside(self) -> np.ndarray:
        """Return the steps whose block lies wholly outside the array, int64[n]."""
        starts = self.starts
        out = (starts + np.array(self.block_shape, np.int64) <= 0) | (starts >= np.array(self.shape, np.int64))
        return np.flatnonzero(out.any(axis=1))

    def unvisited(self) -> list[tuple[int, ...]]:
        """Return the blocks of the array, side by side and in order, with an element that no step touches."""
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
        """Bytes that a copy of each step's block moves, int64[S]: all HBM tiles that it overlaps (``tiles``).

        Blocks in SMEM are copied without padding.
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
        """Bytes of each step's block that lie inside the array, int64[S] (the last block may be ragged)."""
        starts = self.starts
        ends = np.minimum(starts + np.array(self.block_shape, np.int64), np.array(self.shape, np.int64))
        return np.maximum(ends - np.maximum(starts, 0), 0).prod(axis=1) * tiles.bits(self.dtype) // 8


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Scratch:
    """A kernel's own memory: a scratch ref, kept from one grid step to the next."""

    name: str
    memory_space: str  # "vmem", "smem" or "semaphore"
    shape: tuple[int, ...]
    dtype: np.dtype


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Pipeline:
    """A grid and its operands at every step: of a pallas_call, or of an emit_pipeline inside a kernel."""

    name: str
    grid: tuple[int, ...]
    operands: tuple[Operand, ...]

    @property
    def steps(self) -> int:
        return int(np.prod(self.grid, dtype=np.int64))

    def step(self, number: int) -> tuple[int, ...]:
        """Return the grid coordinates of a step; the last axis runs fastest."""
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
    times: int | None = 1  # how often the function runs it; None: under a condition or in a loop that depends on data
    scalars: tuple[np.ndarray, ...] = ()  # the values of the prefetch operands
    semantics: tuple[str, ...] = ()  # "parallel" or "arbitrary" per grid axis, if the kernel says

    @property
    def parallel(self) -> tuple[bool, ...]:
        """Which axes of the grid two cores may share: those marked "parallel" or "core_parallel"."""
        said = self.semantics if len(self.semantics) == len(self.grid) else ("arbitrary",) * len(self.grid)
        return tuple("parallel" in mark for mark in said)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Walk:
    """Every kernel of a function, in the order it runs them."""

    calls: tuple[Call, ...]
    jaxpr: jax.extend.core.ClosedJaxpr  # of the whole function
    result: object = None  # shapes and dtypes of the function's result, in its lists and tuples
