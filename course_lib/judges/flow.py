"""A kernel's body as one flat list of operations: what each value is made of, whatever calls and branches it is in."""

import itertools
from collections.abc import Callable, Iterable
from typing import NamedTuple

from course_lib.grid.jaxprs import called, inside, is_variable

EITHER = "either"  # the name of the operation that stands for the end of a branch or a turn: one of its inputs


class Op(NamedTuple):
    """One operation. Values are numbers; an input that is written in the program itself is None."""

    name: str  # of the primitive
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    eqn: object = None


def operations(kernel) -> tuple[list[Op], list[int]]:
    """(the operations of a kernel in order, the values that are its refs). A loop's body is listed once."""
    numbers, ops = itertools.count(), []
    refs = [next(numbers) for _ in kernel.invars]
    _listed(kernel, refs, numbers, ops)
    return ops, refs


def _listed(jaxpr, inputs: list, numbers, ops: list[Op]) -> list:
    """Put the operations of a jaxpr into ``ops``; the values that it returns."""
    env = dict(zip(jaxpr.invars, inputs, strict=True))

    def value(atom):
        return env.get(atom) if is_variable(atom) else None

    for eqn in jaxpr.eqns:
        given, name = [value(v) for v in eqn.invars], eqn.primitive.name
        if name == "cond":
            ends = [_listed(branch, given[1:], numbers, ops) for branch in eqn.params["branches"]]
            outputs = [_one_of(of_each, numbers, ops) for of_each in zip(*ends, strict=True)]
        elif (inner := called(eqn)) is not None and len(inner.invars) == len(given):
            outputs = _listed(inner, given, numbers, ops)
            if name == "scan":
                outputs = [_one_of((end,), numbers, ops) for end in outputs]
        elif name == "while":
            body, first = eqn.params["body_jaxpr"], eqn.params["cond_nconsts"]
            outputs = _listed(body, given[first:], numbers, ops)
            begun = given[len(given) - len(outputs) :]
            outputs = [_one_of(both, numbers, ops) for both in zip(begun, outputs, strict=True)]
        else:
            outputs = [next(numbers) for _ in eqn.outvars]
            ops.append(Op(name, tuple(given), tuple(outputs), eqn))
            for other in inside(eqn):  # run_scoped: what it takes are not the refs that its body gets
                _listed(other, [next(numbers) for _ in other.invars], numbers, ops)
        env.update(zip(eqn.outvars, outputs, strict=True))
    return [value(v) for v in jaxpr.outvars]


def _one_of(values: Iterable, numbers, ops: list[Op]) -> int:
    number = next(numbers)
    ops.append(Op(EITHER, tuple(values), (number,)))
    return number


def spread(ops: list[Op], values: set[int], stops: Callable[[Op], bool] = lambda op: False) -> set[int]:
    """All values that are made of ``values``, directly or not; nothing comes through an operation that ``stops``."""
    reached = set(values)
    for op in ops:
        if not reached.isdisjoint(op.inputs) and not stops(op):
            reached.update(op.outputs)
    return reached


def read(ops: list[Op], ref: int) -> set[int]:
    """The values that are read from a ref."""
    return {op.outputs[0] for op in ops if op.name == "get" and op.inputs[0] == ref}
