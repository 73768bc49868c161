"""Evaluate the scalar operations of a jaxpr with NumPy: for one grid step, or for all of them at once.

A value is a NumPy number, an array with one entry per grid step, or UNKNOWN. Integers keep the width the TPU
gives them, so they wrap as they would there.
"""

import functools

import jax
import numpy as np

UNKNOWN = object()  # a value that depends on an array's contents


def known(value) -> bool:
    return value is not UNKNOWN


def evaluate(eqn, inputs: list) -> list:
    """The outputs of an operation whose inputs and outputs are scalars, known ones."""
    dtype = eqn.outvars[0].aval.dtype if eqn.outvars else None
    with np.errstate(all="ignore"):  # wrapping round is what integers do here too
        if operation := _OPERATIONS.get(eqn.primitive.name):
            typed = [np.asarray(x, v.aval.dtype) for x, v in zip(inputs, eqn.invars, strict=True)]
            return [np.asarray(operation(eqn, *typed), dtype)[()]]
        if eqn.primitive.name in _PLAIN:
            return _with_jax(eqn, inputs)
    return [UNKNOWN] * len(eqn.outvars)


def _with_jax(eqn, inputs: list) -> list:
    """An operation that has no entry below: slower, and right."""
    bind = functools.partial(eqn.primitive.bind, **eqn.params)
    inputs = [np.asarray(x, v.aval.dtype) for x, v in zip(inputs, eqn.invars, strict=True)]
    with jax.ensure_compile_time_eval():
        if any(x.ndim for x in inputs):
            bind = jax.vmap(bind, in_axes=[0 if x.ndim else None for x in inputs])
        outputs = bind(*inputs)
    return [np.asarray(x) for x in (outputs if eqn.primitive.multiple_results else [outputs])]


def _truncated(_, x, y):
    """Integer division as the machine does it: towards zero; whatever, but no crash, where y is 0."""
    if x.dtype.kind == "f":
        return x / y
    quotient = np.abs(x.astype(np.int64)) // np.maximum(np.abs(y.astype(np.int64)), 1)
    return np.where((x < 0) != (y < 0), -quotient, quotient)


def _select(_, which, *cases):
    return np.choose(np.asarray(which, np.int64), cases)


_OPERATIONS = {
    "add": lambda _, x, y: x + y,
    "sub": lambda _, x, y: x - y,
    "mul": lambda _, x, y: x * y,
    "div": _truncated,
    "rem": lambda _, x, y: np.fmod(x, np.where(y == 0, 1, y)),
    "max": lambda _, x, y: np.maximum(x, y),
    "min": lambda _, x, y: np.minimum(x, y),
    "neg": lambda _, x: -x,
    "abs": lambda _, x: np.abs(x),
    "sign": lambda _, x: np.sign(x),
    "eq": lambda _, x, y: x == y,
    "ne": lambda _, x, y: x != y,
    "lt": lambda _, x, y: x < y,
    "le": lambda _, x, y: x <= y,
    "gt": lambda _, x, y: x > y,
    "ge": lambda _, x, y: x >= y,
    "and": lambda _, x, y: x & y,
    "or": lambda _, x, y: x | y,
    "xor": lambda _, x, y: x ^ y,
    "not": lambda _, x: ~x,
    "select_n": _select,
    "convert_element_type": lambda _, x: x,
    "clamp": lambda _, low, x, high: np.minimum(np.maximum(x, low), high),
    "multiple_of": lambda _, x: x,
    "broadcast_in_dim": lambda _, x: x,
    "reshape": lambda _, x: x,
    "squeeze": lambda _, x: x,
    "copy": lambda _, x: x,
    "copy_p": lambda _, x: x,
}
_PLAIN = {
    "integer_pow", "pow", "square", "sqrt", "exp", "exp2", "log", "floor", "ceil", "round", "clz",
    "population_count", "shift_left", "shift_right_logical", "shift_right_arithmetic", "nextafter", "is_finite",
}  # fmt: skip
