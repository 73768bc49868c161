"""Hard-coded numbers: a kernel that is right once a length in it is another, or a shift goes one bit less or more far.

It is found by trying: the number is replaced and the kernel runs again. Only what was seen is said.
"""

from collections.abc import Callable

import jax
import jax.extend.core
import numpy as np

from course_lib.grid import jaxprs
from course_lib.judges.running.interpreted import Traced
from course_lib.judges.tolerance.expected import right
from course_lib.judges.verdict import Complaint
from course_lib.judges.wrong_outputs.dependence import argument_name
from course_lib.judges.wrong_outputs.finding import Finding

_SHIFTS = {"shift_right_arithmetic", "shift_right_logical", "shift_left"}
_LEAST = 8  # a smaller number may mean anything
_MOST_TRIES = 8  # because each is a compile
_MOST_STEPS = 2_000  # of the grid, in all tries


def written_in(found: Finding) -> Complaint | None:
    """Report a number n or 1/n in the kernel that makes all of it right when replaced by an argument's axis length."""
    steps = 1 + sum(call.steps for call in found.walk.calls)
    tries = [(old, to) for old in sorted(_numbers(found)) for to in _lengths(found) if to != old]
    if found.run is None or not 0 < len(tries) <= _MOST_TRIES or steps * len(tries) > _MOST_STEPS:
        return None
    for old, to in tries:
        if _is_right_with(found, old, to) and not _is_right_with(found, old, to + 1):  # or any number would do
            place, axis = _lengths(found)[to]
            name = argument_name(found, place)
            return Complaint(
                f"{old} is hard-coded in the kernel. With {to} in its place, the length of axis {axis} of {name} "
                "here, the whole output is right.",
                "take a length from the ref, x_ref.shape[axis], or use a function that counts for you, such as "
                f"jnp.mean. If you mean the length of a part, write {to}.",
            )
    return None


def shifted(found: Finding) -> Complaint | None:
    """Report integers that are shifted one bit too far, or too little, if the other number makes all of it right."""
    shifts = [eqn for eqn in jaxprs.equations(found.walk.jaxpr.jaxpr, closed=()) if eqn.primitive.name in _SHIFTS]
    literals = [eqn.invars[1] for eqn in shifts if not jaxprs.is_variable(eqn.invars[1])]
    bits = {int(atom.val) for atom in literals if not np.shape(atom.val)}
    steps = 1 + sum(call.steps for call in found.walk.calls)
    if found.run is None or not bits or len(bits) * 2 > _MOST_TRIES or steps * len(bits) * 2 > _MOST_STEPS:
        return None
    for by, way in ((-1, "too far"), (1, "too little")):
        if right := [old for old in sorted(bits) if old + by > 0 and _is_right_shifted(found, old, old + by)]:
            instead = ", or ".join(f"by {old + by} instead of {old}" for old in right)
            return Complaint(
                f"The values are shifted one bit {way}: with a shift {instead}, the whole output is right.",
                "x >> n divides by 2 ** n and rounds down. Check which power of two belongs to the factor before it.",
            )
    return None


def _is_right_shifted(found: Finding, old: int, to: int) -> bool:
    """Whether the function is right with shifts by ``to`` in the place of shifts by ``old``."""

    def changed(eqn, atom):
        is_it = eqn.primitive.name in _SHIFTS and atom is eqn.invars[1] and not jaxprs.is_variable(atom)
        return _literal(to, atom) if is_it and np.all(atom.val == old) else atom

    return _is_right_if(found, changed)


def _numbers(found: Finding) -> set[int]:
    """Return the integers n, from 8 on, that the function contains as n or 1/n."""
    equations = [*jaxprs.equations(found.walk.jaxpr.jaxpr, closed=())]
    literals = [atom for eqn in equations for atom in eqn.invars if not jaxprs.is_variable(atom)]
    return {whole for atom in literals if (whole := _whole(atom)) is not None}


def _whole(atom) -> int | None:
    """Return n for a literal that is n or 1/n; None for any other."""
    value = np.asarray(atom.val)
    if value.shape or value.dtype.kind not in "fiu" or not np.isfinite(value) or not value:
        return None
    number = float(value)
    for each in (number, 1 / number):
        if _LEAST <= each < 2**24 and abs(each - round(each)) <= 1e-6 * each:
            return round(each)
    return None


def _lengths(found: Finding) -> dict[int, tuple[int, int]]:
    """Return {length: (argument, axis)} from 8 on; the last axis of the first argument that has the length."""
    shapes = [leaf.shape for leaf in found.leaves]
    places = [(place, axis) for place, shape in enumerate(shapes) for axis in reversed(range(len(shape)))]
    found_at: dict[int, tuple[int, int]] = {}
    for place, axis in places:
        if shapes[place][axis] >= _LEAST:
            found_at.setdefault(shapes[place][axis], (place, axis))
    return found_at


def _is_right_with(found: Finding, old: int, to: int) -> bool:
    """Whether the function is right with ``to`` in place of ``old``, and 1/to in place of 1/old."""

    def changed(_, atom):
        if jaxprs.is_variable(atom) or _whole(atom) != old:
            return atom
        return _literal(to if float(atom.val) >= _LEAST else 1 / to, atom)

    return _is_right_if(found, changed)


def _literal(number: float, like) -> jax.extend.core.Literal:
    return jax.extend.core.Literal(np.asarray(number, like.aval.dtype)[()], like.aval)


def _is_right_if(found: Finding, changed: Callable) -> bool:
    """Whether the function is right with ``changed(equation, atom)`` in the place of the inputs of its operations."""
    try:
        outputs = Traced(_with(found.walk.jaxpr, changed), None).run(True, found.args)
        return bool(right(outputs[found.number], found.want).all())
    except Exception:  # another number may break it
        return False


def _with(jaxpr, changed: Callable):
    """Rebuild a jaxpr, open or closed, and all inside it, with ``changed(equation, atom)`` for inputs of equations."""
    if jaxpr.jaxpr is not jaxpr:  # a closed one
        return jaxpr.replace(jaxpr=_with(jaxpr.jaxpr, changed))
    eqns = [jaxprs.map_inside(eqn, lambda inner: _with(inner, changed)) for eqn in jaxpr.eqns]
    return jaxpr.replace(eqns=[eqn.replace(invars=[changed(eqn, atom) for atom in eqn.invars]) for eqn in eqns])
