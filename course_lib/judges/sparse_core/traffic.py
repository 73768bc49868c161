"""The bytes that a kernel on SparseCores moves from and to HBM."""

import dataclasses

from course_lib.judges.sparse_core.copies import Copy


@dataclasses.dataclass(kw_only=True)
class Traffic:
    """Bytes of HBM that all subcores read and write, in whole granules, and the shortest piece that a copy moves."""

    read: int = 0
    written: int = 0
    copies: int = 0  # of HBM
    rows: int = 0  # rows chosen by an index that these copies move
    subcores: set[tuple[int, int]] = dataclasses.field(default_factory=set)  # (core, number) of those that move any

    def note(self, copy: Copy, granule: int, subcore: tuple[int, int]) -> None:
        """Count a copy that ``subcore`` starts. Each row that an index chooses takes whole granules of its own."""
        spaces = [part.buffer.space for part in (copy.source, copy.target)]
        if "hbm" not in spaces:
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
        if spaces[0] == "hbm":
            self.read += moved
        if spaces[1] == "hbm":
            self.written += moved
