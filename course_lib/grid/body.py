"""What a kernel's body does, as plain data: the operations it runs, its copies, waits and loops, its uses of memory."""

import dataclasses

import jax.extend.core
import numpy as np

from course_lib.grid import tiles


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Copy:
    """One place in the program where a kernel starts a copy by hand, at one or many grid steps."""

    source: str  # the name of a ref
    target: str
    source_space: str  # "hbm", "vmem", "smem"
    target_space: str
    dtype: np.dtype
    array: tuple[int, ...]  # shape of the ref on the HBM side
    shape: tuple[int, ...]  # of the part that is copied, one entry per axis of that ref
    starts: np.ndarray | None  # int64[n, rank]: its first element on the HBM side; None: depends on an array's values
    steps: np.ndarray  # int64[n]: the grid steps that start it
    remote: bool = False  # whether it goes to another chip
    buffer: int = 0  # a number for the ref on the VMEM side
    room: int = 0  # elements of that ref, which may hold several blocks, one per slot
    turn: tuple[int, int] | None = None  # the loop that starts it (an index of Body.loops), and the iteration

    @property
    def payload(self) -> int:
        """Bytes of the elements that one such copy is asked for."""
        return int(np.prod(self.shape, dtype=np.int64)) * tiles.bits(self.dtype) // 8

    @property
    def bytes(self) -> np.ndarray:
        """Bytes that each copy moves, int64[n]; arrays in HBM are moved in whole tiles (``tiles``)."""
        if "hbm" not in (self.source_space, self.target_space):
            return np.full(len(self.steps), self.payload, np.int64)
        starts = np.zeros((len(self.steps), len(self.shape)), np.int64) if self.starts is None else self.starts
        return tiles.moved_bytes(self.array, self.dtype, starts, self.shape, by_hand=True)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Wait:
    """One place in the program where a kernel waits for a copy into or out of a buffer."""

    buffer: int
    turn: tuple[int, int] | None


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Loop:
    """A loop followed one iteration at a time. ``counters``: int64[turns, n], its last n 32-bit integers, if known."""

    turns: int
    counters: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Use:
    """One place in the program where a kernel touches memory, at one or many grid steps."""

    kind: str  # "read", "write", "start" a copy, "wait" for one
    ref: str  # the name of the ref, or of a copy's target
    number: int  # of that ref; unique
    steps: np.ndarray  # int64[n]: the grid steps at which this happens
    part: np.ndarray | None = None  # int64[n, 2]: start and length along the first axis; None: not known
    length: int = 1  # of the ref's first axis
    inner: np.ndarray | None = None  # int64[n, axes, 2]: as ``part``, for the other axes; (0, -length) if not known
    whole: bool = False  # whether it covers all of the ref
    wide: bool = False  # whether it covers all axes after the first
    sure: bool = True  # False: under a condition that depends on an array's values
    source: str = ""  # of a copy
    source_number: int = -1
    source_part: np.ndarray | None = None  # as ``part``, of a copy's source
    source_length: int = 1
    source_inner: np.ndarray | None = None
    semaphore: np.ndarray | None = None  # int64[n, k]: the semaphore's number, and its index if it is one of an array
    semaphore_name: str = ""
    semaphores: tuple[int, ...] = ()  # the shape of the array of semaphores
    bytes: int = 0  # of a copy
    remote: bool = False  # whether the copy goes to another chip
    eqn: jax.extend.core.JaxprEqn | None = None  # of a read or a write


@dataclasses.dataclass(frozen=True, kw_only=True)
class Broken:
    """A ``pl.multiple_of(value, multiple)`` that does not hold at a grid step."""

    multiple: int
    value: int
    step: int


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Body:
    """What a kernel's body does over its whole grid."""

    runs: tuple[tuple[jax.extend.core.JaxprEqn, int], ...]  # operations on arrays, and how often each runs
    copies: tuple[Copy, ...]  # in program order
    waits: tuple[Wait, ...] = ()
    loops: tuple[Loop, ...] = ()
    written: frozenset[str] = frozenset()  # the names of the refs it stores to or copies into
    doubt: str = ""  # why ``runs`` is an upper bound, if it is one
    hidden_copies: str = ""  # why ``copies`` is incomplete, if it is
