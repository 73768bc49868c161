"""The map that goes with a verdict: which blocks of an output are right, wrong, or never written."""

import dataclasses
import math

import numpy as np

RIGHT, PARTLY, WRONG, EMPTY = "right", "partly wrong", "wrong", "NaN or never written"
_ROWS, _COLUMNS = 12, 24  # at most; a larger map draws several blocks as one cell


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class BlockMap:
    """The state of each block of a 2-D output, ``cells[row][column]``; an output of one axis has one row.

    With more axes the 2-D slices are stacked, and ``rows`` says which blocks a row shows: "(1, 0, :)"; () for two axes.
    ``unit`` is the shape that one cell covers.
    """

    name: str
    unit: tuple[int, ...]
    of_kernel: bool  # each cell is one of the kernel's own blocks
    cells: tuple[tuple[str, ...], ...]
    rows: tuple[str, ...] = ()

    def __str__(self) -> str:
        from course_lib.viz.pictures import block_map as pictures

        return str(pictures.block_map(self))

    def _repr_mimebundle_(self, **kwargs) -> dict[str, str]:
        from course_lib.viz.pictures import block_map as pictures

        return pictures.block_map(self)._repr_mimebundle_(**kwargs)


def block_map(name: str, wrong: np.ndarray, unwritten: np.ndarray, block: tuple[int, ...] | None) -> BlockMap | None:
    """Return the map of an output; ``wrong`` and ``unwritten`` are bool[shape], ``block`` is the kernel's block shape.

    Without a block, or if one block covers the output, cut it into parts. None if nothing is right.
    """
    if wrong.ndim == 0 or wrong.size == 1:
        return None
    several = block is not None and any(b < n for b, n in zip(block, wrong.shape, strict=True))
    unit = tuple(block) if several else tuple(_part(n) for n in wrong.shape)
    unit = _coarse(unit, wrong.shape)
    of_kernel = several and unit == tuple(block)
    bad, empty = _shares(wrong, unit), _shares(unwritten & wrong, unit)
    cells = np.full(bad.shape, RIGHT, dtype=object)
    cells[bad > 0], cells[bad == 1], cells[empty == 1] = PARTLY, WRONG, EMPTY
    if RIGHT not in cells:  # the picture would only say "all of it"
        return None
    table = cells.reshape(-1, cells.shape[-1])
    rows = tuple(f"({', '.join(map(str, at))}, :)" for at in np.ndindex(cells.shape[:-1])) if cells.ndim > 2 else ()
    return BlockMap(name=name, unit=unit, of_kernel=of_kernel, cells=tuple(map(tuple, table.tolist())), rows=rows)


def _part(length: int) -> int:
    """Return the length of one part of an axis, about a sixteenth of it."""
    return max(1, 1 << max(0, math.ceil(math.log2(max(1, length / 16)))))


def _coarse(unit: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Choose larger units until the map fits the limits, leading axes first, because they share the rows."""
    unit = list(unit)
    while -(-shape[-1] // unit[-1]) > _COLUMNS:
        unit[-1] *= 2
    while math.prod(-(-n // u) for n, u in zip(shape[:-1], unit[:-1], strict=True)) > _ROWS:
        axis = next(a for a in range(len(shape)) if unit[a] < shape[a])
        unit[axis] *= 2
    return tuple(unit)


def _shares(flags: np.ndarray, unit: tuple[int, ...]) -> np.ndarray:
    """Return float64 per unit: the fraction of its elements, inside the array, that are set."""
    counts = np.ones(flags.shape)
    shares = flags.astype(float)
    for axis, u in enumerate(unit):
        edges = np.arange(0, flags.shape[axis], u)
        shares, counts = np.add.reduceat(shares, edges, axis), np.add.reduceat(counts, edges, axis)
    return shares / counts
