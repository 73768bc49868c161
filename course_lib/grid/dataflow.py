"""What flows into each store of a kernel's body: which refs its values come from, or nothing but zeros.

Only the program is read; nothing is run. What flows in through some branches but not all flows in *perhaps*.
"""

import dataclasses
from collections.abc import Sequence

from course_lib.grid.call import Call
from course_lib.grid.jaxprs import bodies, called, is_variable, scan_parts, while_parts

_SAME = ("broadcast_in_dim", "convert_element_type", "reshape", "squeeze", "transpose", "copy")
_ALL = frozenset


@dataclasses.dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a value comes from. ``zero``: it is a constant, zero everywhere."""

    refs: frozenset[str] = _ALL()  # that were read for it
    perhaps: frozenset[str] = _ALL()  # those of ``refs`` that depend on a condition or a select
    zero: bool = False

    def either(self, other: "Origin") -> "Origin":
        """Return the origin of a value that is one or the other."""
        differ = self.refs ^ other.refs
        return Origin(
            refs=self.refs | other.refs,
            perhaps=self.perhaps | other.perhaps | differ,
            zero=self.zero and other.zero,
        )


class _Name(str):
    """A ref in the place of a value."""


def stores(call: Call) -> dict[tuple[int, str], Origin]:
    """Return {(id of the equation, name of the ref): origin of the stored value} for each store in the body."""
    names = [o.name for o in call.operands] + [s.name for s in call.scratch]
    found = {}
    _follow(call.kernel, [_Name(name) for name in names], found)
    return found


def _follow(jaxpr, inputs: Sequence, found: dict, consts: Sequence | None = None) -> list:
    consts = [Origin()] * len(jaxpr.constvars) if consts is None else consts
    env = dict(zip(jaxpr.constvars, consts, strict=True)) | dict(zip(jaxpr.invars, inputs, strict=True))

    def value(atom):
        return env[atom] if is_variable(atom) else Origin(zero=_is_zero(atom.val))

    for eqn in jaxpr.eqns:
        outputs = _equation(eqn, [value(atom) for atom in eqn.invars], found)
        env.update(zip(eqn.outvars, outputs, strict=True))
    return [value(atom) for atom in jaxpr.outvars]


def _equation(eqn, inputs: list, found: dict) -> list:
    name = eqn.primitive.name
    if name == "get":
        return [_mixed(inputs)]
    if name in ("swap", "addupdate", "masked_swap"):
        return _store(eqn, inputs, found)
    if name == "select_n":
        predicate, first, *others = inputs
        chosen = first
        for other in others:
            chosen = chosen.either(other)
        return [dataclasses.replace(chosen, refs=chosen.refs | predicate.refs)]
    if name in ("cond", "scan", "while"):
        return _branching(eqn, inputs, found)
    if name == "run_scoped":
        inner = eqn.params["jaxpr"]
        return _follow(inner, [_Name(f"scoped {id(v)}") for v in inner.invars], found, consts=inputs)
    if (inner := called(eqn)) is not None:
        return _follow(inner, inputs, found)
    if name in _SAME:
        return [inputs[0]]
    return [_mixed(inputs)] * len(eqn.outvars)


def _store(eqn, inputs: list, found: dict) -> list:
    ref, value = inputs[:2]
    if eqn.primitive.name != "swap":  # addupdate keeps the old values; a masked store keeps a part of them
        kept = Origin(refs=_ALL([ref]), perhaps=_ALL([ref] if eqn.primitive.name == "masked_swap" else []))
        value = _mixed([kept, *inputs[1:]])
    key = id(eqn), str(ref)
    found[key] = found[key].either(value) if key in found else value
    return [Origin(refs=_ALL([str(ref)]))] * len(eqn.outvars)


def _branching(eqn, inputs: list, found: dict) -> list:
    if eqn.primitive.name == "cond":
        _, *rest = inputs
        outputs = [_follow(branch, rest, found) for branch in bodies(eqn)]
        return [_any_of(each) for each in zip(*outputs, strict=True)]
    (body,) = bodies(eqn)
    if eqn.primitive.name == "scan":
        consts, carry, xs = scan_parts(eqn, inputs)
    else:
        _, consts, carry = while_parts(eqn, inputs)
        xs = []
    while True:  # until another iteration adds nothing new
        outputs = _follow(body, [*consts, *carry, *xs], found)
        again = [old if isinstance(old, _Name) else old.either(new) for old, new in zip(carry, outputs, strict=False)]
        if again == carry:
            return [*carry, *outputs[len(carry) :]]
        carry = again


def _any_of(values: Sequence) -> Origin:
    one, *others = values
    for other in others:
        one = one if isinstance(one, _Name) else one.either(other)
    return one


def _mixed(inputs: Sequence) -> Origin:
    """Return the origin of a value that all inputs flow into."""
    origins = [Origin(refs=_ALL([str(v)])) if isinstance(v, _Name) else v for v in inputs]
    sure = _ALL().union(*(o.refs - o.perhaps for o in origins))
    return Origin(
        refs=_ALL().union(*(o.refs for o in origins)), perhaps=_ALL().union(*(o.perhaps for o in origins)) - sure
    )


def _is_zero(value: object) -> bool:
    try:
        return not bool(value) and value is not None
    except (TypeError, ValueError):  # an array, a key
        return False
