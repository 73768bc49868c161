"""One planted bug, as data."""

import dataclasses
from collections.abc import Callable

import numpy as np

from course_lib import judges


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bug:
    """A kernel that is wrong, what it should compute, and who has to say so in which words.

    ``fn(*args)`` and ``reference(*args)`` return the same arrays; the reference is jnp, in the precision asked for.
    ``gradient``: what is judged is the gradient of ``fn``, as ``judges.judge_gradient`` asks for it.
    """

    name: str
    kind: str
    fn: Callable
    reference: Callable
    args: tuple[np.ndarray, ...]
    caught_by: str | None  # the first judge, in the order of judges.JUDGES, that refuses it; None: nobody can
    says: str = ""  # a regular expression: what a learner should read in the verdict's message and advice
    undetectable: str = ""  # why nobody can, if nobody can
    gradient: bool = False
    chip: str = "v5e"  # on which it shows

    def trial(self) -> judges.Trial:
        """What is put before the judges."""
        if self.gradient:
            asked = judges.Gradient(zeros=False)
            return judges.gradient.trials(asked, self.fn, self.reference, [judges.trial.arrays(self.args)], self.chip)[
                0
            ]
        return judges.Trial(self.fn, self.reference, self.args, self.chip)
