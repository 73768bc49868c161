"""A kernel's body as one flat list of operations, with calls and branches inlined: what each value depends on."""

import itertools
from collections.abc import Callable, Iterable
from typing import NamedTuple

from course_lib.grid.jaxprs import called, inside, is_variable, scan_parts, while_parts

LITERAL = "literal"  # a pseudo-operation: a literal that is handed to a call, which its ``eqn`` is
EITHER = "either"  # a pseudo-operation at the end of a branch or a loop body: its output is one of its inputs


class Op(NamedTuple):
    """One operation. Values are integers; an input that is a literal is None."""

    name: str  # of the primitive
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    eqn: object = None


def operations(kernel) -> tuple[list[Op], list[int], dict[int, str]]:
    """Return (the operations of a kernel in order, the values of its refs, the names of what loops carry).

    A loop's body is listed once. A loop carry counts as a ref: an iteration begins with a "get" of it, and ends with a
    "swap" of the new value.
    """
    numbers, ops, carried = itertools.count(), [], {}
    refs = [next(numbers) for _ in kernel.invars]
    _listed(kernel, refs, numbers, ops, carried)
    return ops, refs, carried


def _listed(jaxpr, inputs: list, numbers, ops: list[Op], carried: dict[int, str]) -> list:
    """Append the operations of a jaxpr to ``ops`` and return the values of its outputs."""
    env = dict(zip(jaxpr.invars, inputs, strict=True))

    def value(atom):
        return env.get(atom) if is_variable(atom) else None

    for eqn in jaxpr.eqns:
        given, name = [value(v) for v in eqn.invars], eqn.primitive.name
        if name == "cond":
            ends = [_listed(branch, given[1:], numbers, ops, carried) for branch in eqn.params["branches"]]
            outputs = [_one_of(of_each, numbers, ops) for of_each in zip(*ends, strict=True)]
        elif name == "scan":
            outputs = _loop(eqn.params["jaxpr"], *scan_parts(eqn, given), numbers, ops, carried)
        elif name == "while":
            _, consts, begun = while_parts(eqn, given)
            outputs = _loop(eqn.params["body_jaxpr"], consts, begun, [], numbers, ops, carried)
        elif (inner := called(eqn)) is not None and len(inner.invars) == len(given):
            handed = [
                _literal(v, numbers, ops) if hasattr(v, "val") else n for v, n in zip(eqn.invars, given, strict=True)
            ]
            outputs = _listed(inner, handed, numbers, ops, carried)
        else:
            outputs = [next(numbers) for _ in eqn.outvars]
            ops.append(Op(name, tuple(given), tuple(outputs), eqn))
            for other in inside(eqn):  # run_scoped: its inputs are not the refs of its body
                _listed(other, [next(numbers) for _ in other.invars], numbers, ops, carried)
        env.update(zip(eqn.outvars, outputs, strict=True))
    return [value(v) for v in jaxpr.outvars]


def _literal(atom, numbers, ops: list[Op]) -> int:
    """List a literal that is handed to a call, and return its number: what is called knows it as a variable."""
    number = next(numbers)
    ops.append(Op(LITERAL, (), (number,), atom))
    return number


def _loop(body, consts: list, begun: list, slices: list, numbers, ops: list[Op], carried: dict[int, str]) -> list:
    """List one iteration of a loop and return the values that it ends with."""
    places = [next(numbers) for _ in begun]
    counts = bool(begun) and body.invars[len(consts)].aval.shape == () and len(begun) > 1  # fori_loop's own counter
    carried |= {place: f"carry[{n - counts}] of the loop" for n, place in enumerate(places)}
    held = [next(numbers) for _ in begun]
    ops += [Op("get", both, (value,)) for both, value in zip(zip(places, begun, strict=True), held, strict=True)]
    ends = _listed(body, [*consts, *held, *slices], numbers, ops, carried)
    ops += [Op("swap", both, (next(numbers),)) for both in zip(places, ends[: len(begun)], strict=True)]
    return [_one_of((end,), numbers, ops) for end in ends]


def _one_of(values: Iterable, numbers, ops: list[Op]) -> int:
    number = next(numbers)
    ops.append(Op(EITHER, tuple(values), (number,)))
    return number


def spread(ops: list[Op], values: set[int], stops: Callable[[Op], bool] = lambda op: False) -> set[int]:
    """Return all values that depend on ``values``; an operation that ``stops`` passes nothing on."""
    reached = set(values)
    for op in ops:
        if not reached.isdisjoint(op.inputs) and not stops(op):
            reached.update(op.outputs)
    return reached


def read(ops: list[Op], ref: int) -> set[int]:
    """Return the values that are read from a ref."""
    return {op.outputs[0] for op in ops if op.name == "get" and op.inputs[0] == ref}
