"""The operations of a kernel on values, in NumPy; those without an entry are left to JAX, which is slower."""

import functools
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from course_lib import compat
from course_lib.judges.sparse_core.faults import NotEvaluated
from course_lib.judges.sparse_core.memory import garbage


def operation(eqn) -> Callable[[list], list]:
    """Return a function from the inputs of an equation to its outputs."""
    name, params = compat.sparse_core_primitive(eqn) or eqn.primitive.name, eqn.params
    dtype = getattr(eqn.outvars[0].aval, "dtype", None) if eqn.outvars else None
    if name in _ELEMENTWISE:
        return lambda ins: [np.asarray(_ELEMENTWISE[name](*ins)).astype(dtype, copy=False)[()]]
    if name in _OF_SPARSE_CORES:
        return lambda ins: _OF_SPARSE_CORES[name](params, *map(np.asarray, ins))
    if name == "convert_element_type":
        return lambda ins: [np.asarray(ins[0]).astype(dtype)[()]]
    if name == "broadcast_in_dim" and not params["broadcast_dimensions"]:
        return lambda ins: [np.full(params["shape"], ins[0], dtype)]
    if name == "iota":
        return lambda ins: [_iota(params["shape"], params["dimension"], dtype)]
    return lambda ins: _with_jax(eqn, ins)


def _iota(shape: tuple[int, ...], axis: int, dtype) -> np.ndarray:
    along = np.arange(shape[axis], dtype=dtype).reshape([-1 if n == axis else 1 for n in range(len(shape))])
    return np.broadcast_to(along, shape)


def _with_jax(eqn, ins: list) -> list:
    try:
        out = eqn.primitive.bind(*map(jnp.asarray, ins), **eqn.primitive.get_bind_params(eqn.params))
    except Exception as error:  # whatever JAX raises for an operation that belongs into a kernel
        raise NotEvaluated(f"The evaluator has no `{eqn.primitive.name}`, which the kernel uses.") from error
    return [np.asarray(value)[()] for value in (out if eqn.primitive.multiple_results else [out])]


def _quotient(x, y):
    if np.asarray(x).dtype.kind == "f":
        return x / y
    size = np.abs(np.int64(x)) // np.maximum(np.abs(np.int64(y)), 1)  # rounds towards zero; no crash for y = 0
    return np.where((np.int64(x) < 0) != (np.int64(y) < 0), -size, size)


_ELEMENTWISE = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _quotient,
    "rem": lambda x, y: np.fmod(x, np.where(np.equal(y, 0), 1, y)),
    "max": np.maximum,
    "min": np.minimum,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "select_n": lambda which, *cases: np.choose(np.asarray(which).astype(np.int64), cases),
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "copy": lambda x: x,
}


def _scan_count(params: dict, x: np.ndarray, mask: np.ndarray) -> list[np.ndarray]:
    """Return how often each element has occurred so far, itself included, and where it occurs for the last time."""
    counts, is_last, seen = np.zeros(x.shape, np.int32), np.zeros(x.shape, bool), {}
    for lane in np.flatnonzero(mask):
        before = seen.get(x[lane])
        counts[lane], is_last[lane] = (1 if before is None else counts[before] + 1), True
        if before is not None:
            is_last[before] = False
        seen[x[lane]] = lane
    return [counts, is_last]


def _cumulative(take, params: dict, x: np.ndarray, mask: np.ndarray) -> list[np.ndarray]:
    """Return the cumulative maximum or minimum over the lanes of the mask.

    Before the first of them it is the lane itself, as JAX's own tests expect.
    """
    so_far, found = np.array(x), None
    for lane in np.flatnonzero(mask):
        found = x[lane] if found is None else take(found, x[lane])
        so_far[lane:] = found
    return [so_far]


def _masked_sort(params: dict, keys: np.ndarray, values: np.ndarray, *given: np.ndarray) -> list[np.ndarray]:
    """Return keys and values in the order of the keys, equal ones as they were, the lanes outside the mask last."""
    mask = given[0] if given else np.ones(keys.shape, bool)
    valid = sorted(np.flatnonzero(mask), key=lambda lane: keys[lane], reverse=params["descending"])
    order = [*valid, *np.flatnonzero(~mask)]
    return [keys[order], values[order], *([np.arange(len(order)) < len(valid)] if given else [])]


def _counted(count: Callable, params: dict, mask: np.ndarray) -> list[np.ndarray]:
    """Return one number in every lane."""
    if params["reduce"] != 1:
        raise NotEvaluated("The evaluator counts the lanes of a mask with reduce=1 only.")
    return [np.full(mask.shape, count(mask), np.int32)]


_OF_SPARSE_CORES = {
    "sc.scan_count": _scan_count,
    "sc.masked_cumsum": lambda params, x, mask: [np.cumsum(np.where(mask, x, 0), dtype=x.dtype)],
    "sc.masked_cummax": functools.partial(_cumulative, np.maximum),
    "sc.masked_cummin": functools.partial(_cumulative, np.minimum),
    "sc.masked_sort": _masked_sort,
    "sc.all_reduce_population_count": functools.partial(_counted, np.sum),
    "sc.all_reduce_ffs": functools.partial(_counted, lambda mask: np.argmax(mask) if mask.any() else mask.size),
}


def expanded(found: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the first elements in the lanes of the mask, in order, and garbage in the others."""
    result = garbage(found.shape, found.dtype)
    result[mask] = found[: mask.sum()]
    return result
