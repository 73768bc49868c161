"""Constant folding of index maps, as libtpu does it before it decides whether a block moves.

``j * 0``, ``j % 1``, ``j - j`` and ``jnp.where(j < 4, 0, 0)`` fold to a constant. ``j // 4`` and ``jnp.minimum(j, 0)``
do not, even if they have the same value at every step. A test asks libtpu 0.0.48 about each of these.
"""

import operator
from collections.abc import Sequence

from course_lib.grid.jaxprs import called, is_variable

_ON_NUMBERS = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "max": max,
    "min": min,
}
_OF_EQUALS = {"sub": 0, "xor": 0, "eq": True, "le": True, "ge": True, "ne": False, "lt": False, "gt": False}


def folded(jaxpr, inputs: Sequence) -> list:
    """Return what a jaxpr returns for plain numbers or terms: a number where it is determined, otherwise a term.

    A term is any tuple, for example ("axis", n). The terms made here name the operation and hold its inputs.
    """
    known = dict(zip(jaxpr.invars, inputs, strict=False))

    def value(atom):
        if is_variable(atom):
            return known.get(atom, ("constant", id(atom)))
        return atom.val.item() if hasattr(atom.val, "item") and atom.val.ndim == 0 else atom.val

    for eqn in jaxpr.eqns:
        values = [value(atom) for atom in eqn.invars]
        inner = called(eqn)
        results = [_result(eqn, values)] if inner is None else folded(getattr(inner, "jaxpr", inner), values)
        if len(results) != len(eqn.outvars):
            results = [("unknown", id(eqn), *values)] * len(eqn.outvars)
        known.update(zip(eqn.outvars, results, strict=True))
    return [value(atom) for atom in jaxpr.outvars]


def holds(term, part: tuple) -> bool:
    """Whether ``part`` went into a term."""
    return isinstance(term, tuple) and (term == part or any(holds(inner, part) for inner in term))


def _result(eqn, values: list):
    """Return the result of one operation: a number, one of its inputs, or a term."""
    name = eqn.primitive.name
    if name == "select_n":
        return _chosen(eqn, *values)
    if name in ("convert_element_type", "copy"):
        return values[0]
    if name in _ON_NUMBERS and not any(isinstance(v, tuple) for v in values):
        return _ON_NUMBERS[name](*values)
    if len(values) == 2:
        one, other = values
        if one == other and isinstance(one, tuple):
            if name in _OF_EQUALS:
                return _OF_EQUALS[name]
            if name in ("max", "min", "and", "or"):
                return one
        if name in ("mul", "and") and any(v is False or (v == 0 and not isinstance(v, tuple)) for v in values):
            return 0
        if name == "rem" and other == 1:
            return 0
        if (name == "div" and other == 1) or (name in ("add", "sub") and other == 0) or (name == "mul" and other == 1):
            return one
        if (name == "add" and one == 0) or (name == "mul" and one == 1):
            return other
    return (name, *values) if name in _ON_NUMBERS else ("unknown", id(eqn), *values)


def _chosen(eqn, which, *cases):
    if not isinstance(which, tuple):
        return cases[int(which)]
    return cases[0] if all(case == cases[0] for case in cases) else ("unknown", id(eqn), which, *cases)
