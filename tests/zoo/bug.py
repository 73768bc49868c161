"""One planted bug, as data."""

import dataclasses
from collections.abc import Callable

import numpy as np


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bug:
    """A kernel that is wrong, what it should compute, and who has to say so in which words.

    ``fn(*args)`` and ``reference(*args)`` return the same arrays; the reference is jnp, in the precision asked for.
    """

    name: str
    kind: str
    fn: Callable
    reference: Callable
    args: tuple[np.ndarray, ...]
    caught_by: str | None  # the first judge, in the order of judges.JUDGES, that refuses it; None: nobody can
    says: str = ""  # a regular expression: what a learner should read in the verdict's message and advice
    undetectable: str = ""  # why nobody can, if nobody can
