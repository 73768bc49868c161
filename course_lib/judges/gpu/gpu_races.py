"""A race, as JAX's GPU simulator prints it, in a sentence: which memory, which two lines, what is missing."""

import linecache
import re
from typing import NamedTuple

import jax.extend.core

from course_lib import compat, grid
from course_lib.grid import jaxprs
from course_lib.judges.gpu import gpu_waits
from course_lib.judges.verdict import Complaint

_ACCESS = re.compile(
    r"(read|write) of HostAllocationKey\(memory_space_id=(\d+),[^\n]*? from \w+\([^\n]*?block_id=(\d+)"
    r"[^\n]*?warpgroup_id=(\d+)\), ([^\n]+?):(\d+)(?::\d+)? \(([^\n]*?)\)"
)
_GLOBAL = "0"
_INTO_SMEM, _OUT_OF_SMEM = "copy_gmem_to_smem", "copy_smem_to_gmem"


class Access(NamedTuple):
    """One of the two conflicting accesses."""

    what: str  # "read" or "write"
    space: str
    thread: tuple[str, str]  # block, warpgroup
    place: tuple[str, int]  # file and line
    code: str  # "" if nobody has the source
    copies: frozenset[str]  # the TMA copies that the line makes

    @property
    def line(self) -> int:
        return self.place[1]

    def __str__(self) -> str:
        return f"line {self.line}, `{self.code}`" if self.code else f"line {self.line}"


def complaint(printed: str, jaxpr: jax.extend.core.ClosedJaxpr | None = None) -> Complaint:
    """Explain the first race in the simulator's output, with something to try.

    ``jaxpr`` is the traced function: its equations tell which lines make copies, whatever their code looks like.
    """
    copies = {} if jaxpr is None else _copies_by_place(jaxpr)
    found = [
        Access(what, space, (block, warpgroup), place, _code(*place), copies.get(place, frozenset()))
        for what, space, block, warpgroup, file, line, _ in _ACCESS.findall(printed.partition("RACE DETECTED")[2])[:2]
        for place in [(file, int(line))]
    ]
    if len(found) < 2:
        return Complaint(
            "Two threads of the kernel access the same memory, and nothing orders the two accesses.",
            "look for a missing barrier_wait, commit_smem or wait_smem_to_gmem.",
        )
    later, earlier = found
    if later.space == _GLOBAL:
        return _in_global_memory(later, earlier)
    waits = "" if jaxpr is None else gpu_waits.said_of(jaxpr, earlier.place, later.place)
    return _in_shared_memory(later, earlier, waits)


def _copies_by_place(jaxpr: jax.extend.core.ClosedJaxpr) -> dict[tuple[str, int], frozenset[str]]:
    """Return {(file, line): the TMA copies that it makes} for the kernels of a traced function."""
    found: dict[tuple[str, int], frozenset[str]] = {}
    for kernel in grid.pallas_calls(jaxpr.jaxpr):
        for eqn in (eqn for inner in jaxprs.inside(kernel) for eqn in jaxprs.equations(inner)):
            if eqn.primitive.name in (_INTO_SMEM, _OUT_OF_SMEM) and (place := compat.place_of(eqn)) is not None:
                found[place] = found.get(place, frozenset()) | {eqn.primitive.name}
    return found


def _code(file: str, line: int) -> str:
    return linecache.getline(file, line).strip()


def _in_global_memory(later: Access, earlier: Access) -> Complaint:
    if later.what == earlier.what == "write":
        same = later.line == earlier.line
        places = f"at {later}" if same else f"at {earlier} and at {later}"
        return Complaint(
            f"Two blocks, or warpgroups, write the same part of an array in GPU memory, {places}. They run at the "
            "same time, in no order, and the last one to write wins.",
            "let each write its own part, by lax.axis_index of the grid; accumulate inside one block, in a loop.",
        )
    return Complaint(
        f"One block reads GPU memory that another block writes: {earlier} and {later}. They run at the same time, in "
        "no order.",
        "keep a sum in registers or shared memory, in a loop of one block; blocks cannot pass values to each other.",
    )


def _in_shared_memory(later: Access, earlier: Access, waits: str) -> Complaint:
    if _OUT_OF_SMEM in later.copies:
        return Complaint(
            f"TMA stores shared memory that was just written, and may not see the new values yet: {earlier}, then "
            f"{later}.",
            "call plgpu.commit_smem() between the two.",
        )
    if _OUT_OF_SMEM in earlier.copies:
        return Complaint(
            f"Shared memory is written again while TMA may still be storing it: {earlier}, then {later}."
            + (f" {waits}" if waits else ""),
            "call plgpu.wait_smem_to_gmem(0, wait_read_only=True) before it is written again.",
        )
    if _INTO_SMEM in earlier.copies:
        return Complaint(
            f"Shared memory is read before the copy into it has arrived: {earlier}, then {later}.",
            "call plgpu.barrier_wait on the copy's barrier before the read.",
        )
    if _INTO_SMEM in later.copies:
        return Complaint(
            f"A copy overwrites shared memory that may still be read: {earlier}, then {later}.",
            "let the readers call plgpu.barrier_arrive on a second barrier when they are done, and wait for it before "
            "the copy.",
        )
    return Complaint(
        f"Two warpgroups access the same shared memory, and nothing orders them: {earlier} and {later}.",
        "let one call plgpu.barrier_arrive when it is done, and the other plgpu.barrier_wait.",
    )
