"""One subcore of a SparseCore: where it is, which copies it has under way, and the checks of all that it touches."""

import dataclasses
from typing import NamedTuple

import jax.extend.core
import numpy as np

from course_lib import chips, compat
from course_lib.judges.sparse_core.copies import Copies, Copy
from course_lib.judges.sparse_core.faults import Fault, NotEvaluated
from course_lib.judges.sparse_core.memory import Buffer, Part, check_inside, garbage, part
from course_lib.judges.sparse_core.sharing import Access, Sharing
from course_lib.judges.sparse_core.traffic import Traffic


@dataclasses.dataclass(kw_only=True)
class Shared:
    """What the subcores of a kernel have in common."""

    chip: chips.SparseCores
    sizes: dict[str, int]  # of the axes of the mesh
    sharing: dict[Buffer, Sharing]  # of the buffers that several subcores may write
    traffic: Traffic
    checked: bool  # False: values alone, as a run on one machine would give them
    evaluated: int = 0  # equations, in all subcores


class Subcore:
    """One subcore while its kernel is evaluated."""

    def __init__(self, shared: Shared, number: int, coordinates: dict[str, int]):
        self.shared, self.number, self.coordinates = shared, number, coordinates
        self.core, self.phase = next(iter(coordinates.values())), 0  # phase: barriers behind it
        self.name = "Subcore (" + ", ".join(f"{axis} {place}" for axis, place in coordinates.items()) + ")"
        self.copies = Copies(self.name)
        self.running: list[jax.extend.core.JaxprEqn] = []  # the equation that runs, behind those that contain it

    @property
    def line(self) -> str:
        """Return " at line 12 of kernel" for the equation that runs; "" if none of the caller's lines contains it."""
        found = next(filter(None, map(compat.line_of, reversed(self.running))), "")
        return f" at {found}" if found else ""

    def part(self, ref, transforms=()) -> Part:
        """Return what a ref with further transforms names. Indices that lie in a ref are read, and that is checked."""
        if transforms:
            behind = () if isinstance(ref, Buffer) else ref.transforms
            ref = _Transformed(ref if isinstance(ref, Buffer) else ref.ref, (*behind, *transforms))
        return part(ref, self._indices)

    def _indices(self, listed: Part) -> np.ndarray:
        self.touch(listed, "reads")
        return listed.read()

    def touch(self, found: Part, does: str) -> None:
        """Check an access by the subcore itself, and note it if others have the buffer too. Raises Fault."""
        if not self.shared.checked:
            return
        line = self.line
        check_inside(found, f"{self.name}{line}", does)
        if does == "reads":
            self.copies.check_read(found, line)
        else:
            self.copies.check_write(found, line)
        if does == "writes" and found.buffer.is_input:
            raise Fault(f"{self.name}{line} writes to {found}, which is an input.", "write to an output instead.")
        self._note(found, does, line)

    def note_copy(self, copy: Copy) -> None:
        """Note what a copy under way touches."""
        self._note(copy.source, "reads", copy.line)
        self._note(copy.target, "adds to" if copy.add else "writes", copy.line)

    def _note(self, found: Part, does: str, line: str) -> None:
        if (sharing := self.shared.sharing.get(found.buffer)) is not None:
            sharing.note(found, Access(self.core, self.number, self.phase, does, f"{self.name}{line}"))

    def behind_a_barrier(self) -> None:
        """Go on to what follows a barrier; copies that are still under way go with it."""
        self.phase += 1
        for copy in self.copies.under_way():
            self.note_copy(copy)


class _Transformed(NamedTuple):
    """A ref with slices and indices, as JAX's own."""

    ref: Buffer
    transforms: tuple


def own_buffer(aval, name: str) -> Buffer:
    """Return a ref of a subcore's own, or of a SparseCore's, as it is before anybody has written to it."""
    space = space_of(aval)
    if space not in ("vmem", "smem", "vmem_shared", "semaphore_mem"):
        raise NotEvaluated(f"{name} lies in {space}, which the evaluator does not have.")
    if space == "semaphore_mem":
        return Buffer(name, space, np.zeros(aval.shape, np.int32), tuple(aval.shape))
    return Buffer(name, space, garbage(aval.shape, aval.dtype), tuple(aval.shape))


def space_of(aval) -> str:
    space = getattr(aval.memory_space, "memory_space", aval.memory_space)
    return str(getattr(space, "value", space))
