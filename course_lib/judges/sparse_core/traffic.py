"""The bytes that a kernel on SparseCores moves from and to HBM."""

import dataclasses
import math

from course_lib.judges.sparse_core.copies import Copy


@dataclasses.dataclass(kw_only=True)
class Moved:
    """Bytes of one array in HBM that all subcores read and write."""

    size: int  # of the array
    read: int = 0
    written: int = 0
    by_index: bool = False  # whether a copy takes rows of it by an index, and so may take one several times


@dataclasses.dataclass(kw_only=True)
class Traffic:
    """Bytes of HBM that all subcores read and write, in whole granules, and the shortest piece that a copy moves."""

    read: int = 0
    written: int = 0
    copies: int = 0  # of HBM
    rows: int = 0  # rows chosen by an index that these copies move
    arrays: dict[str, Moved] = dataclasses.field(default_factory=dict)  # by the name of their ref in the kernel
    subcores: set[tuple[int, int]] = dataclasses.field(default_factory=set)  # (core, number) of those that move any

    def note(self, copy: Copy, granule: int, subcore: tuple[int, int]) -> None:
        """Count a copy that ``subcore`` starts. Each row that an index chooses takes whole granules of its own."""
        if all(part.buffer.space != "hbm" for part in (copy.source, copy.target)):
            return
        side = copy.source if copy.source.indices is not None else copy.target
        pieces, row = 1, copy.bytes
        if side.indices is not None:
            pieces = int(side.indices.size if side.kept is None else side.kept.sum())
            row = copy.bytes // max(1, side.indices.size)
            self.rows += pieces
        moved = pieces * -(-row // granule) * granule
        self.copies += 1
        self.subcores.add(subcore)
        for part, read in ((copy.source, moved), (copy.target, 0)):
            if part.buffer.space == "hbm":
                size = math.prod(part.buffer.shape) * part.buffer.array.itemsize
                array = self.arrays.setdefault(part.buffer.name, Moved(size=size))
                array.read += read
                array.written += moved - read
                array.by_index |= part.indices is not None
                self.read += read
                self.written += moved - read

    def __str__(self) -> str:
        """Return "The SparseCores read 2,048 bytes of x_hbm (twice its size), and write 1,024 bytes of o_hbm"."""
        read = [_said(name, array, array.read) for name, array in self.arrays.items() if array.read]
        written = [_said(name, array, array.written) for name, array in self.arrays.items() if array.written]
        does = [f"{verb} {_listed(what)}" for verb, what in (("read", read), ("write", written)) if what]
        return f"The SparseCores {', and '.join(does) or 'move nothing'}"


def _said(name: str, array: Moved, moved: int) -> str:
    times = moved / array.size
    often = f" ({'twice' if times == 2 else f'{times:.3g} times'} its size)" if times > 1 and not array.by_index else ""
    return f"{moved:,} bytes of {name}{often}"


def _listed(words: list[str]) -> str:
    """Return "a, b and c"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
