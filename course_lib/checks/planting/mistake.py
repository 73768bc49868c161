"""One mistake that can be made in a kernel: what it means, where it is, and the kernel call that has it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple


class Place(NamedTuple):
    """Where a mistake is, in words that hold for every trace of a function: other sizes give other equations."""

    call: int  # which kernel of the function
    kind: str
    number: int  # which of the mistakes of this kind in that kernel


class Change(NamedTuple):
    """A mistake as the module of its family finds it: a change of the parameters of a kernel call."""

    kind: str  # "initialization", "mask" ...: three mistakes of different kinds are planted
    means: str  # a clause about the kernel that has it: "acc_ref is not initialized"
    shows: str  # what a test must do to see it, as an instruction
    eqn: object  # the equation that it concerns, for its line; None if there is none
    made: Callable[[], dict]  # returns the parameters of the kernel call with the mistake


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mistake:
    """A mistake that can be planted in a traced function."""

    place: Place
    means: str
    shows: str
    line: str  # "line 3 of kernel"; "" if it is not known

    @property
    def said(self) -> str:
        """The clause, with the line: "acc_ref is not initialized (line 3 of kernel)"."""
        return f"{self.means} ({self.line})" if self.line else self.means
