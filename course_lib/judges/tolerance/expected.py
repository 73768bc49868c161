"""What a reference expects, and how far from it a right kernel may be.

The reference sets the accuracy: if it sums in float32, a kernel that sums in bfloat16 is refused; if it computes in
bfloat16, that is all a kernel needs. ``rounding`` derives the bound.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from course_lib.judges.tolerance.op_rounding import is_float
from course_lib.judges.tolerance.rounding import evaluated

_ROUNDINGS = 4  # of eps, for values of unknown origin


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Expected:
    """One output of a reference: ``value`` in its own dtype, and what a right kernel may return.

    For floats ``exact`` is the exact value and ``bound`` the largest distance from it (both float64[shape]); None if no
    bound could be derived. For a bool from a comparison of floats ``bound`` is bool[shape]: where the floats are so
    close that it may be either. For an integer that was rounded from a float ``bound`` says how many steps away it may
    be. ``guessed``: the operations for whose rounding there is no rule; behind them the bound is NaN, and a few
    roundings are allowed.
    """

    value: np.ndarray
    exact: np.ndarray | None = None
    bound: np.ndarray | None = None
    guessed: tuple[str, ...] = ()


def expected(reference: Callable, args: tuple, result=None, one_pass: bool = False) -> list[Expected]:
    """Return what ``reference(*args)`` expects, output by output. ``result`` is what it returned, if that is known.

    ``one_pass``: the bound is for a chip whose MXU rounds float32 operands to bfloat16 unless a precision is asked for.
    Raises what the reference raises.
    """
    values = [np.asarray(a) for a in jax.tree.leaves(reference(*args) if result is None else result)]
    try:
        jaxpr = jax.make_jaxpr(reference)(*args)
        exact, bounds, guessed = evaluated(jaxpr, args, one_pass)
    except Exception:  # a NumPy reference, or an operation that cannot be evaluated in float64
        return [Expected(value=value) for value in values]
    return [_one(*each, tuple(guessed)) for each in zip(values, exact, bounds, strict=True)]


def _one(value: np.ndarray, exact: np.ndarray, bound: np.ndarray | None, guessed: tuple[str, ...]) -> Expected:
    if not is_float(value.dtype):
        return Expected(value=value, bound=bound)
    unknown = np.isnan(bound) & np.isfinite(exact)
    guessed = guessed or ("sort",)  # which has a rule, and makes a bound NaN only where two keys may change places
    if unknown.all() and unknown.size:
        return Expected(value=value, guessed=guessed)
    return Expected(value=value, exact=exact, bound=bound, guessed=guessed if unknown.any() else ())


def right(got: np.ndarray, want: Expected) -> np.ndarray:
    """Return bool[shape]: which elements are right. NaN equals only NaN; integers and bools must be equal."""
    same = (got == want.value) | _both_nan(got, want.value)
    if not is_float(want.value.dtype):
        if want.bound is None:
            return same
        if want.bound.dtype == bool:
            return same | want.bound
        return same | (np.abs(got.astype(np.float64) - want.value) <= want.bound)
    if want.bound is None:
        return close(got, want.value)
    g = got.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        rounded = want.exact.astype(want.value.dtype).astype(np.float64)  # to infinity if it is too large
        near = np.abs(g - want.exact) <= want.bound + float(jnp.finfo(want.value.dtype).tiny)
        near &= np.isfinite(g) & np.isfinite(rounded)
        near |= np.isnan(want.bound) & np.isfinite(want.exact) & close(got, want.value)
        return same | near | (np.isinf(rounded) & (g == rounded)) | (np.isnan(rounded) & np.isnan(g))


def close(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Return bool[shape]: equal, or within a few roundings of the dtype, for values of unknown origin."""
    if not is_float(want.dtype):
        return got == want
    g, w = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(g - w) <= _ROUNDINGS * float(jnp.finfo(want.dtype).eps) * np.maximum(np.abs(w), 1e-30)
    near &= np.isfinite(g) & np.isfinite(w)  # an infinite tolerance would accept everything
    return near | (g == w) | (np.isnan(g) & np.isnan(w))


def _both_nan(got: np.ndarray, want: np.ndarray) -> np.ndarray | bool:
    return np.isnan(got) & np.isnan(want) if is_float(got.dtype) else False
