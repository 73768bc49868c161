"""A reference as a flat list of steps, which can run with some values replaced."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import NamedTuple

import jax

from course_lib.grid import jaxprs


class Step(NamedTuple):
    """One operation. Values are integers."""

    name: str  # of the primitive
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    eqn: object


class Steps(NamedTuple):
    """All steps of a function, with its calls inlined; loops and conditions are one step each."""

    steps: tuple[Step, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: dict[int, object]  # values known in advance
    made: dict[int, Step]  # value -> the step that makes it


def steps_of(fn: Callable, args: tuple) -> Steps:
    """Return the steps of ``fn(*args)``. Raises what tracing it raises."""
    numbers, steps, constants = itertools.count(), [], {}
    closed = jax.make_jaxpr(fn)(*args)
    inputs = tuple(next(numbers) for _ in closed.jaxpr.invars)
    outputs = _listed(closed, inputs, numbers, steps, constants)
    made = {output: step for step in steps for output in step.outputs}
    return Steps(tuple(steps), inputs, tuple(outputs), constants, made)


def _listed(closed, inputs: Iterable[int], numbers, steps: list[Step], constants: dict) -> list[int]:
    env = dict(zip(closed.jaxpr.invars, inputs, strict=True))

    def known(value) -> int:
        number = next(numbers)
        constants[number] = value
        return number

    env |= {var: known(value) for var, value in zip(closed.jaxpr.constvars, closed.consts, strict=True)}

    def value(atom) -> int:
        return env[atom] if jaxprs.is_variable(atom) else known(atom.val)

    for eqn in closed.jaxpr.eqns:
        given = [value(v) for v in eqn.invars]
        inner = None if jaxprs.bodies(eqn) else jaxprs.called(eqn)
        if inner is not None and hasattr(inner, "consts") and len(inner.jaxpr.invars) == len(given):
            outputs = _listed(inner, given, numbers, steps, constants)
        else:
            outputs = [next(numbers) for _ in eqn.outvars]
            steps.append(Step(eqn.primitive.name, tuple(given), tuple(outputs), eqn))
        env.update(zip(eqn.outvars, outputs, strict=True))
    return [value(v) for v in closed.jaxpr.outvars]


def run(steps: Steps, args: tuple, instead: dict[int, Callable[[dict], object]] | None = None) -> dict[int, object]:
    """Return every value by its number; a function in ``instead`` replaces a value, given those before it."""
    instead = instead or {}
    env = dict(steps.constants) | dict(zip(steps.inputs, jax.tree.leaves(args), strict=True))
    env |= {number: instead[number](env) for number in steps.inputs if number in instead}
    for step in steps.steps:
        _take(step, env)
        for number in step.outputs:
            if number in instead:
                env[number] = instead[number](env)
    return env


def run_on(steps: Steps, env: dict[int, object], value: int, other: object) -> dict[int, object]:
    """Return every value if ``value`` is ``other``; ``env`` has all as they are, and what stands before it stays."""
    env, changed = env | {value: other}, {value}
    for step in steps.steps:
        if not changed.isdisjoint(step.inputs):
            _take(step, env)
            changed.update(step.outputs)
    return env


def _take(step: Step, env: dict[int, object]) -> None:
    """Compute the outputs of a step into ``env``."""
    primitive = step.eqn.primitive
    found = primitive.bind(*(env[n] for n in step.inputs), **primitive.get_bind_params(step.eqn.params))
    env.update(zip(step.outputs, found if primitive.multiple_results else [found], strict=True))


def through(steps: Steps, value: int, names: Iterable[str]) -> int:
    """Follow ``value`` back through steps with these names, along their first inputs, and return where it starts."""
    while (step := steps.made.get(value)) is not None and step.name in names:
        value = step.inputs[0]
    return value


def before(steps: Steps, value: int) -> list[Step]:
    """Return the steps that ``value`` depends on, the nearest first."""
    found, wanted = [], {value}
    for step in reversed(steps.steps):
        if not wanted.isdisjoint(step.outputs):
            found.append(step)
            wanted.update(step.inputs)
    return found
