"""The backward pass of attention, and the slips that the kernels for dq, dk and dv have in common."""

import functools
import math
from collections.abc import Callable

import jax.numpy as jnp

from course_lib import judges
from course_lib.judges.slips import online_softmax
from course_lib.lessons.lesson_13 import plain

turned = functools.partial(online_softmax.turned, side=128)  # each block of float32[heads, T, S] in its place


def _p_and_ds(q, k, v, g, lse, delta, *, s=lambda s: s, exp=jnp.exp, dp=lambda dp: dp, ds=None):
    """Return p and ds, each [heads, T, S]: ``s``, ``exp``, ``dp`` and ``ds(p, dp, delta)`` take the place of ours."""
    lse, delta = jnp.swapaxes(lse, 1, 2), jnp.swapaxes(delta, 1, 2)
    p = exp(s(plain.scores(q, k)) - lse)
    dp = dp(jnp.einsum("htd,hsd->hts", g, v, precision="highest"))
    return p, ds(p, dp, delta) if ds else p * (dp - delta)


def _with(**change) -> Callable:
    return functools.partial(_p_and_ds, **change)


def _down(*args):
    """Return p and ds where the rows lse and delta meet blocks that have queries down and keys across."""
    p, ds = _p_and_ds(*args, s=turned, dp=turned)
    return turned(p), turned(ds)


_P, _DS = "use p = exp(s - lse).", "use ds = p * (dp - delta)."
_S_T, _DP_T = "compute s.T = scale * k @ q.T", "compute dp.T = v @ g.T"
_FITS = "with keys down and queries across, the rows lse_ref and delta_ref fit."

# What is wrong, what to try, and p and ds with that.
_CHANGES: tuple[tuple[str, str, Callable], ...] = (
    ("p is computed with exp2, but lse is a natural logarithm", _P, _with(exp=jnp.exp2)),
    (
        "lse is added to the scores, but a weight is exp(s - lse)",
        "subtract lse_ref from the scores.",
        lambda q, k, v, g, lse, delta: _p_and_ds(q, k, v, g, -lse, delta),
    ),
    (
        "p is exp(s) without lse, so the weights of a row do not add up to 1",
        _P,
        lambda q, k, v, g, lse, delta: _p_and_ds(q, k, v, g, 0 * lse, delta),
    ),
    (
        "lse and delta are exchanged",
        f"{_P[:-1]}, and {_DS}",
        lambda q, k, v, g, lse, delta: _p_and_ds(q, k, v, g, delta, lse),
    ),
    ("the scores are computed from g instead of q", f"{_S_T}.", lambda q, k, v, g, *kept: _p_and_ds(g, k, v, g, *kept)),
    ("the scores are computed from v instead of k", f"{_S_T}.", lambda q, k, v, *rest: _p_and_ds(q, v, v, *rest)),
    ("the scores are q @ k.T, with queries down", f"{_S_T}, because {_FITS}", _with(s=turned)),
    ("dp is g @ v.T, with queries down", f"{_DP_T}, because {_FITS}", _with(dp=turned)),
    (
        "s and dp have queries down, so the rows lse_ref and delta_ref run along the keys",
        f"{_S_T}, because {_FITS}",
        _down,
    ),
    ("dp is computed from q instead of g", f"{_DP_T}.", lambda q, k, v, g, *kept: _p_and_ds(q, k, v, q, *kept)),
    ("dp is computed from k instead of v", f"{_DP_T}.", lambda q, k, v, *rest: _p_and_ds(q, k, k, *rest)),
    (
        "delta is missing, but a weight grows at the cost of the others in its row",
        _DS,
        _with(ds=lambda p, dp, delta: p * dp),
    ),
    ("delta is added instead of subtracted", _DS, _with(ds=lambda p, dp, delta: p * (dp + delta))),
    ("delta is subtracted after the multiplication by p", _DS, _with(ds=lambda p, dp, delta: p * dp - delta)),
    ("the factor p is missing in ds", _DS, _with(ds=lambda p, dp, delta: dp - delta)),
    ("p is added in ds, but it should be a factor", _DS, _with(ds=lambda p, dp, delta: p + (dp - delta))),
    ("ds is divided by p, but p should be a factor", _DS, _with(ds=lambda p, dp, delta: (dp - delta) / p)),
)


def _scales() -> list[tuple[str, str, Callable, Callable]]:
    """Return (what is wrong, what to try, the scale of the scores, that of the result) of D, for wrong scales."""
    right, one = (lambda d: 1 / math.sqrt(d)), (lambda d: 1.0)
    found = [
        (
            "the scores are not scaled in p = exp(s - lse), but lse is that of scaled scores",
            "multiply k @ q.T by 1 / sqrt(D) before lse is subtracted.",
            one,
            right,
        ),
        ("the scale is missing in both places", "multiply both the scores and the result by 1 / sqrt(D).", one, one),
    ]
    for wrong, scale in (("1 / D", lambda d: 1 / d), ("sqrt(D)", math.sqrt)):
        next = "use scale = 1 / math.sqrt(D)."
        found.append((f"the scale is {wrong} instead of 1 / sqrt(D) in both places", next, scale, scale))
        found.append((f"the scale of the scores is {wrong} instead of 1 / sqrt(D)", next, scale, right))
        found.append((f"the scale of the result is {wrong} instead of 1 / sqrt(D)", next, right, scale))
    return found


def right(result: Callable, *args):
    """Return ``result(p, ds, q, k, v, g, scale)`` for the arguments of a backward kernel."""
    return result(*_p_and_ds(*args), *args[:4], 1 / math.sqrt(args[0].shape[-1]))


def slips(result: Callable) -> tuple[judges.Slip, ...]:
    """Return the slips of a kernel that returns ``result(p, ds, q, k, v, g, scale)``."""

    def with_change(change: Callable, *args):
        return result(*change(*args), *args[:4], 1 / math.sqrt(args[0].shape[-1]))

    def with_scales(first: Callable, last: Callable, q, *rest):
        d = q.shape[-1]
        return result(*_p_and_ds(q * first(d) * math.sqrt(d), *rest), q, *rest[:3], last(d))

    found = [(means, next, functools.partial(with_change, change)) for means, next, change in _CHANGES]
    found += [(means, next, functools.partial(with_scales, *both)) for means, next, *both in _scales()]
    return tuple(judges.Slip(means=means, value=value, next=next) for means, next, value in found)
