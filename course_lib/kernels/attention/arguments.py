"""The checks of what ``flash_attention`` is given, arrays and options, before anything else happens."""

import math
import numbers

import jax.numpy as jnp

from course_lib.arrays import Array
from course_lib.kernels.attention.scores import Scores
from course_lib.kernels.common import arguments, legal
from course_lib.kernels.common.products import precision_of
from course_lib.kernels.common.symbolic import is_known

_ALL = 2**31 - 1  # keys: more cannot be counted in 32 bits


def operands(op: str, q, k, v, segments) -> tuple[Array, ...]:
    """Return q, k and v, and the segments of queries and of keys if there are any. Raise TypeError or ValueError."""
    q, k, v = arguments.arrays(op, arguments.FLOATS, q=q, k=k, v=v)
    if not q.dtype == k.dtype == v.dtype:
        raise ValueError(
            f"{op}: q is {q.dtype}, k {k.dtype} and v {v.dtype}; all must be float32 or all bfloat16. "
            "Try k.astype(q.dtype)."
        )
    _check_shapes(op, q, k, v)
    return q, k, v, *(() if segments is None else _segments(op, q, k, segments))


def _check_shapes(op: str, q: Array, k: Array, v: Array) -> None:
    shapes = f"{op}: q has shape {q.shape}, k {k.shape} and v {v.shape}; "
    if not q.ndim == k.ndim == v.ndim >= 2 or k.shape[:-1] != v.shape[:-1] or q.shape[:-3] != k.shape[:-3]:
        raise ValueError(
            f"{shapes}they must be (..., S, D), (..., T, D) and (..., T, E), heads in front of that. Do the heads come "
            "behind the positions? Then hand over q.swapaxes(-3, -2)."
        )
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"{shapes}a query and a key must have as many elements. Try q[..., :{k.shape[-1]}].")
    if q.ndim > 2 and q.shape[-3:-2] != k.shape[-3:-2]:
        heads, of_keys = q.shape[-3], k.shape[-3]
        if not is_known(heads) or not is_known(of_keys) or not of_keys or heads % of_keys:
            raise ValueError(
                f"{shapes}its {heads} query heads must be a multiple of the {of_keys} KV heads. "
                "Try jnp.repeat(k, ..., axis=-3)."
            )


def _segments(op: str, q: Array, k: Array, segments) -> tuple[Array, Array]:
    pair = segments if isinstance(segments, tuple | list) else (segments, segments)
    if len(pair) != 2:
        raise ValueError(f"{op}: segments are {len(pair)} arrays; they may be one, or two: of queries and of keys.")
    names = ("segments", "segments") if pair[0] is pair[1] else ("segments[0]", "segments[1]")
    found = []
    for name, ids, x in zip(names, pair, (q, k), strict=True):
        (ids,) = arguments.arrays(op, ("int32",), **{name: ids})
        wanted = (*x.shape[:-3], x.shape[-2])
        if ids.shape != wanted:
            raise ValueError(
                f"{op}: {name} has shape {ids.shape}; for q of shape {q.shape} and k {k.shape} it must be {wanted}, "
                "without heads. Try jnp.broadcast_to."
            )
        found.append(ids)
    return found[0], found[1]


def unfit_for_gpus(q: Array, segments: tuple[Array, ...], scores: Scores) -> str:
    """Return why no GPU kernel can compute this attention; "" if that depends on the kernel."""
    if q.dtype != jnp.bfloat16:
        return f"it multiplies bfloat16, and q is {q.dtype}"
    if segments or scores.window is not None or scores.softcap is not None:
        return "it knows neither segments nor windows nor softcap"
    return ""


def options(op: str, q: Array, k: Array, *, causal, window, softcap, scale, precision, called=None) -> Scores:
    """Return the options, checked; ``called`` has the names of those that ``op`` calls otherwise. Raise ValueError."""
    called = {"window": "window", "softcap": "softcap", "scale": "scale"} | (called or {})
    if not isinstance(causal, bool):
        raise ValueError(f"{op}: causal is {legal.shown(causal)}; it may be True or False. Try causal=True.")
    if causal and q.shape[-2] is not k.shape[-2] and q.shape[-2] != k.shape[-2]:
        raise ValueError(
            f"{op}: causal, and q has {q.shape[-2]} positions and k {k.shape[-2]}; they must be the same ones. "
            "Are those of q the last ones? Then pad q in front with zeros, and take the last rows of the result."
        )
    if window is not None:
        if not isinstance(window, numbers.Integral) or isinstance(window, bool) or window < 1:
            raise ValueError(
                f"{op}: {called['window']} is {legal.shown(window)}; it may be a number of keys from 1 on, the "
                f"query's own place the last, or None. Try {called['window']}=1024."
            )
        if not causal:
            raise ValueError(f"{op}: a window of {window} keys ends at the query's own place. Try causal=True with it.")
    if softcap is not None:
        softcap = _positive(op, called["softcap"], softcap, "None", "50.0")
    depth = q.shape[-1]
    root = max(1, depth) if is_known(depth) else 128
    if scale is not None:
        scale = _positive(op, called["scale"], scale, "None, for D**-0.5", f"{root}**-0.5")
    elif is_known(depth):
        scale = root**-0.5
    else:
        raise ValueError(
            f"{op}: a head of q has {depth} elements, a number that is not known yet, and {called['scale']} None is "
            f"for a D that is. Try {called['scale']}={root}**-0.5."
        )
    window = None if window is None else min(int(window), _ALL)
    level = precision_of(op, q.dtype, precision)
    return Scores(scale=scale, softcap=softcap, causal=causal, window=window, precision=level)


def _positive(op: str, name: str, value, otherwise: str, example: str) -> float:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value <= 0:
        raise ValueError(
            f"{op}: {name} is {legal.shown(value)}; it may be a number above zero, known when the program is traced, "
            f"or {otherwise}. Try {name}={example}."
        )
    return float(value)
