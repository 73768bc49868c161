"""Refs of a kernel being followed: where they live, which of their scalars are known, which part a copy names."""

import dataclasses
import itertools

import numpy as np
from jax._src.state import indexing

from course_lib.grid.following.scalars import UNKNOWN, known

_numbers = itertools.count()


class Ref:
    """A ref being followed. In SMEM, ``values`` hold where ``known`` is True; ``read`` marks the elements read."""

    def __init__(self, name: str, space: str, aval):
        self.name, self.space, self.aval = name, space, aval
        self.number = next(_numbers)  # not id(), which Python may reuse for a later buffer
        if space == "smem":
            self.values, self.known = np.zeros(aval.shape, dtype_of(aval)), np.zeros(aval.shape, bool)
            self.read = np.zeros(aval.shape, bool)
            self.below = 0  # the smallest index that was read, if it is below 0

    def give(self, array) -> None:
        self.values, self.known = np.array(array), np.ones(self.aval.shape, bool)


@dataclasses.dataclass(frozen=True)
class Window:
    """A part of a ref: where it starts along each axis, and how many elements it has."""

    ref: Ref
    starts: tuple  # UNKNOWN if it depends on an array's values
    sizes: tuple[int, ...]


def window(side) -> Window | None:
    """Return the part of a ref that one side of a copy names; None if its size, or which ref it is, is not known."""
    if isinstance(side, Ref):
        return window_of(side, ())
    return window_of(side.ref, side.transforms) if isinstance(side.ref, Ref) else None  # pl.select_ref chooses one


def window_of(ref: Ref, transforms) -> Window | None:
    """Return the part of ``ref`` that its transforms name; None if its size is not known."""
    starts, sizes = [np.int64(0)] * len(ref.aval.shape), list(ref.aval.shape)
    axes = list(range(len(sizes)))  # of the ref, that are still axes of the part
    for transform in transforms:
        if not isinstance(transform, indexing.NDIndexer):
            return None
        left = []
        for axis, index in zip(axes, transform.indices, strict=True):
            is_slice = isinstance(index, indexing.Slice)
            if is_slice and (index.is_dynamic_size or index.stride != 1):
                return None
            start, sizes[axis] = (index.start, index.size) if is_slice else (index, 1)
            both = known(start) and known(starts[axis])
            starts[axis] = starts[axis] + np.asarray(start, np.int64) if both else UNKNOWN
            left += [axis] if is_slice else []
        axes = left
    return Window(ref, tuple(starts), tuple(sizes))


def starts(window: Window, shape: tuple[int, ...], steps: np.ndarray) -> np.ndarray | None:
    """Return where a part starts at the given steps, int64[len(steps), rank]; None if not known.

    ``shape`` is the shape of one value per step.
    """
    if not all(map(known, window.starts)):
        return None
    columns = [np.broadcast_to(s, shape).reshape(-1)[steps] for s in window.starts]
    return np.stack(columns, axis=1) if columns else np.zeros((len(steps), 0), np.int64)


def first_axis(part: Window | None, shape: tuple[int, ...], steps: np.ndarray) -> np.ndarray | None:
    """Return start and length of a part along the first axis, int64[len(steps), 2]; None if not known."""
    if part is None or (part.starts and not known(part.starts[0])):
        return None
    start, size = (part.starts[0], part.sizes[0]) if part.starts else (0, 1)
    if np.ndim(start) == 0:  # the same at all steps: one row, broadcast
        return np.broadcast_to(np.array([start, size], np.int64), (len(steps), 2))
    start = np.broadcast_to(start, shape).reshape(-1)[steps]
    return np.stack([start, np.full(len(steps), size)], axis=1)


def other_axes(part: Window | None, shape: tuple[int, ...], steps: np.ndarray) -> np.ndarray | None:
    """Return start and length along the axes after the first, int64[len(steps), rank - 1, 2].

    An axis that is not known gets 0 and minus its length.
    """
    if part is None or len(part.starts) < 2:
        return None
    axes = list(zip(part.starts, part.sizes, part.ref.aval.shape, strict=True))[1:]
    table = np.empty((len(axes), 2, len(steps)), np.int64)
    for axis, (start, size, length) in enumerate(axes):
        table[axis, 0], table[axis, 1] = 0, -length
        if known(start):
            table[axis, 0], table[axis, 1] = np.broadcast_to(start, shape).reshape(-1)[steps], size
    return table.transpose(2, 0, 1)


def element(array: np.ndarray, index: tuple):
    """Return array[index] for scalars or arrays of them. An index out of bounds is clipped; the judges report it."""
    return array[_clipped(index, array.shape)]


def ask_for(ref: Ref, index: tuple, active) -> None:
    """Record that a kernel reads ``ref[index]`` at the steps in ``active``."""
    if np.ndim(active):
        index = tuple(np.broadcast_to(i, active.shape)[active] for i in index)
    elif not active:
        return
    ref.below = min(ref.below, *(int(np.min(i, initial=0)) for i in index))
    ref.read[_clipped(index, ref.aval.shape)] = True


def _clipped(index: tuple, shape: tuple[int, ...]) -> tuple:
    return tuple(np.clip(np.asarray(i, np.int64), 0, n - 1) for i, n in zip(index, shape, strict=True))


def dtype_of(aval) -> np.dtype:
    """Return the dtype of an array or a ref; that of its words, uint32, for a random key or a semaphore."""
    try:
        return np.dtype(aval.dtype)
    except TypeError:
        return np.dtype(np.uint32)


def space_of(aval) -> str:
    """Return where a ref lives: "vmem", "smem", "hbm" or "semaphore"."""
    space = str(getattr(aval, "memory_space", "")).lower()
    for word, name in (("semaphore", "semaphore"), ("smem", "smem"), ("any", "hbm"), ("hbm", "hbm")):
        if word in space:
            return name
    return "vmem"


def scoped_names(jaxpr, taken: frozenset[str]) -> list[str]:
    """Return the names of the refs that a body allocates; a name that the kernel already uses gets a mark."""
    names = jaxpr.debug_info.arg_names or []
    names = names if len(names) == len(jaxpr.invars) else [""] * len(jaxpr.invars)
    return [f"{name} (inner)" if name in taken else name or f"scoped {n}" for n, name in enumerate(names)]
