"""Slips in what a backward rule has saved: an argument exchanged, transposed, rounded, or replaced by another."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import jax
import jax.numpy as jnp

from course_lib.judges.slips.gradient_problem import Problem, dz_of, of_dz, through
from course_lib.judges.slips.slip import Suspect
from course_lib.judges.wrong_outputs.finding import Finding

_READ_ANEW = "compare what the forward rule saves, and in which order, with how the backward rule unpacks it."


def residuals(found: Finding, problem: Problem) -> Iterator[Suspect]:
    """Yield the gradient at other arguments: exchanged, transposed, rounded, or the output in place of one."""
    *args, g = found.args
    dz, y = dz_of(problem, args, g), problem.backwards(*args, g)[-1]
    names = problem.names
    for place, arg in enumerate(args):
        if not jnp.issubdtype(arg.dtype, jnp.floating):
            continue
        for means, next, other in _in_place_of(names, args, place, y):
            changed = [*args]
            changed[place] = other
            yield of_dz(problem, means, next, changed, dz)
            yield Suspect(means, next, problem.backwards, (*changed, g))
    yield from _read_for_another(problem, args, g, dz)
    yield from _multiplied_by(found, problem, args)
    for first, second in itertools.combinations(range(len(args)), 2):
        if (args[first].shape, args[first].dtype) == (args[second].shape, args[second].dtype):
            changed = [*args]
            changed[first], changed[second] = args[second], args[first]
            means = f"it is the gradient with {names[first]} and {names[second]} swapped"
            yield of_dz(problem, means, _READ_ANEW, changed, dz)
            yield Suspect(means, _READ_ANEW, problem.backwards, (*changed, g))
    if g.dtype == jnp.float32:
        if problem.activation is not None:
            z = problem.pre(*args)
            yield of_dz(
                problem,
                "the slope is computed from a z that was rounded to bfloat16",
                "save z in float32, or recompute it.",
                args,
                through(problem.activation, _rounded(z), g),
            )
        yield of_dz(
            problem,
            "the cotangent was rounded to bfloat16 before the matmul",
            "keep it in float32, and use precision=HIGHEST in the matmul.",
            args,
            _rounded(dz),
        )


def _read_for_another(problem: Problem, args: list, g, dz) -> Iterator[Suspect]:
    """Yield an argument in the place of another one that is spread over more axes, or fewer."""
    for place, other in itertools.permutations(range(len(args)), 2):
        changed = [*args]
        changed[place] = args[other]
        means = f"{problem.names[other]} is used where {problem.names[place]} should be"
        yield of_dz(problem, means, _READ_ANEW, changed, dz)
        yield Suspect(means, _READ_ANEW, problem.backwards, (*changed, g))


def _multiplied_by(found: Finding, problem: Problem, args: list) -> Iterator[Suspect]:
    """Yield the gradient with an argument as a factor too many."""
    want = found.want.value
    for name, arg in zip(problem.names, args, strict=True):
        if arg.shape == want.shape[want.ndim - arg.ndim :]:
            yield Suspect(
                f"it is multiplied by {name} once too often",
                f"count the factors {name} in the formula of {found.name}.",
                lambda value, by: value * by.astype(value.dtype),
                (want, arg),
            )


def _in_place_of(names: tuple[str, ...], args: list, place: int, y) -> Iterator[tuple[str, str, jax.Array]]:
    """Yield (meaning, what to try, array) for each array that a backward rule may use as argument ``place``."""
    arg, name = args[place], names[place]
    if arg.ndim == 2 and arg.shape[0] == arg.shape[1]:
        yield (
            f"{name} is transposed in it where it should not be, or the reverse",
            f"check which axis of {name} is contracted with the cotangent. The shapes do not show it, because {name} "
            "is square.",
            arg.T,
        )
    if isinstance(y, jax.Array) and (y.shape, y.dtype) == (arg.shape, arg.dtype):
        yield (
            f"the output is used where {name} should be: the backward rule misreads a residual",
            (_READ_ANEW),
            y,
        )
    if arg.dtype == jnp.float32:
        yield (
            f"it is computed from {name} rounded to bfloat16",
            f"save {name} as it was passed, in float32: the gradient is no more precise than its residuals.",
            _rounded(arg),
        )
    if jnp.issubdtype(arg.dtype, jnp.floating):
        yield (
            f"{name} is left out of it, as if it were 1 everywhere",
            f"the chain rule multiplies by {name} where the function does: check for a missing factor.",
            jnp.ones_like(arg),
        )
    yield (
        f"it is computed as if {name} were 0",
        f"check that {name} is read, and that the residual is the one that was saved.",
        jnp.zeros_like(arg),
    )


def _rounded(array: jax.Array) -> jax.Array:
    """Round to bfloat16 and keep the dtype."""
    return array.astype(jnp.bfloat16).astype(array.dtype)
