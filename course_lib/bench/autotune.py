"""A search over block sizes that uses the compiler's cycle count: it needs no device and measures nothing."""

import collections
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from course_lib import chips, compiler, grid, text, vocabulary
from course_lib.compiler import progress

_HEAD = ("blocks", "time", "ratio", "cycles", "HBM", "VMEM", "spills")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Candidate:
    """One choice of blocks and what the compiler reports for it. Figures are None where it reports nothing."""

    blocks: Any
    seconds: float | None = None  # predicted; None on a chip whose clock rate is unknown
    cycles: int | None = None
    hbm_bytes: int | None = None
    vmem_bytes: int | None = None
    spills: int | None = None
    why: str = ""  # why it was refused or has no cycle count

    @property
    def cost(self) -> tuple:
        """The sort key: predicted time (cycles if there is none), then cycles, then VMEM."""
        first = self.cycles if self.seconds is None else self.seconds
        return first, self.cycles, self.vmem_bytes or 0


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Tuned:
    """The result of a search. Times are predicted. ``candidates`` lists the fastest first and the refused last."""

    op: str
    chip: str
    versions: str
    candidates: tuple[Candidate, ...]

    @property
    def best(self) -> Any:
        """The blocks with the shortest predicted time."""
        return self.candidates[0].blocks

    @property
    def seconds(self) -> float | None:
        """The predicted time of the best candidate; None on a chip whose clock rate is unknown."""
        return self.candidates[0].seconds

    def ratio(self, candidate: Candidate) -> float | None:
        """Return this candidate's cost divided by the best one's; None for a refused candidate."""
        return None if candidate.cycles is None else candidate.cost[0] / self.candidates[0].cost[0]

    def __str__(self) -> str:
        table = text.table([_HEAD, *map(self._row, self.candidates)], right=range(1, len(_HEAD)))
        head = f"{self.op}: {vocabulary.COMPILER} for {self.chip} ({self.versions}), fastest first:"
        return "\n".join([text.folded(head), *table])

    __repr__ = __str__

    def _row(self, candidate: Candidate) -> tuple[str, ...]:
        if candidate.cycles is None:
            return label(candidate.blocks), candidate.why
        return (
            label(candidate.blocks),
            text.duration(candidate.seconds),
            f"{self.ratio(candidate):.2f}",
            text.count(candidate.cycles),
            text.size(candidate.hbm_bytes),
            text.size(candidate.vmem_bytes),
            text.count(candidate.spills),
        )


def autotune(op: Callable, *args, candidates: Iterable, chip: str = "v5e", limits=None, **keywords) -> Tuned:
    """Compile ``op(*args, **keywords, blocks=b)`` for each ``b`` of ``candidates``; rank them by predicted time.

    ``op`` is an op of the kernel library, or any function that takes ``blocks=``. ``args`` are arrays or
    ShapeDtypeStructs, and ``keywords`` may be too; other keywords are passed on unchanged (``activation="gelu"``).
    Times are predicted for ``chip``. Candidates that the op or the compiler refuses, or that get no cycle count, come
    last with the reason. The compiler's answers are cached, so nothing is compiled twice. ``limits`` are those of
    ``compile_tpu``, such as ``{"time_limit_s": 120, "memory_bytes": 6 << 30}``, because some candidates take long to
    simulate. Raises TypeError if ``op`` does not accept ``blocks`` or the arguments, ValueError for an unknown chip,
    for no candidates and if none of them compiles, and compiler.Unavailable if libtpu is missing.
    """
    chips.chip(chip)
    name, choices = _name(op), _distinct(candidates)
    _wants_blocks(op, name, args, keywords)
    op, args = _by_position(op, args, keywords)
    if compiler.libtpu_version() is None:
        raise compiler.Unavailable(compiler.missing_libtpu())
    found = []
    with progress.shown(f"autotune {name}") as say:
        for number, blocks in enumerate(choices, 1):
            say(f"autotune {name} for {chip}: {number} of {len(choices)}, {label(blocks)}")
            found.append(_tried(op, args, blocks, chip, limits or {}))
    ranked = sorted((c for c in found if c.cycles is not None), key=lambda c: c.cost)
    refused = [c for c in found if c.cycles is None]
    if not ranked:
        raise ValueError(_none_left(name, chip, refused))
    return Tuned(op=name, chip=chip, versions=compiler.tpu.versions(), candidates=(*ranked, *refused))


def _by_position(op: Callable, args: tuple, keywords: dict) -> tuple[Callable, tuple]:
    """Bind the keywords to ``op`` but move arrays among them to the positional arguments; return both."""
    arrays = {name: value for name, value in keywords.items() if hasattr(value, "shape") and hasattr(value, "dtype")}
    options = {name: value for name, value in keywords.items() if name not in arrays}

    @functools.wraps(op)
    def called(*operands, blocks):
        named = dict(zip(arrays, operands[len(args) :], strict=True))
        return op(*operands[: len(args)], **named, **options, blocks=blocks)

    return (called, (*args, *arrays.values())) if keywords else (op, args)


