"""The program of a kernel as data: bundles, what each starts, the loops they lie in, and the lines they come from."""

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

MOST_BUNDLES = 50_000  # of what is kept: some 40 MB


@dataclasses.dataclass(frozen=True, kw_only=True)
class Code:
    """The bundles of the kernels of a function, one kernel behind the other. A bundle's number is its place here."""

    name: str
    chip: str
    bundles: tuple[Bundle, ...]  # each has ``.operations``, ``.slots``, ``.depth`` and the kernel's name, ``.op``
    loops: tuple[Loop, ...]  # outer ones first
    offered: dict[str, int]  # unit -> slots in each bundle
    sources: dict[tuple[str, int], str]  # (file, line) -> its text, where it could be read
    left_out: int  # bundles at the end, of a program longer than MOST_BUNDLES
    versions: str

    def around(self, number: int) -> tuple[Loop, ...]:
        """The loops that a bundle lies in, the outermost first."""
        return tuple(loop for loop in self.loops if loop.first <= number <= loop.last)

    def times(self, number: int) -> int | None:
        """How often a bundle is issued, if no branch jumps over it; None where a loop around it has no known end."""
        turns = [loop.turns for loop in self.around(number)]
        return None if None in turns else functools.reduce(int.__mul__, turns, 1)

    def issued(self, loop: Loop) -> int:
        """About how many bundles are issued inside a loop; of a loop without a known end, those of one turn."""
        return sum(self.times(number) or 1 for number in range(loop.first, loop.last + 1))

    @functools.cached_property
    def busiest(self) -> Loop | None:
        """Of the innermost loops the one that issues most bundles; None in a program without loops."""
        inner = [
            loop
            for loop in self.loops
            if not any(other != loop and loop.first <= other.first and other.last <= loop.last for other in self.loops)
        ]
        return max(inner, key=self.issued, default=None)

    def source(self, place: Place) -> str:
        """The text that an operation was made of, as far as it stands on one line; "" where it is not known."""
        line = self.sources.get((place.file, place.line), "")
        return line[place.column : place.end or None].strip()

    def __repr__(self) -> str:
        loops = text.counted(len(self.loops), "loop")
        return f"{self.name} for {self.chip}: {text.counted(len(self.bundles), 'bundle')}, {loops} ({self.versions})"


def bundles(fn: Callable, *args, chip: str = "v5e") -> Code:
    """The program that the compiler makes of the kernels of ``fn(*args)``, bundle by bundle; nothing is simulated.

    ``args`` are arrays or ``jax.ShapeDtypeStruct``s. Of a function without a kernel it is the program of XLA's ops.
    Each operation has the line of the source that it was made of, where the compiler says so. Of more than
    MOST_BUNDLES the first are kept. Raises ValueError for an unknown chip, and for a function that does not compile,
    with the explanation that ``compile_tpu`` gives; Unavailable where libtpu is not installed or does not start.
    """
    target = chips.chip(chip)
    name = tpu.name_of(fn)
    if tpu.libtpu_version() is None:
        raise tpu.Unavailable(tpu.missing_libtpu())
    try:
        jaxpr = rewrite.numbered(grid.trace(fn, *args, chip=chip))
        module = tpu.lower(jaxpr, *args, chip=target, frames=1)
        answer = service.compile_module(target.topology, module, simulate=False, **answers.Limits().of(0))
    except Exception as error:  # whatever tracing, lowering or the compiler's process raises
        raise ValueError(_refused(name, chip, error)) from error
    if not answer["ok"] and answer["stage"] == "start":
        raise tpu.Unavailable(f"libtpu does not start on this machine: {answer['error']}")
    if not answer["ok"]:
        raise ValueError(_refused(name, chip, answer["error"]))
    parsed = hlo.read(answer["hlo"])
    kernels = {op.name for op in parsed.ops if op.kind == hlo.KERNEL}
    found = {op: program for op, program in answer["dump"].programs.items() if not kernels or op in kernels}
    return _code(found, naming.ops(parsed, jaxpr), name=name, chip=chip, versions=tpu.versions())


def _refused(name: str, chip: str, error) -> str:
    return f"bundles: {name} does not compile for a {chip}, so it has no program. {errors.explain(error)}"


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
    """The bundle with files by their names alone."""
    places = tuple(place and place._replace(file=pathlib.PurePath(place.file).name) for place in bundle.places)
    return dataclasses.replace(bundle, places=places)


def _sources(listing: list[Bundle]) -> dict[tuple[str, int], str]:
    """The text of every line that an operation comes from: of a file, or of a notebook's cell while its kernel runs."""
    places = {(place.file, place.line) for bundle in listing for place in bundle.places if place is not None}
    lines = {(pathlib.PurePath(file).name, line): _line(file, line) for file, line in places}
    return {place: line for place, line in sorted(lines.items()) if line}


def _line(file: str, number: int) -> str:
    """A line of a file; of a notebook's cell, which has only its name here, as IPython keeps it."""
    known = next((each for each in linecache.cache if pathlib.PurePath(each).name == file), file)
    return linecache.getline(known, number).rstrip("\n")
