"""What is differentiated, and its gradient for other cotangents: what the slips of a gradient are computed with."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax

from course_lib.judges.slips.slip import Suspect


class Problem(NamedTuple):
    """What is differentiated: ``backwards(*args, g)`` returns the gradients at ``places`` and the value.

    ``pre`` and ``activation`` as in ``Gradient``; ``names`` are those of the arguments.
    """

    reference: Callable
    backwards: Callable
    places: tuple[int, ...]
    names: tuple[str, ...]
    pre: Callable | None
    activation: Callable | None


def at(problem: Problem, args: tuple, dz) -> tuple:
    """The gradients for the cotangent ``dz`` of the pre-activation; of the value, where none is declared."""
    pre = problem.pre or problem.reference

    def of_these(*values):
        changed = [*args]
        for place, value in zip(problem.places, values, strict=True):
            changed[place] = value
        return pre(*changed)

    z, pull_back = jax.vjp(of_these, *(args[place] for place in problem.places))
    return pull_back(dz.astype(z.dtype))


def dz_of(problem: Problem, args: tuple, g):
    """The cotangent of the pre-activation; g where no activation is declared."""
    return g if problem.activation is None else through(problem.activation, problem.pre(*args), g)


def through(activation: Callable, z, g):
    y, pull_back = jax.vjp(activation, z)
    return pull_back(g.astype(y.dtype))[0]


def of_dz(problem: Problem, means: str, next: str, args: tuple, dz) -> Suspect:
    return Suspect(means, next, lambda *a: at(problem, a[:-1], a[-1]), (*args, dz))