def label(blocks: Any) -> str:
    """Return blocks as a table row shows them: "bm=256 bn=1024"."""
    if dataclasses.is_dataclass(blocks):
        return " ".join(f"{f.name}={getattr(blocks, f.name)}" for f in dataclasses.fields(blocks))
    return str(blocks)


def _tried(op: Callable, args: tuple, blocks: Any, chip: str, limits: dict) -> Candidate:
    """Compile one candidate; return its figures, or the reason why it is not ranked."""
    fn = functools.partial(op, blocks=blocks)
    if gap := unwritten(fn, *args, chip=chip):
        return Candidate(blocks=blocks, why=gap)
    report = compiler.compile_tpu(fn, *args, chip=chip, **limits)
    if not report.ok or not report.cycles:
        return Candidate(blocks=blocks, why=_why(report))
    figures = {name: getattr(report, name) for name in ("seconds", "cycles", "hbm_bytes", "vmem_bytes", "spills")}
    return Candidate(blocks=blocks, **figures)


def unwritten(fn: Callable, *args, chip: str) -> str:
    """Return a complaint about output blocks of ``fn`` that no grid step writes; "" if there are none.

    Such a kernel is wrong, and faster because of it: ``grid=(m // bm,)`` has no steps at all if bm is larger than m.
    """
    try:
        walk = grid.walk(fn, *args, chip=chip)
    except Exception:  # if tracing or reading fails, let the compiler explain why
        return ""
    for call in walk.calls:
        for output in call.outputs:
            if output.pipelined and output.aliases is None and (left := output.unvisited()):
                blocks = np.prod(output.blocks)
                return (
                    f"no result: no step writes {len(left)} of the {blocks} blocks of {output.name}, for example "
                    f"{left[0]}. The grid is {call.grid}: do the blocks divide the array?"
                )
    return ""


def _why(report: compiler.Report) -> str:
    if not report.ok:
        return report.error.what
    return "it compiles; " + (report.notes[0] if report.notes else "no cycles: the simulator gave none")


def _distinct(candidates: Iterable) -> list:
    """Return the candidates in the order given, without duplicates."""
    if isinstance(candidates, (str, dict)) or not isinstance(candidates, Iterable):
        raise ValueError(
            f"autotune: candidates={candidates!r} is not a list of blocks. Give some, such as [Blocks(bm=256), "
            "Blocks(bm=512)]."
        )
    choices = []
    for blocks in candidates:
        if blocks not in choices:
            choices.append(blocks)
    if not choices:
        raise ValueError(
            "autotune: candidates is empty: there is nothing to choose from. Give at least one Blocks(...)."
        )
    return choices


def _wants_blocks(op: Callable, name: str, args: tuple, keywords: dict) -> None:
    if not callable(op):
        raise TypeError(f"autotune: op is {op!r}; it must be a function that takes blocks=. Try matmul.matmul.")
    try:
        signature = inspect.signature(op)
    except (TypeError, ValueError):  # a callable without a readable signature: let the call itself complain
        return
    parameters = signature.parameters.values()
    if not any(p.kind is p.VAR_KEYWORD or (p.name == "blocks" and p.kind is not p.POSITIONAL_ONLY) for p in parameters):
        takes = ", ".join(p.name for p in parameters) or "nothing"
        raise TypeError(
            f"{name} takes no blocks= (it takes {takes}), so there is nothing to choose. Wrap it: "
            f"autotune(lambda x, y, blocks: f(x, y, blocks), x, y, candidates=...)."
        )
    try:
        signature.bind(*args, **keywords, blocks=None)
    except TypeError as error:
        takes = ", ".join(signature.parameters)
        raise TypeError(f"autotune: {name} cannot be called like this: {error}. It takes {takes}.") from None


def _name(op: Callable) -> str:
    if isinstance(op, functools.partial):
        return _name(op.func)
    name = getattr(op, "__name__", type(op).__name__)
    return "op" if name == "<lambda>" else name


def _none_left(name: str, chip: str, refused: list[Candidate]) -> str:
    """Return the message for when no candidate is left: each reason once, the most frequent first."""
    reasons = collections.Counter(c.why for c in refused).most_common()
    lines = [f"autotune: none of the {len(refused)} candidates of {name} can be ranked for {chip}:"]
    lines += [f"  {label(next(c.blocks for c in refused if c.why == why))}: {why}" for why, _ in reasons[:3]]
    if len(reasons) > 3:
        lines.append(f"  and {len(reasons) - 3} more reasons")
    return "\n".join([*lines, "Try smaller blocks, or those the op chooses itself (blocks=None)."])
