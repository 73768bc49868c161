"""The rounding error of one operation: a rule for each kind.

A sum of n terms, in any order, is allowed min(n, 4 sqrt(n)) roundings of the sum of their absolute values. This is the
probabilistic bound of N. Higham and T. Mary, A new approach to probabilistic rounding error analysis, SIAM J. Sci.
Comput. 41 (2019), with a constant for which at most one sum in 1,500 fails. It does not hold if few values occur,
because roundings then go one way, so at least three times the error of the plain sum, term after term, is allowed.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

# Roundings that one arithmetic operation may cost, because another formula for the same thing may take a few more.
# Functions that XLA computes less exactly have more: the largest error of its CPU version against float64, over two
# million numbers up to about 20, rounded up (jax 0.11.2).
_ROUNDINGS = 6
_MORE_ROUNDINGS = {
    "tanh": 8, "erf": 8, "expm1": 8, "log1p": 8, "sinh": 16, "cosh": 16, "exp2": 64, "erfc": 128, "erf_inv": 128,
}  # fmt: skip
_MOVES = {
    "broadcast_in_dim", "reshape", "squeeze", "expand_dims", "transpose", "slice", "rev", "copy",
    "stop_gradient", "dynamic_slice", "gather", "concatenate", "pad", "dynamic_update_slice", "scatter", "real",
    "optimization_barrier", "split", "stack", "unstack", "device_put", "name", "tile",
}  # fmt: skip
_EXACT = {"neg", "rem"}
_STEPS = {"sign", "floor", "ceil", "round"}  # exact, but a small error moves a value across a step
_NO_WORSE = {"max", "min", "clamp", "abs"}  # the result is no further off than the worst input
_OF_MATRICES = {"cholesky", "lu", "eigh", "eig", "svd", "qr", "schur", "householder_product", "fft"}
_COMPARES = {"lt", "le", "gt", "ge", "eq", "ne"}
_LOGIC = {"and", "or", "not", "xor"}
_PRODUCTS = {"dot_general", "conv_general_dilated", "ragged_dot", "ragged_dot_general"}
_SUMS = {"reduce_sum", "cumsum"}
_EXTREMES = {"reduce_max", "reduce_min", "cummax", "cummin", "reduce_window_max", "reduce_window_min"}


class Unbounded(Exception):
    """There is no rule for the error of an operation."""


def bounds_of(eqn, bind: Callable, values: list, bounds: list, outputs: list, one_pass: bool) -> list:
    """Return the bound of each output of one operation."""
    name = eqn.primitive.name
    if name == "sort" and len(outputs) > 1:
        return _of_sort(eqn, bounds, outputs)
    if name == "top_k":
        most = jnp.max(bounds[0], axis=eqn.params.get("axis", -1), keepdims=True)
        return [jnp.broadcast_to(most, outputs[0].shape), None]
    if name in _MOVES:
        moved = bind(*[b if is_float(v.dtype) else v for v, b in zip(values, bounds, strict=True)])
        moved = list(moved) if eqn.primitive.multiple_results else [moved]
        return [m if is_float(m.dtype) else None for m in moved]
    if len(outputs) != 1:
        raise Unbounded(name)
    (value,), roundoff = outputs, _roundoff(eqn.outvars[0].aval.dtype)
    if name == "select_n":
        chosen = bind(values[0], *bounds[1:])
        if bounds[0] is None:
            return [chosen]
        other = sum(jnp.abs(case - value) + bound for case, bound in zip(values[1:], bounds[1:], strict=True))
        return [jnp.where(bounds[0], chosen + other, chosen)]
    if name in _NO_WORSE:
        return [functools.reduce(jnp.maximum, [jnp.broadcast_to(b, value.shape) for b in bounds])]
    if name in ("reduce_prod", "cumprod"):
        return [_of_factors(eqn, values[0], bounds[0], value, roundoff)]
    if name == "scatter-add":
        sizes = bind(jnp.abs(values[0]), values[1], jnp.abs(values[2]))
        terms = eqn.invars[1].aval.size  # no element is added to more often than there are indices
        return [bind(bounds[0], values[1], bounds[2]) + _roundings(terms, False) * roundoff * sizes]
    if name == "convert_element_type":
        return [_of_conversion(eqn, value, bounds[0], roundoff)]
    if name == "reduce_precision":
        return [bounds[0] + 2.0 ** -(eqn.params["mantissa_bits"] + 1) * jnp.abs(value)]
    if name in _SUMS:
        terms = _terms(eqn)
        by_chance = _roundings(terms, False) * roundoff * bind(jnp.abs(values[0]))
        return [bind(bounds[0]) + jnp.maximum(by_chance, 3 * jnp.abs(_one_by_one(eqn, values[0]) - value))]
    if name == "reduce_window_sum":
        return [bind(bounds[0]) + _roundings(_terms(eqn), _alike(values[0])) * roundoff * bind(jnp.abs(values[0]))]
    if name == "cumlogsumexp":  # exp turns an error of x into a relative one of the sum, and log turns that back
        worst = jnp.max(bounds[0], axis=eqn.params["axis"], keepdims=True)
        return [worst + (_roundings(_terms(eqn), False) + _ROUNDINGS) * roundoff * (1 + jnp.abs(value))]
    if name in _EXTREMES:
        axes = eqn.params.get("axes")
        largest = jnp.max(bounds[0], axis=axes) if axes is not None else jnp.max(bounds[0])
        return [jnp.broadcast_to(largest, value.shape)]
    if name == "sort":
        return [jnp.broadcast_to(jnp.max(bounds[0], axis=eqn.params["dimension"], keepdims=True), value.shape)]
    if name in _PRODUCTS:
        return [_of_product(eqn, bind, values, bounds, value, roundoff, one_pass)]
    if name == "triangular_solve":
        return [_of_solve(eqn, values, bounds, value, roundoff)]
    if name in _STEPS:
        return [_across(bind, values[0], bounds[0])]
    return [_of_elementwise(eqn, bind, values, bounds, value, roundoff)]


def doubtful(eqn, values: list, bounds: list, bind: Callable):
    """Return as bool[shape] where a bool computed from floats may be either; None: nowhere.

    For integers it is float64[shape]: how far they may be off, having been rounded from floats.
    """
    name, dtype = eqn.primitive.name, eqn.outvars[0].aval.dtype
    if all(b is None for b in bounds):
        return None
    if dtype != np.bool_:
        return _of_integers(name, bind, values, bounds, eqn)
    if name in _COMPARES:
        either = sum(jnp.zeros_like(v) if b is None else b for v, b in zip(values, bounds, strict=True))
        near = jnp.abs(values[0] - values[1]) <= either
        return near & (either > 0)
    if name in _LOGIC:
        return functools.reduce(jnp.logical_or, [b for b in bounds if b is not None])
    return bind(*[v if b is None else b for v, b in zip(values, bounds, strict=True)]) if name in _MOVES else None


def is_float(dtype) -> bool:
    return jnp.issubdtype(dtype, jnp.floating)


def _of_conversion(eqn, value, bound, roundoff: float):
    old, new = eqn.invars[0].aval.dtype, eqn.outvars[0].aval.dtype
    if old == np.bool_:  # its bound says where it may be either
        return jnp.zeros_like(value) if bound is None else bound.astype(value.dtype)
    if bound is None:
        bound = jnp.zeros_like(value)
    if not is_float(old):
        return bound.astype(value.dtype) + roundoff * jnp.abs(value)
    exact = is_float(old) and jnp.finfo(new).nmant >= jnp.finfo(old).nmant
    return bound if exact else bound + roundoff * jnp.abs(value)


def _of_integers(name: str, bind: Callable, values: list, bounds: list, eqn):
    """Return how far an integer may be off; None if it is exact, or if there is no rule for the operation."""
    if eqn.invars[0].aval.dtype == np.bool_ or len(eqn.outvars) != 1:
        return None
    if name == "convert_element_type" and is_float(eqn.invars[0].aval.dtype):
        return _across(jnp.trunc, values[0], bounds[0])
    if name == "convert_element_type":
        return bounds[0]
    if name in _MOVES:
        moved = 1 if name in ("gather", "dynamic_slice") else len(values)  # what follows are indices
        return bind(
            *[jnp.zeros(v.shape) if b is None else b for v, b in zip(values[:moved], bounds, strict=False)],
            *values[moved:],
        )
    x, *y = (jnp.abs(v).astype(jnp.float64) for v in values)
    e, *f = (jnp.zeros(v.shape) if b is None else b for v, b in zip(values, bounds, strict=True))
    if name in _NO_WORSE:
        return functools.reduce(jnp.maximum, [e, *f])
    if name in ("add", "sub"):
        return e + f[0]
    if name == "mul":
        return x * f[0] + e * y[0] + e * f[0]
    if name == "dot_general":
        exact = functools.partial(jax.lax.dot_general, dimension_numbers=eqn.params["dimension_numbers"])
        return exact(x, f[0]) + exact(e, y[0]) + exact(e, f[0])
    return jnp.sum(e, axis=eqn.params["axes"]) if name == "reduce_sum" else None


def _across(step: Callable, x, bound):
    """Return how far apart a step function is at the two ends of x - bound .. x + bound."""
    return jnp.where(bound == 0, 0.0, jnp.abs(step(x + bound) - step(x - bound)))


def _of_sort(eqn, bounds: list, outputs: list) -> list:
    """Return the bounds of arrays that are sorted together: unknown where two keys may change places."""
    dimension, keys = eqn.params["dimension"], eqn.params["num_keys"]
    most = [None if b is None else jnp.max(b, axis=dimension, keepdims=True) for b in bounds]
    sure = functools.reduce(jnp.logical_and, [m == 0 for m in most[:keys] if m is not None], True)
    return [
        None if m is None else jnp.broadcast_to(m if n < keys else jnp.where(sure, m, jnp.nan), out.shape)
        for n, (m, out) in enumerate(zip(most, outputs, strict=True))
    ]


def _of_solve(eqn, values: list, bounds: list, x, roundoff: float):
    """Return |inv(A)| (n u |A| |x| + E |x| + e) for A x = b, after Higham, chapter 8; A is the triangle in use."""
    params, (a, _) = eqn.params, values
    if params["conjugate_a"]:
        raise Unbounded("triangular_solve")
    keep = jnp.tril if params["lower"] else jnp.triu
    size = a.shape[-1]
    triangle, error = keep(a), keep(bounds[0])
    if params["unit_diagonal"]:
        triangle, error = (
            keep(a, -1 if params["lower"] else 1) + jnp.eye(size),
            keep(error, -1 if params["lower"] else 1),
        )
    if params["transpose_a"]:
        triangle, error = (jnp.swapaxes(m, -1, -2) for m in (triangle, error))
    inverse, matrix = jnp.abs(jnp.linalg.inv(triangle)), size * 2 * roundoff * jnp.abs(triangle) + error
    if params["left_side"]:
        return inverse @ (matrix @ jnp.abs(x) + bounds[1])
    return (jnp.abs(x) @ matrix + bounds[1]) @ inverse


def _of_factors(eqn, x, bound, value, roundoff: float):
    """Add up the relative errors of the factors."""
    relative = jnp.where(x == 0, 0.0, bound / jnp.abs(x))
    if "axes" in eqn.params:
        each = jnp.sum(relative, axis=eqn.params["axes"])
    else:
        each = jnp.max(jnp.cumsum(relative, axis=eqn.params["axis"]), axis=eqn.params["axis"], keepdims=True)
    return (each + _terms(eqn) * roundoff) * jnp.abs(value)


def _of_product(eqn, bind, values: list, bounds: list, value, roundoff: float, one_pass: bool):
    """Return |x| e_y + e_x |y|, plus the roundings of the sum."""
    x, y, *rest = map(jnp.abs, values)
    terms = _terms_of_product(eqn)
    total = bind(x, bounds[1], *rest) + bind(bounds[0], y, *rest)
    # The MXU and XLA accumulate a matmul at least in float32, and round once to a narrower dtype.
    in_sum = min(roundoff, _roundoff(jnp.float32))
    total += _roundings(terms, _alike(x) & _alike(y)) * in_sum * bind(x, y, *rest)
    if roundoff > in_sum:
        total += roundoff * jnp.abs(value)
    if one_pass and eqn.invars[0].aval.dtype == np.float32 and eqn.params.get("precision") is None:
        # Both factors of every term are rounded up or down, so allow four standard deviations of the sum.
        total += 4 * math.sqrt(2) * _roundoff(jnp.bfloat16) * jnp.sqrt(bind(x * x, y * y, *rest))
    return total


def _terms_of_product(eqn) -> int:
    x, y = (v.aval for v in eqn.invars[:2])
    if eqn.primitive.name == "dot_general":
        (contracted, _), _ = eqn.params["dimension_numbers"]
        return math.prod(x.shape[axis] for axis in contracted)
    if eqn.primitive.name == "conv_general_dilated":
        return y.size // y.shape[eqn.params["dimension_numbers"].rhs_spec[0]]
    return max(x.shape)  # a ragged dot sums over one axis of x


def _of_elementwise(eqn, bind, values: list, bounds: list, value, roundoff: float):
    """Return each input's error times the slope, plus a few roundings of the result."""
    if eqn.primitive.name in _OF_MATRICES or any(
        np.broadcast_shapes(v.shape, value.shape) != value.shape for v in values
    ):
        raise Unbounded(eqn.primitive.name)
    name = eqn.primitive.name
    roundings = 0 if name in _EXACT else _MORE_ROUNDINGS.get(name, _ROUNDINGS)
    total = jnp.where(jnp.isfinite(value), roundings * roundoff * jnp.abs(value), 0.0)
    for n, (v, bound) in enumerate(zip(values, bounds, strict=True)):
        if bound is None:
            continue

        def of_one(x, n=n):
            return bind(*values[:n], x, *values[n + 1 :])

        _, slope = jax.jvp(of_one, (v,), (jnp.ones_like(v),))
        moved = jnp.where((bound == 0) | (slope == 0), 0.0, jnp.abs(slope) * bound)
        # The slope of a root is infinite at 0, but the root moves by at most the root of the error.
        total = total + (jnp.minimum(moved, jnp.sqrt(bound)) if name == "sqrt" else moved)
    return jnp.broadcast_to(total, value.shape)


