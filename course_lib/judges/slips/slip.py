"""What a likely slip would return: if a wrong output equals that, its verdict names the slip."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from course_lib.judges.tolerance.expected import close, expected
from course_lib.judges.tolerance.op_rounding import is_float
from course_lib.judges.verdict import Complaint
from course_lib.judges.wrong_outputs.finding import Finding

_NEAR = 4.0  # bounds: an output this close to a slip's result equals it
_APART = 16.0  # bounds: a slip this far from the expected value shows
_EXPLAINS = 0.25  # of the distance from expected value to slip: a wrong element this close to the slip goes there
_MANY = 32  # wrong elements that go there suffice if rounding is large
_ALIKE = 0.05  # of the largest number: beyond this no bound is computed


@dataclasses.dataclass(frozen=True, kw_only=True)
class Slip:
    """A mistake that people make, and what a function with it returns.

    ``value(*args)`` returns that: an array, or a tuple with one for each output. For a gradient it is one for each
    argument, and ``args`` end in the cotangent. ``output``: the only output to compare, by number from 0 or by name
    ("db"); ``value`` may then return that one alone. ``means`` ends the sentence "That is a known slip: ...", and
    ``next`` is one thing to try. The slip is silent if it makes no difference, or if ``value`` does not run with the
    arguments. Raises ValueError for what is no slip.
    """

    means: str
    value: Callable
    next: str
    output: int | str | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.means, str) and self.means and isinstance(self.next, str) and self.next):
            raise ValueError(f"a Slip needs two sentences: means is {self.means!r:.60}, next is {self.next!r:.60}.")
        if not callable(self.value):
            raise ValueError(
                f"the Slip {self.means!r:.60} has the value {self.value!r:.60}; it must be a function of the arguments."
            )
        if self.output is not None and (isinstance(self.output, bool) or not isinstance(self.output, (int, str))):
            raise ValueError(
                f"the Slip {self.means!r:.60} has the output {self.output!r:.60}; it must be the number of an output, "
                "or its name."
            )


class Suspect(NamedTuple):
    """A slip and the arguments to try it with; ``value`` returns one array, or one for each output."""

    means: str
    next: str
    value: Callable
    args: tuple


def declared(found: Finding) -> Complaint | None:
    """Report the first declared slip that gives exactly what the function returned."""
    for slip in found.slips:
        if slip.output in (None, found.number, found.name) and (
            said := said_of(found, Suspect(slip.means, slip.next, slip.value, found.args))
        ):
            return said
    return None


def suspected(found: Finding) -> Complaint | None:
    """Report the first such slip among those that are tried without a declaration."""
    return next((said for suspect in found.suspects(found) if (said := said_of(found, suspect))), None)


def said_of(found: Finding, suspect: Suspect) -> Complaint | None:
    """Report the slip if the output is what it gives, and clearly not what is expected."""
    try:
        value = _of_output(suspect.value(*suspect.args), found)
        if value is None or not alike(found.got, value) or not _closer(found, value):
            return None
        same = _is_it(found, value, found.want.bound) or _is_it(found, value, _own_bound(found, suspect))
        if same and np.isnan(value.astype(np.float64)[found.wrong]).all() and _comes_from_elsewhere(found):
            return None  # any NaN equals any other
    except Exception:  # it does not run with these arguments, so it is not what happened
        return None
    return Complaint(f"That is a known slip: {suspect.means.rstrip('.')}.", suspect.next) if same else None


def _comes_from_elsewhere(found: Finding) -> bool:
    """Whether a NaN may be that of an argument or of memory, and not the slip's: on SparseCores nobody looks at it."""
    if not found.walk.calls:
        return True
    floats = (leaf for leaf in jax.tree.leaves(found.args) if is_float(jnp.asarray(leaf).dtype))
    return found.is_nan_by_garbage or any(bool(jnp.isnan(leaf).any()) for leaf in floats)


def _of_output(value, found: Finding) -> np.ndarray | None:
    """Return the array for the output in question; None if there is none of its shape."""
    values = jax.tree.leaves(value)
    if len(values) > 1 or isinstance(value, (tuple, list)):
        values = values[found.number : found.number + 1]
    array = np.asarray(jnp.asarray(values[0])) if values else None
    return array if array is not None and array.shape == found.got.shape else None


def alike(got: np.ndarray, value: np.ndarray) -> bool:
    """Whether the two are so close that a bound is worth computing."""
    g, v = got.astype(np.float64), value.astype(np.float64)
    if not np.array_equal(np.isfinite(g), np.isfinite(v)):
        return False
    finite = np.isfinite(v)
    size = np.abs(v[finite]).max(initial=0.0)
    return bool((np.abs(g[finite] - v[finite]) <= _ALIKE * size).all())


def _closer(found: Finding, value: np.ndarray) -> bool:
    """Whether half of the wrong elements are much closer to the slip than to the expected value, as a slip requires."""
    if not is_float(found.got.dtype) or found.want.exact is None:
        return True
    got, slip, exact = (a[found.wrong].astype(np.float64) for a in (found.got, value, found.want.exact))
    with np.errstate(invalid="ignore"):
        return bool((~(np.abs(got - slip) > 0.5 * np.abs(got - exact))).mean() >= 0.5)


def _is_it(found: Finding, value: np.ndarray, bound: np.ndarray | None) -> bool:
    """Whether all of the output is ``value``, and ``value`` is not what is expected where the output is wrong."""
    if not is_float(found.got.dtype) or found.want.bound is None or found.want.exact is None:
        return bool(close(found.got, value).all() and not close(value, found.want.value)[found.wrong].any())
    if bound is None:
        return False
    tiny = float(jnp.finfo(found.got.dtype).tiny)
    got, slip, exact = (a.astype(np.float64) for a in (found.got, value, found.want.exact))
    with np.errstate(invalid="ignore"):
        near = (np.abs(got - slip) <= _NEAR * bound + tiny) | (got == slip) | (np.isnan(got) & np.isnan(slip))
        apart = np.abs(slip - exact) > _APART * np.maximum(bound, found.want.bound) + tiny
        apart |= ~np.isfinite(slip) & np.isfinite(exact)
        goes_there = np.abs(got - slip) <= _EXPLAINS * np.abs(slip - exact)
    many = found.wrong.sum() >= _MANY and goes_there[found.wrong].mean() > 0.9
    return bool(near.all() and (many or apart[found.wrong].mean() > 0.5))


def _own_bound(found: Finding, suspect: Suspect) -> np.ndarray | None:
    """Return the bound on the rounding error of the slip's own value, which may be larger than the reference's."""

    def one(*args):
        value = suspect.value(*args)
        values = jax.tree.leaves(value)
        return values[found.number if isinstance(value, (tuple, list)) else 0]

    (its,) = expected(one, suspect.args)
    return its.bound
