"""The programs that a function's kernels run on SparseCores, as the compiler lists them."""

import dataclasses
import re
from collections.abc import Callable

from course_lib import chips, errors, grid, text
from course_lib.compiler import tpu
from course_lib.compiler.child import listing_service

_SECTIONS = {"scs": "scalar subcore", "tec": "vector subcore"}  # libtpu's names for them
_BUNDLE = re.compile(r"0x([0-9a-f]+): \{(.*)\}", re.DOTALL)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SparseCoreBundle:
    """One instruction word of a SparseCore's program: what its units begin in one cycle."""

    op: str  # of XLA's program: one for each kernel
    unit: str  # "scalar subcore" or "vector subcore"
    routine: str  # libtpu's name; a kernel's own is "execute0_lowered"
    address: int
    instructions: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.address:#06x}  {';  '.join(self.instructions)}"


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class SparseCoreListing:
    """The bundles of all kernels of a function, in the compiler's order. Nothing says how long they take.

    ``find("stream.indirect.gather")`` returns the bundles with an instruction of that name.
    """

    name: str
    chip: str
    bundles: tuple[SparseCoreBundle, ...]
    versions: str

    def find(self, instruction: str) -> tuple[SparseCoreBundle, ...]:
        """Return the bundles that have the text ``instruction`` in one of their instructions."""
        return tuple(b for b in self.bundles if any(instruction in each for each in b.instructions))

    def __str__(self) -> str:
        lines, before = [f"{self.name} for {self.chip} ({self.versions}):"], None
        for bundle in self.bundles:
            where = bundle.op, bundle.unit, bundle.routine
            if where != before:
                lines += ["", f"{bundle.op}, {bundle.unit}, {bundle.routine}:"]
            lines.append(str(bundle))
            before = where
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"{self.name} for {self.chip}: {text.counted(len(self.bundles), 'bundle')} ({self.versions})"


def sparse_core_listing(fn: Callable, *args, chip: str = "v6e") -> SparseCoreListing:
    """Compile ``jit(fn)(*args)`` for a chip with SparseCores, none attached, and return the programs that they run.

    ``args`` are arrays or ``jax.ShapeDtypeStruct``s. What XLA runs on SparseCores by itself is listed too, such as
    ``x.at[i].add(1)`` of a long vector on a v6e. The compiler runs in a child process of its own, which takes a few
    seconds; its answer is cached. Raises ValueError for an unknown chip, for a function that does not compile, with the
    explanation that ``compile_tpu`` gives, and for one that runs nothing on SparseCores; Unavailable if libtpu is not
    installed or does not start.
    """
    target, name = chips.chip(chip), tpu.name_of(fn)

    def ask():
        module = tpu.lower(grid.trace(fn, *args, chip=chip), *args, chip=target)
        return listing_service.compile_module(target.topology, module)

    answer = tpu.program_of(
        ask, lambda error: f"sparse_core_listing: {name} does not compile for a {chip}. {errors.explain(error)}"
    )
    if not answer["listings"]:
        raise ValueError(
            f"sparse_core_listing: {name} runs nothing on the SparseCores of a {chip}. Pass a function with a "
            "pl.kernel over a plsc.VectorSubcoreMesh, and a chip that has SparseCores."
        )
    found = [bundle for op, listing in answer["listings"].items() for bundle in bundles(op, listing)]
    return SparseCoreListing(name=name, chip=chip, bundles=tuple(found), versions=tpu.versions())


def bundles(op: str, listing: str) -> list[SparseCoreBundle]:
    """Return the bundles of one program from the compiler's listing."""
    found, unit, routine, open_lines = [], "", "", []
    for line in listing.splitlines():
        if not open_lines and line in _SECTIONS:
            unit, routine = _SECTIONS[line], ""
        elif not open_lines and not line.startswith("0x"):
            if line.endswith(":") and not line.startswith("."):  # labels inside a routine begin with a point
                routine = line.removesuffix(":")
        else:
            open_lines.append(line)
            if line.endswith("}"):
                address, inside = _BUNDLE.fullmatch("\n".join(open_lines)).groups()
                instructions = tuple(" ".join(each.split()) for each in inside.split(";"))
                what = {"op": op, "unit": unit, "routine": routine, "address": int(address, 16)}
                found.append(SparseCoreBundle(instructions=instructions, **what))
                open_lines = []
    return found
