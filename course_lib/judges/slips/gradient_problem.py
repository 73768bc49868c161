"""The function to differentiate, and its gradient for other cotangents, from which gradient slips are computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax

from course_lib.judges.running.pulling_back import vjp_at
from course_lib.judges.slips.slip import Suspect


class Problem(NamedTuple):
    """What is differentiated: ``backwards(*args, g)`` returns the gradients at ``places`` and the value.

    ``pre`` and ``activation`` are as in ``Gradient``; ``names`` are those of the arguments.
    """

    reference: Callable
    backwards: Callable
    places: tuple[int, ...]
    names: tuple[str, ...]
    pre: Callable | None
    activation: Callable | None
    written_out: bool = False  # whether ``backwards`` is a formula that somebody wrote, and not a vjp


def at(problem: Problem, args: tuple, dz) -> tuple:
    """Return the gradients for the cotangent ``dz`` of the pre-activation, or of the value if there is none."""
    z, pull_back = vjp_at(problem.pre or problem.reference, problem.places, args)
    return pull_back(dz.astype(z.dtype))


def dz_of(problem: Problem, args: tuple, g):
    """Return the cotangent of the pre-activation; g if no activation is declared."""
    return g if problem.activation is None else through(problem.activation, problem.pre(*args), g)


def through(activation: Callable, z, g):
    y, pull_back = jax.vjp(activation, z)
    return pull_back(g.astype(y.dtype))[0]


def of_dz(problem: Problem, means: str, next: str, args: tuple, dz) -> Suspect:
    return Suspect(means, next, lambda *a: at(problem, a[:-1], a[-1]), (*args, dz))
