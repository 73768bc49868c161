"""The memory of a kernel as NumPy arrays, and the elements of it that a ref with its slices and indices names."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu_sc as plsc

from course_lib.judges.sparse_core.faults import Fault, NotEvaluated

_TILE = 8, 128  # the last two axes of an array in HBM are stored in such tiles; fewer rows in 1, 2 or 4


@dataclasses.dataclass(eq=False)
class Buffer:
    """One ref of a kernel. ``array`` is longer than ``shape`` where HBM pads the last tile."""

    name: str
    space: str  # "hbm", "vmem", "vmem_shared", "smem" or "semaphore_mem"
    array: np.ndarray
    shape: tuple[int, ...]
    is_input: bool = False


def garbage(shape: tuple[int, ...], dtype) -> np.ndarray:
    """Return what memory holds before anybody writes to it: NaN, the largest integer, or True."""
    if jnp.issubdtype(dtype, jnp.floating):
        return np.full(shape, np.nan, dtype)
    return np.full(shape, True if dtype == np.bool_ else np.iinfo(dtype).max, dtype)


def in_hbm(name: str, shape: tuple[int, ...], dtype, given: np.ndarray | None = None) -> Buffer:
    """Return an array in HBM, which holds ``given`` if that is an input, with garbage in the padding of its tiles."""
    whole, padded = len(shape) - 2, shape
    if whole >= 0:
        rows = min(_TILE[0], 1 << max(0, shape[-2] - 1).bit_length())
        padded = tuple(-(-n // t) * t for n, t in zip(shape[-2:], (rows, _TILE[1]), strict=True))
    array = garbage((*shape[: max(0, whole)], *padded), dtype)
    if given is not None:
        array[tuple(map(slice, shape))] = given
    return Buffer(name, "hbm", array, tuple(shape), is_input=given is not None)


class Part(NamedTuple):
    """Some elements of a buffer. ``at``: an int, a slice or an array of indices for each axis, at most one array."""

    buffer: Buffer
    at: tuple
    kept: np.ndarray | None = None  # which of the indices count; None: all
    listed: "Part | None" = None  # where the indices lie, if they are in a ref

    @property
    def indices(self) -> np.ndarray | None:
        return next((i for i in self.at if isinstance(i, np.ndarray)), None)

    @property
    def size(self) -> int:
        return int(np.prod([1 if isinstance(i, int) else _length(i) for i in self.at], dtype=np.int64))

    @property
    def axis(self) -> int:
        """Which axis of the selected elements the indices run along, if there are indices."""
        number = next(n for n, i in enumerate(self.at) if isinstance(i, np.ndarray))
        return sum(not isinstance(i, int) for i in self.at[:number])

    def view(self, array: np.ndarray) -> np.ndarray:
        """Return the part of ``array``, which is as large as the buffer's, with all rows where indices choose some."""
        return array[tuple(slice(None) if isinstance(i, np.ndarray) else i for i in self.at)]

    def of(self, array: np.ndarray) -> np.ndarray:
        """Return the selected elements of an array as large as the buffer's; rows that do not count are row 0."""
        if self.indices is None:
            return self.view(array)
        chosen = self.indices if self.kept is None else np.where(self.kept, self.indices, 0)
        return np.take(self.view(array), chosen, self.axis, mode="clip")

    def read(self) -> np.ndarray:
        return np.array(self.of(self.buffer.array))

    def put(self, array: np.ndarray, value, *, add: bool = False) -> None:
        """Write to the selected elements of an array as large as the buffer's, or add; only rows that count."""
        if self.indices is None:
            array[self.at] = array[self.at] + value if add else value
            return
        view, axis, rows = self.view(array), self.axis, self.indices
        value = np.broadcast_to(value, (*view.shape[:axis], rows.size, *view.shape[axis + 1 :]))
        if self.kept is not None:
            rows, value = rows[self.kept], np.compress(self.kept, value, axis)
        where = (slice(None),) * axis + (np.clip(rows, 0, view.shape[axis] - 1),)
        if add:
            np.add.at(view, where, value)
        else:
            view[where] = value

    def write(self, value, *, add: bool = False) -> None:
        self.put(self.buffer.array, value, add=add)

    def overlaps(self, other: "Part") -> bool:
        if self.buffer is not other.buffer:
            return False
        return all(_meet(a, b) for a, b in zip(self._counting(), other._counting(), strict=True))

    def _counting(self) -> tuple:
        if self.kept is None:
            return self.at
        return tuple(i[self.kept] if isinstance(i, np.ndarray) else i for i in self.at)

    def __str__(self) -> str:
        """Return "o_hbm[8:16, 0:128]", or "table_hbm[indices_ref[0, 0:128], 0:128]"."""
        where = [self._shown(i, n) for i, n in zip(self.at, self.buffer.shape, strict=True)]
        return f"{self.buffer.name}[{', '.join(where)}]" if where else self.buffer.name

    def _shown(self, index, size: int) -> str:
        if isinstance(index, np.ndarray):
            return str(self.listed) if self.listed else "indices"
        if isinstance(index, int):
            return str(index)
        return ":" if (index.start, index.stop) == (0, size) else f"{index.start}:{index.stop}"


