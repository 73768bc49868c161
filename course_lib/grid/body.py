"""What a kernel's body does, as plain data: the operations it runs, its copies, waits and loops, its uses of memory."""

import dataclasses

import jax.extend.core
import numpy as np

from course_lib.grid import tiles


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Copy:
    """One place in the order of things where a kernel starts a copy by hand, at one or many grid steps."""

    source: str  # the name of a ref
    target: str
    source_space: str  # "hbm", "vmem", "smem"
    target_space: str
    dtype: np.dtype
    array: tuple[int, ...]  # shape of the ref on the HBM side
    shape: tuple[int, ...]  # of the part that is copied, one entry per axis of that ref
    starts: np.ndarray | None  # int64[n, rank]: its first element on the HBM side; None: an array's values decide
    steps: np.ndarray  # int64[n]: the grid steps that start it
    remote: bool = False  # it goes to another chip
    buffer: int = 0  # a number for the ref on the VMEM side
    room: int = 0  # elements of that ref: it may hold several blocks, one in each slot
    turn: tuple[int, int] | None = None  # the loop it is started in (an index of Body.loops), and the turn of it

    @property
    def payload(self) -> int:
        """Bytes of the elements that one such copy is asked for."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    @property
    def bytes(self) -> np.ndarray:
        """int64[n]: bytes that each of them moves; what lies in HBM lies in tiles (``tiles``)."""
        if "hbm" not in (self.source_space, self.target_space):
            return np.full(len(self.steps), self.payload, np.int64)
        starts = np.zeros((len(self.steps), len(self.shape)), np.int64) if self.starts is None else self.starts
        return tiles.moved_bytes(self.array, self.dtype, starts, self.shape, by_hand=True)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Wait:
    """One place where a kernel waits for a copy into or out of a buffer."""

    buffer: int
    turn: tuple[int, int] | None


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Loop:
    """A loop that was followed turn by turn. ``counters``: int64[turns, n], its last n 32-bit integers, if known."""

    turns: int
    counters: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Use:
    """One place in the order of things where a kernel touches memory, at one or many grid steps."""

    kind: str  # "read", "write", "start" a copy, "wait" for one
    ref: str  # the name of the ref; of a copy, of its target
    number: int  # of that ref, which no other ref has
    steps: np.ndarray  # int64[n]: the grid steps at which this happens
    part: np.ndarray | None = None  # int64[n, 2]: start and length along the first axis; None: not known
    length: int = 1  # of the ref's first axis
    inner: np.ndarray | None = None  # int64[n, axes, 2]: as ``part``, along the other axes; 0 and minus the axis's
    # length where it is not known
    whole: bool = False  # all of the ref
    sure: bool = True  # False: under a condition that an array's values decide
    source: str = ""  # of a copy
    source_number: int = -1
    source_part: np.ndarray | None = None  # as ``part``, of a copy's source
    source_length: int = 1
    source_inner: np.ndarray | None = None
    semaphore: np.ndarray | None = None  # int64[n, k]: the semaphore's number, and its index if it is one of an array
    semaphore_name: str = ""
    bytes: int = 0  # of a copy
    remote: bool = False  # the copy goes to another chip
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
    copies: tuple[Copy, ...]  # in the order of the program
    waits: tuple[Wait, ...] = ()
    loops: tuple[Loop, ...] = ()
    written: frozenset[str] = frozenset()  # the names of the refs it stores to or copies into
    doubt: str = ""  # why ``runs`` is an upper bound, if it is one
    hidden_copies: str = ""  # why ``copies`` is not all, if so
