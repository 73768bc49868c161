"""Refs while a kernel is followed: where they live, which scalars in them are known, which part a copy names."""

import dataclasses
import itertools

import numpy as np
from jax._src.state import indexing

from course_lib.grid.following.scalars import UNKNOWN, known

_numbers = itertools.count()


class Ref:
    """A ref while it is followed. One in SMEM has ``values`` where ``known`` is True; ``read``: those asked for."""

    def __init__(self, name: str, space: str, aval):
        self.name, self.space, self.aval = name, space, aval
        self.number = next(_numbers)  # not id(): a buffer made when another is gone may get that one's
        if space == "smem":
            self.values, self.known = np.zeros(aval.shape, aval.dtype), np.zeros(aval.shape, bool)
            self.read = np.zeros(aval.shape, bool)

    def give(self, array) -> None:
        self.values, self.known = np.array(array), np.ones(self.aval.shape, bool)


@dataclasses.dataclass(frozen=True)
class Window:
    """A part of a ref: where it starts along each axis, and how many elements it has."""

    ref: Ref
    starts: tuple  # UNKNOWN where an array's values decide
    sizes: tuple[int, ...]


def window(side) -> Window | None:
    """The part of a ref that one side of a copy names; None if its size is not known."""
    return window_of(side, ()) if isinstance(side, Ref) else window_of(side.ref, side.transforms)


def window_of(ref: Ref, transforms) -> Window | None:
    """The part of ``ref`` that its transforms name; None if its size is not known."""
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
    """int64[len(steps), rank]: where a part starts at the given steps; ``shape`` is that of one value per step."""
    if not all(map(known, window.starts)):
        return None
    columns = [np.broadcast_to(s, shape).reshape(-1)[steps] for s in window.starts]
    return np.stack(columns, axis=1) if columns else np.zeros((len(steps), 0), np.int64)


def first_axis(part: Window | None, shape: tuple[int, ...], steps: np.ndarray) -> np.ndarray | None:
    """int64[len(steps), 2]: where a part starts along the first axis, and its length there; None if not known."""
    if part is None or (part.starts and not known(part.starts[0])):
        return None
    start, size = (part.starts[0], part.sizes[0]) if part.starts else (0, 1)
    if np.ndim(start) == 0:  # the same at all steps: one row, seen many times
        return np.broadcast_to(np.array([start, size], np.int64), (len(steps), 2))
    start = np.broadcast_to(start, shape).reshape(-1)[steps]
    return np.stack([start, np.full(len(steps), size)], axis=1)


def other_axes(part: Window | None, shape: tuple[int, ...], steps: np.ndarray) -> np.ndarray | None:
    """int64[len(steps), rank - 1, 2]: the same for the axes after the first; 0 and minus its length for one that is
    not known."""
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
    """array[index] for scalars or arrays of them; an index outside is left to the judges, here it is clipped."""
    return array[_clipped(index, array.shape)]


def ask_for(ref: Ref, index: tuple, active) -> None:
    """Note that a kernel reads ``ref[index]`` at the steps in ``active``."""
    index = _clipped(index, ref.aval.shape)
    if np.ndim(active):
        index = tuple(np.broadcast_to(i, active.shape)[active] for i in index)
    ref.read[index] = True


def _clipped(index: tuple, shape: tuple[int, ...]) -> tuple:
    return tuple(np.clip(np.asarray(i, np.int64), 0, n - 1) for i, n in zip(index, shape, strict=True))


def space_of(aval) -> str:
    """ "vmem", "smem", "hbm" or "semaphore": where a ref lives."""
    space = str(getattr(aval, "memory_space", "")).lower()
    for word, name in (("semaphore", "semaphore"), ("smem", "smem"), ("any", "hbm"), ("hbm", "hbm")):
        if word in space:
            return name
    return "vmem"


def scoped_names(jaxpr, taken: frozenset[str]) -> list[str]:
    """The names of the refs that a body allocates; one that the kernel has taken for another ref gets a mark."""
    names = jaxpr.debug_info.arg_names or []
    names = names if len(names) == len(jaxpr.invars) else [""] * len(jaxpr.invars)
    return [f"{name} (inner)" if name in taken else name or f"scoped {n}" for n, name in enumerate(names)]
