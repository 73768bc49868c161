"""Hard-coded sizes: a kernel that is right once a number in it is replaced by the length of an axis.

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
        if _is_right_with(found, old, to):
            place, axis = _lengths(found)[to]
            name = argument_name(found, place)
            return Complaint(
                f"{old} is written in. With {to} in its place, which is the length of axis {axis} of {name} here, all "
                "of it is right.",
                "take a length from the ref, x_ref.shape[axis], or let jnp.mean and the like count.",
            )
    return None


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

    def changed(atom):
        if jaxprs.is_variable(atom) or _whole(atom) != old:
            return atom
        number = to if float(atom.val) >= _LEAST else 1 / to
        return jax.extend.core.Literal(np.asarray(number, atom.aval.dtype)[()], atom.aval)

    try:
        outputs = Traced(_with(found.walk.jaxpr, changed), None).run(True, found.args)
        return bool(right(outputs[found.number], found.want).all())
    except Exception:  # another number may break it
        return False


def _with(jaxpr, changed: Callable):
    """Rebuild a jaxpr, open or closed, and all inside it, with ``changed(atom)`` for the inputs of equations."""
    if jaxpr.jaxpr is not jaxpr:  # a closed one
        return jaxpr.replace(jaxpr=_with(jaxpr.jaxpr, changed))
    eqns = [jaxprs.map_inside(eqn, lambda inner: _with(inner, changed)) for eqn in jaxpr.eqns]
    return jaxpr.replace(eqns=[eqn.replace(invars=[*map(changed, eqn.invars)]) for eqn in eqns])