def _one_by_one(eqn, x):
    """Compute the sum of an equation in its own dtype, term after term."""
    dtype = eqn.outvars[0].aval.dtype
    axes = eqn.params["axes"] if "axes" in eqn.params else (eqn.params["axis"],)
    order = (*axes, *(a for a in range(x.ndim) if a not in axes))
    rest = tuple(x.shape[a] for a in order[len(axes) :])
    terms = x.astype(dtype).transpose(order).reshape(-1, *rest)
    if eqn.primitive.name == "reduce_sum":
        total, _ = jax.lax.scan(lambda t, term: ((t + term).astype(dtype), None), jnp.zeros(rest, dtype), terms)
        return total.astype(jnp.float64)
    terms = terms[::-1] if eqn.params["reverse"] else terms
    _, sums = jax.lax.scan(lambda t, term: ((t + term).astype(dtype),) * 2, jnp.zeros(rest, dtype), terms)
    sums = sums[::-1] if eqn.params["reverse"] else sums
    return jnp.moveaxis(sums, 0, axes[0]).astype(jnp.float64)


def _roundoff(dtype) -> float:
    return float(jnp.finfo(dtype).eps) / 2


def _roundings(terms: int, alike):
    """Return the roundings allowed for a sum of this many terms; equal terms all round one way, so they add up."""
    return jnp.where(alike, terms, min(terms, 4 * math.sqrt(terms)))


def _alike(x):
    """Whether all elements have the same absolute value."""
    return jnp.max(jnp.abs(x), initial=0.0) == jnp.min(jnp.abs(x), initial=jnp.inf)


def _terms(eqn) -> int:
    """Return how many terms each element of a sum has."""
    shape = eqn.invars[0].aval.shape
    if "window_dimensions" in eqn.params:
        return math.prod(eqn.params["window_dimensions"])
    return math.prod(shape[axis] for axis in eqn.params["axes"]) if "axes" in eqn.params else shape[eqn.params["axis"]]
