"""A computation as stages that read arrays from HBM and write arrays to it: what each moves, and what is kept.

These are plain data, checked when made, for ``traffic`` and ``gradient_flow``.
"""

import dataclasses
import operator
from collections.abc import Mapping, Sequence
from typing import NamedTuple

MOST_STAGES, MOST_MOVES, MOST_VARIANTS = 12, 8, 4  # room in a picture


@dataclasses.dataclass(frozen=True)
class Stage:
    """One operation, a kernel or one of XLA's. ``reads`` and ``writes``: array -> bytes moved from and to HBM.

    Raises ValueError for an empty name, for bytes that are not an integer of 0 or more, and if nothing is moved.
    """

    name: str
    reads: Mapping[str, int] = dataclasses.field(default_factory=dict)
    writes: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if not isinstance(self.name, str) or not self.name.strip():
            raise ValueError(f"Stage: name={self.name!r} is not a name. Say what the stage does, in a word or two.")
        for field in ("reads", "writes"):
            object.__setattr__(self, field, _checked_moves(field, getattr(self, field)))
        if not self.reads and not self.writes:
            raise ValueError(f"Stage: {self.name!r} neither reads nor writes an array. Name one in reads or in writes.")
        if len(self.moves) > MOST_MOVES:
            raise ValueError(
                f"Stage: {self.name!r} moves {len(self.moves)} arrays, but there is room for {MOST_MOVES}. Put small "
                "ones together under one name."
            )

    @property
    def moves(self) -> tuple["Move", ...]:
        """The arrays that it reads, then those that it writes."""
        found = [(self.reads, "read"), (self.writes, "write")]
        return tuple(Move(array, size, way) for arrays, way in found for array, size in arrays.items())

    @property
    def bytes(self) -> int:
        """Bytes moved between HBM and the core."""
        return sum(move.bytes for move in self.moves)


class Move(NamedTuple):
    """One array moved. ``way``: "read", from HBM to the core, or "write", back."""

    array: str
    bytes: int
    way: str


def _checked_moves(field: str, given: object) -> dict[str, int]:
    if not isinstance(given, Mapping):
        raise ValueError(f"Stage: {field}={given!r} is not a dict of array -> bytes, such as {{'x': 4096}}.")
    found = {}
    for array, size in given.items():
        try:
            found[str(array)] = operator.index(size)
        except TypeError:
            found[str(array)] = -1
        if found[str(array)] < 0 or isinstance(size, bool) or not str(array).strip():
            raise ValueError(
                f"Stage: {field}[{array!r}]={size!r} is not a number of bytes. Give a whole number, 0 or more, for an "
                "array that has a name."
            )
    return found


def total(stages: Sequence[Stage]) -> int:
    """Return the bytes that all stages move."""
    return sum(stage.bytes for stage in stages)


def read_back(stages: Sequence[Stage]) -> set[str]:
    """Return the arrays that one stage writes and a later one reads."""
    found, written = set(), set()
    for stage in stages:
        found |= written & set(stage.reads)
        written |= set(stage.writes)
    return found


def residuals(forward: Sequence[Stage], backward: Sequence[Stage]) -> dict[str, int]:
    """Return the arrays of the forward stages that backward stages read, and their bytes: what must be kept.

    The size of an array is what the forward stages write of it. If they only read it, its size is the fewest bytes that
    any stage reads, because a stage may read it several times over.
    """
    wanted = {array for stage in backward for array in stage.reads}
    made = {move.array for stage in backward for move in stage.moves if move.way == "write"}
    touched = dict.fromkeys(move.array for stage in forward for move in stage.moves)
    found = {}
    for array in touched:
        if array not in wanted or (array in made and not _read_first(array, backward)):
            continue
        written = [stage.writes[array] for stage in forward if array in stage.writes]
        read = [stage.reads[array] for stage in (*forward, *backward) if array in stage.reads]
        found[array] = max(written) if written else min(read)
    return found


def _read_first(array: str, stages: Sequence[Stage]) -> bool:
    """Whether the first stage that touches the array reads it."""
    first = next(stage for stage in stages if array in stage.reads or array in stage.writes)
    return array in first.reads


def checked_variants(who: str, variants: object, check) -> dict:
    """Apply ``check(name, value)`` to each variant. Raises ValueError with a message that begins with ``who``."""
    if not isinstance(variants, Mapping) or not variants:
        raise ValueError(f"{who}: variants={variants!r} is not a dict of name -> stages with something in it.")
    if len(variants) > MOST_VARIANTS:
        raise ValueError(f"{who}: {len(variants)} variants are too many to compare. Give at most {MOST_VARIANTS}.")
    return {str(name): check(str(name), value) for name, value in variants.items()}


def checked_stages(who: str, where: str, stages: object) -> tuple[Stage, ...]:
    """Check a list of stages. Raises ValueError with a message that begins with ``who`` and says ``where``."""
    given = list(stages) if isinstance(stages, Sequence) and not isinstance(stages, str) else [stages]
    if not given or not all(isinstance(stage, Stage) for stage in given) or given == [stages]:
        raise ValueError(
            f"{who}: {where} is {stages!r}. Give a list of viz.Stage(name, reads={{...}}, writes={{...}})."
        )
    if len(given) > MOST_STAGES:
        raise ValueError(f"{who}: {where} has {len(given)} stages, but there is room for {MOST_STAGES}.")
    return tuple(given)
