"""The scalar operations of a jaxpr: evaluated with Python's integers for one grid step, with NumPy for all at once.

A value is an integer, an array with one entry per grid step, or UNKNOWN. Integers keep their width on the TPU, so they
wrap around as they would there.
"""

import functools
from collections.abc import Callable

import jax
import numpy as np

UNKNOWN = object()  # a value that depends on an array's contents


def known(value) -> bool:
    return value is not UNKNOWN


def operation(eqn) -> Callable[[list], list] | None:
    """Return a function from the inputs of ``eqn`` to its outputs; None unless it is a known scalar operation."""
    name = eqn.primitive.name
    if name not in _OPERATIONS and name not in _PLAIN:
        return None
    if any(getattr(v.aval, "shape", None) != () for v in (*eqn.invars, *eqn.outvars)):
        return None
    dtype = eqn.outvars[0].aval.dtype
    whole = all(v.aval.dtype.kind in "iub" for v in (*eqn.invars, *eqn.outvars))
    exact = (_ON_BOOLS.get(name) if dtype.kind == "b" else None) or _EXACT.get(name) if whole else None
    of_arrays = _OPERATIONS.get(name)
    wrapped = _wrapping(dtype) if whole else None

    def run(inputs: list) -> list:
        if exact is not None and all(type(x) is int or type(x) is bool for x in inputs):
            return [wrapped(exact(*inputs))]
        if any(x is UNKNOWN for x in inputs):  # not `in`, which would compare arrays
            return [UNKNOWN] * len(eqn.outvars)
        if of_arrays is not None:
            typed = [np.asarray(x).astype(v.aval.dtype) for x, v in zip(inputs, eqn.invars, strict=True)]
            with np.errstate(all="ignore"):  # integers wrap around on the TPU too
                return [np.asarray(of_arrays(*typed)).astype(dtype)[()]]
        return _with_jax(eqn, inputs)

    return run


def evaluate(eqn, inputs: list) -> list:
    """Return the outputs of ``eqn``; UNKNOWN if it is no scalar operation, or if an input is unknown."""
    run = operation(eqn)
    return run(inputs) if run else [UNKNOWN] * len(eqn.outvars)


def plain(value):
    """Return a single integer as Python's own, which is faster; anything else unchanged."""
    if isinstance(value, int):  # JAX has kinds of int that know their dtype
        return bool(value) if isinstance(value, bool) else int(value)
    is_one = isinstance(value, (np.ndarray, np.generic)) and value.ndim == 0 and value.dtype.kind in "iub"
    return value.item() if is_one else value


def _wrapping(dtype) -> Callable:
    """Return a function that wraps an integer into the range of ``dtype``."""
    if dtype.kind == "b":
        return bool
    bits = 8 * dtype.itemsize
    low, mask = (-(1 << (bits - 1)), (1 << bits) - 1) if dtype.kind == "i" else (0, (1 << bits) - 1)
    high = low + mask

    def wrapped(n: int) -> int:
        return int(n) if low <= n <= high else ((n - low) & mask) + low

    return wrapped


def _with_jax(eqn, inputs: list) -> list:
    """Evaluate an operation that has no entry below. This is slower, but correct."""
    bind = functools.partial(eqn.primitive.bind, **eqn.params)
    inputs = [np.asarray(x, v.aval.dtype) for x, v in zip(inputs, eqn.invars, strict=True)]
    with jax.ensure_compile_time_eval():
        if any(x.ndim for x in inputs):
            bind = jax.vmap(bind, in_axes=[0 if x.ndim else None for x in inputs])
        outputs = bind(*inputs)
    return [np.asarray(x) for x in (outputs if eqn.primitive.multiple_results else [outputs])]


def _quotient(x: int, y: int) -> int:
    """Divide integers as the machine does, rounding towards zero; a zero divisor gives any value but no crash."""
    size = abs(x) // max(abs(y), 1)
    return -size if (x < 0) != (y < 0) else size


def _quotients(x, y):
    if x.dtype.kind == "f":
        return x / y
    size = np.abs(x.astype(np.int64)) // np.maximum(np.abs(y.astype(np.int64)), 1)
    return np.where((x < 0) != (y < 0), -size, size)


def _sign(x: int) -> int:
    return (x > 0) - (x < 0)


# Operations on single integers: exact, and wrapped afterwards.
_EXACT = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": _quotient,
    "rem": lambda x, y: x - y * _quotient(x, y),
    "max": max,
    "min": min,
    "neg": lambda x: -x,
    "abs": abs,
    "sign": _sign,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "not": lambda x: ~x,
    "shift_right_arithmetic": lambda x, y: x >> y,
    "select_n": lambda which, *cases: cases[which],
    "convert_element_type": lambda x: x,
    "clamp": lambda low, x, high: min(max(x, low), high),
    "multiple_of": lambda x: x,
    "broadcast_in_dim": lambda x: x,
    "reshape": lambda x: x,
    "squeeze": lambda x: x,
    "copy": lambda x: x,
}
_ON_BOOLS = {"not": lambda x: not x}
_OPERATIONS = {name: fn for name, fn in _EXACT.items() if name not in ("div", "rem", "max", "min", "sign", "select_n")}
_OPERATIONS |= {
    "div": _quotients,
    "rem": lambda x, y: np.fmod(x, np.where(y == 0, 1, y)),
    "max": np.maximum,
    "min": np.minimum,
    "abs": np.abs,
    "sign": np.sign,
    "select_n": lambda which, *cases: np.choose(which.astype(np.int64), cases),
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
}
_PLAIN = {
    "integer_pow", "pow", "square", "sqrt", "exp", "exp2", "log", "floor", "ceil", "round", "clz",
    "population_count", "shift_left", "shift_right_logical", "nextafter", "is_finite",
}  # fmt: skip