def part(ref, value_of: Callable) -> Part:
    """Return what a ref, with its slices and indices, names. ``value_of(ref)`` reads the indices that lie in a ref.

    Raises NotEvaluated for a ref that is reshaped, read as another dtype, or has more than one list of indices.
    """
    buffer, transforms = (ref, ()) if isinstance(ref, Buffer) else (ref.ref, ref.transforms)
    at, left = [slice(0, n, 1) for n in buffer.shape], list(range(len(buffer.shape)))
    kept = listed = None
    for transform in transforms:
        if not hasattr(transform, "indices"):
            raise NotEvaluated(
                f"{buffer.name} is used through a {type(transform).__name__}, which the evaluator does not have. Slice "
                "and index refs, and reshape arrays outside the kernel."
            )
        axes = []
        for axis, index in zip(left, transform.indices, strict=True):
            if isinstance(index, plsc.Indices):
                index, ignored = index.values, index.ignored_value
            else:
                ignored = None
            if isinstance(index, Buffer) or hasattr(index, "transforms"):
                listed = part(index, value_of)
                index = value_of(listed)
            if not isinstance(index, pl.Slice):
                index = np.asarray(index)
                if ignored is not None:
                    kept = index != ignored
            at[axis] = _within(at[axis], index)
            axes += [] if isinstance(at[axis], int) else [axis]
        left = axes
    if sum(isinstance(i, np.ndarray) for i in at) > 1:
        raise NotEvaluated(f"{buffer.name} is indexed by two lists at once, which the evaluator does not have.")
    return Part(buffer, tuple(at), kept, listed)


def _within(outer, index):
    """Return the index that selects ``index`` of what ``outer``, a slice or an array of indices, selects."""
    if isinstance(index, pl.Slice):
        start, size, stride = int(index.start), int(index.size), int(index.stride)
        if isinstance(outer, np.ndarray):
            return outer[start : start + size * stride : stride]
        first = outer.start + start * outer.step
        return slice(first, first + size * stride * outer.step, stride * outer.step)
    if isinstance(outer, np.ndarray):
        return int(outer[int(index)])
    found = outer.start + index.astype(np.int64) * outer.step
    return int(found) if found.ndim == 0 else found


def check_inside(part_: Part, whose: str, what: str) -> None:
    """Raise Fault if a part reaches outside its buffer; tiles of HBM may be copied whole."""
    for axis, index in enumerate(part_.at):
        size = part_.buffer.shape[axis]
        if isinstance(index, np.ndarray):
            outside = (index < 0) | (index >= size)
            outside &= True if part_.kept is None else part_.kept
            if outside.any():
                entry = int(np.argmax(outside))
                where = f"entry {entry} of {part_.listed}" if part_.listed else f"entry {entry} of its indices"
                raise Fault(
                    f"{whose} {what} {part_.buffer.name}[{int(index[entry])}], but {part_.buffer.name} has {size:,} "
                    f"rows. The index is {where}.",
                    "keep indices inside, with jnp.clip before the kernel, or mark those to leave out: "
                    "plsc.Indices(ref, ignored_value=-1). A chip does not check them.",
                )
            continue
        low, high = (index, index + 1) if isinstance(index, int) else (index.start, index.stop)
        stored = size if isinstance(index, int) else part_.buffer.array.shape[axis]
        if low < 0 or high > stored or (low >= size and high > low):
            raise Fault(
                f"{whose} {what} {part_}, but axis {axis} of {part_.buffer.name} has {size:,} elements.",
                "look at the start of the slice, and at how the work is divided among the subcores.",
            )


def _length(index) -> int:
    return index.size if isinstance(index, np.ndarray) else len(range(index.start, index.stop, index.step))


def _meet(one, other) -> bool:
    one, other = (slice(i, i + 1, 1) if isinstance(i, int) else i for i in (one, other))
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return bool(np.isin(one, other).any())
    if isinstance(one, np.ndarray):
        one, other = other, one
    if isinstance(other, np.ndarray):
        return bool(((other >= one.start) & (other < one.stop)).any())
    return one.start < other.stop and other.start < one.stop
