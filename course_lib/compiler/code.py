"""The program of a kernel as data: bundles, the operations each starts, their loops, and their source lines."""

import dataclasses
import functools
import linecache
import pathlib
from collections.abc import Callable

from course_lib import chips, errors, grid, text
from course_lib.compiler import naming, tpu
from course_lib.compiler.child import service
from course_lib.compiler.dumps import bundles as programs
from course_lib.compiler.dumps import hlo
from course_lib.compiler.operations import Place
from course_lib.compiler.report import Bundle, Loop
from course_lib.compiler.simulating import answers, rewrite

MOST_BUNDLES = 50_000  # limit of what is kept: about 40 MB


@dataclasses.dataclass(frozen=True, kw_only=True)
class Code:
    """The bundles of a function's kernels, one kernel after the other; a bundle's number is its index here."""

    name: str
    chip: str
    bundles: tuple[Bundle, ...]  # each has ``.operations``, ``.slots``, ``.depth`` and the kernel's name, ``.op``
    loops: tuple[Loop, ...]  # outer ones first
    offered: dict[str, int]  # unit -> slots in each bundle
    sources: dict[tuple[str, int], str]  # (file, line) -> its text, if it could be read
    left_out: int  # bundles at the end of a program longer than MOST_BUNDLES
    versions: str

    def around(self, number: int) -> tuple[Loop, ...]:
        """Return the loops that contain a bundle, the outermost first."""
        return tuple(loop for loop in self.loops if loop.first <= number <= loop.last)

    def times(self, number: int) -> int | None:
        """Return how often a bundle is issued if no branch skips it; None if a loop around it has no known length."""
        turns = [loop.turns for loop in self.around(number)]
        return None if None in turns else functools.reduce(int.__mul__, turns, 1)

    def issued(self, loop: Loop) -> int:
        """Return roughly how many bundles a loop issues; if its length is unknown, those of one iteration."""
        return sum(self.times(number) or 1 for number in range(loop.first, loop.last + 1))

    @functools.cached_property
    def busiest(self) -> Loop | None:
        """The innermost loop that issues the most bundles; None in a program without loops."""
        inner = [
            loop
            for loop in self.loops
            if not any(other != loop and loop.first <= other.first and other.last <= loop.last for other in self.loops)
        ]
        return max(inner, key=self.issued, default=None)

    def source(self, place: Place) -> str:
        """Return the source text of an operation, as far as it is on one line; "" if it is not known."""
        line = self.sources.get((place.file, place.line), "")
        return line[place.column : place.end or None].strip()

    def __repr__(self) -> str:
        loops = text.counted(len(self.loops), "loop")
        return f"{self.name} for {self.chip}: {text.counted(len(self.bundles), 'bundle')}, {loops} ({self.versions})"


def bundles(fn: Callable, *args, chip: str = "v5e") -> Code:
    """Return the program that the compiler generates for the kernels of ``fn(*args)``, bundle by bundle, unsimulated.

    ``args`` are arrays or ``jax.ShapeDtypeStruct``s. For a function without a kernel it is the program of XLA's ops.
    Each operation has the source line that it comes from, if the compiler gives it. At most MOST_BUNDLES are kept.
    Raises ValueError for an unknown chip, and for a function that does not compile, with the explanation that
    ``compile_tpu`` gives; Unavailable if libtpu is not installed or does not start.
    """
    target = chips.chip(chip)
    name = tpu.name_of(fn)

    def ask():
        jaxpr = rewrite.numbered(grid.trace(fn, *args, chip=chip))
        module = tpu.lower(jaxpr, *args, chip=target, frames=1)
        return service.compile_module(target.topology, module, simulate=False, **answers.Limits().of(0)) | {
            "jaxpr": jaxpr
        }

    answer = tpu.program_of(
        ask,
        lambda error: f"bundles: {name} does not compile for a {chip}, so it has no program. {errors.explain(error)}",
    )
    parsed = hlo.read(answer["hlo"])
    kernels = {op.name for op in parsed.ops if op.kind == hlo.KERNEL}
    found = {op: program for op, program in answer["dump"].programs.items() if not kernels or op in kernels}
    return _code(found, naming.ops(parsed, answer["jaxpr"]), name=name, chip=chip, versions=tpu.versions())


def _code(found: dict[str, programs.Program], names: dict[str, str], **facts) -> Code:
    listing: list[Bundle] = []
    loops: list[Loop] = []
    offered: dict[str, int] = {}
    for op, program in found.items():
        start = len(listing)
        listing += [dataclasses.replace(bundle, op=names.get(op, op)) for bundle in program.listing]
        loops += [dataclasses.replace(each, first=start + each.first, last=start + each.last) for each in program.loops]
        offered |= program.offered
    kept = [_without_folders(bundle) for bundle in listing[:MOST_BUNDLES]]
    return Code(
        bundles=tuple(kept),
        loops=tuple(loop for loop in loops if loop.last < len(kept)),
        offered=offered,
        sources=_sources(listing[:MOST_BUNDLES]),
        left_out=len(listing) - len(kept),
        **facts,
    )


def _without_folders(bundle: Bundle) -> Bundle:
    """Reduce the file paths in a bundle to file names."""
    places = tuple(place and place._replace(file=pathlib.PurePath(place.file).name) for place in bundle.places)
    return dataclasses.replace(bundle, places=places)


def _sources(listing: list[Bundle]) -> dict[tuple[str, int], str]:
    """Return the text of every source line: of a file, or of a notebook's cell while its kernel runs."""
    places = {(place.file, place.line) for bundle in listing for place in bundle.places if place is not None}
    lines = {(pathlib.PurePath(file).name, line): _line(file, line) for file, line in places}
    return {place: line for place, line in sorted(lines.items()) if line}


def _line(file: str, number: int) -> str:
    """Return a line of a file, or of a notebook's cell, which IPython caches under a path with that name."""
    known = next((each for each in linecache.cache if pathlib.PurePath(each).name == file), file)
    return linecache.getline(known, number).rstrip("\n")
