"""The operations of a kernel on values, in NumPy; those without an entry are left to JAX, which is slower."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from course_lib.judges.sparse_core.faults import NotEvaluated
from course_lib.judges.sparse_core.memory import garbage


def operation(eqn) -> Callable[[list], list]:
    """Return a function from the inputs of an equation to its outputs."""
    name, params = eqn.primitive.name, eqn.params
    dtype = getattr(eqn.outvars[0].aval, "dtype", None) if eqn.outvars else None
    if name in _ELEMENTWISE:
        return lambda ins: [np.asarray(_ELEMENTWISE[name](*ins)).astype(dtype, copy=False)[()]]
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


def scan_count(x: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how often each element has occurred so far, itself included, and where it occurs for the last time."""
    counts, is_last, seen = np.zeros(x.shape, np.int32), np.zeros(x.shape, bool), {}
    for lane in np.flatnonzero(mask):
        before = seen.get(x[lane])
        counts[lane], is_last[lane] = (1 if before is None else counts[before] + 1), True
        if before is not None:
            is_last[before] = False
        seen[x[lane]] = lane
    return counts, is_last


def cumulative(name: str, x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the cumulative sum, maximum or minimum over the lanes of the mask.

    Before the first of them a maximum or minimum is the lane itself, as JAX's own tests expect.
    """
    take, start = {
        "sc.masked_cumsum": (np.add, x.dtype.type(0)),
        "sc.masked_cummax": (np.maximum, -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min),
        "sc.masked_cummin": (np.minimum, np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).max),
    }[name]
    so_far = take.accumulate(np.where(mask, x, start)).astype(x.dtype)
    return so_far if take is np.add else np.where(np.cumsum(mask) > 0, so_far, x)


def masked_sort(keys: np.ndarray, values: np.ndarray, mask: np.ndarray, descending: bool) -> list[np.ndarray]:
    """Return keys and values in the order of the keys, equal ones as they were, the lanes outside the mask last."""
    valid = sorted(np.flatnonzero(mask), key=lambda lane: keys[lane], reverse=descending)
    order = [*valid, *np.flatnonzero(~mask)]
    return [keys[order], values[order], np.arange(len(order)) < len(valid)]


def expanded(found: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the first elements in the lanes of the mask, in order, and garbage in the others."""
    result = garbage(found.shape, found.dtype)
    result[mask] = found[: mask.sum()]
    return result


def counted(name: str, mask: np.ndarray, reduce: int) -> np.ndarray:
    """Return in every lane how many lanes are true, or the first that is."""
    if reduce != 1:
        raise NotEvaluated(f"The evaluator has `{name}` with reduce=1 only.")
    first = int(np.argmax(mask)) if mask.any() else mask.size
    return np.full(mask.shape, mask.sum() if "count" in name else first, np.int32)


def same_lanes(indices: list[np.ndarray], mask: np.ndarray) -> tuple[int, int] | None:
    """Return the first two lanes that name the same element; None if all that count differ."""
    seen: dict[tuple, int] = {}
    for lane in np.flatnonzero(mask):
        at = tuple(int(index[lane]) for index in indices)
        if at in seen:
            return seen[at], int(lane)
        seen[at] = int(lane)
    return None
