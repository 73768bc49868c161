"""What a reference asks for, and how far from it a right kernel may be.

The reference is evaluated in float64, and every value carries a bound on the rounding error that a computation in the
reference's own dtypes may have: a running error analysis (N. Higham, Accuracy and Stability of Numerical Algorithms,
2nd ed., section 3.3). So the reference states the accuracy it asks for. Where it sums in float32, a kernel that sums
in bfloat16 is refused; where it computes in bfloat16, that is all a kernel needs.

A sum of n terms, in whatever order, is allowed min(n, 4 sqrt(n)) roundings of the sum of their absolute values: the
probabilistic bound of N. Higham and T. Mary, A new approach to probabilistic rounding error analysis, SIAM J. Sci.
Comput. 41 (2019), with a constant that fails once in thousands of sums. It does not hold where few values occur, for
then roundings go one way: so at least three times the error of the plain sum, term after term, is allowed.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np

from course_lib.grid import inner_jaxpr, scan_parts

# Roundings that one arithmetic operation may cost: another formula for the same thing takes a few more than ours.
# Functions that XLA itself computes less exactly have more: the largest error of its CPU version against float64, over
# two million numbers of up to about 20, rounded up (jax 0.11.2).
_ROUNDINGS = 6
_MORE_ROUNDINGS = {
    "tanh": 8, "erf": 8, "expm1": 8, "log1p": 8, "sinh": 16, "cosh": 16, "exp2": 64, "erfc": 128, "erf_inv": 128,
}  # fmt: skip

_MOVES = {
    "broadcast_in_dim", "reshape", "squeeze", "expand_dims", "transpose", "slice", "rev", "copy", "copy_p",
    "stop_gradient", "dynamic_slice", "gather", "concatenate", "pad", "dynamic_update_slice", "scatter", "real",
    "optimization_barrier", "split", "device_put", "name", "tile",
}  # fmt: skip
_EXACT = {"neg", "sign", "floor", "ceil", "round", "rem"}
_NO_WORSE = {"max", "min", "clamp", "abs"}  # a result is no further off than the worst of the inputs
_COMPARES = {"lt", "le", "gt", "ge", "eq", "ne"}
_LOGIC = {"and", "or", "not", "xor"}
_PRODUCTS = {"dot_general", "conv_general_dilated", "ragged_dot", "ragged_dot_general"}
_SUMS = {"reduce_sum", "cumsum"}
_EXTREMES = {"reduce_max": "max", "reduce_min": "max", "cummax": "max", "cummin": "max"}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Expected:
    """One output of a reference: ``value`` in its own dtype; for floats the ``exact`` value and the ``bound`` on a
    right kernel's distance from it (both float64[shape]); None where no bound could be derived. For a bool that comes
    from comparing floats ``bound`` is bool[shape]: where they are so close that it may be either."""

    value: np.ndarray
    exact: np.ndarray | None = None
    bound: np.ndarray | None = None


class _Unbounded(Exception):
    """There is no rule for the error of an operation."""


def expected(reference: Callable, args: tuple, result=None, one_pass: bool = False) -> list[Expected]:
    """What ``reference(*args)`` asks for, output by output. ``result`` is what it returned, if that is known.

    ``one_pass``: the bound is for a chip whose MXU rounds float32 operands to bfloat16 where no precision is asked for.
    Raises what the reference raises.
    """
    values = [np.asarray(a) for a in jax.tree.leaves(reference(*args) if result is None else result)]
    try:
        jaxpr = jax.make_jaxpr(reference)(*args)
        exact, bounds = _evaluated(jaxpr, args, one_pass)
    except Exception:  # a reference in NumPy, or an operation without a rule
        return [Expected(value=value) for value in values]
    return [
        Expected(value=v, exact=e, bound=b) if _is_float(v.dtype) else Expected(value=v, bound=b)
        for v, e, b in zip(values, exact, bounds, strict=True)
    ]


def right(got: np.ndarray, want: Expected) -> np.ndarray:
    """bool[shape]: which elements are right. NaN equals NaN and nothing else; integers and bools must be equal."""
    same = (got == want.value) | _both_nan(got, want.value)
    if not _is_float(want.value.dtype):
        return same if want.bound is None else same | want.bound
    if want.bound is None:
        return close(got, want.value)
    g = got.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        rounded = want.exact.astype(want.value.dtype).astype(np.float64)  # to infinity, where it is too large
        near = np.abs(g - want.exact) <= want.bound + float(jnp.finfo(want.value.dtype).tiny)
        near &= np.isfinite(g) & np.isfinite(rounded)
        return same | near | (np.isinf(rounded) & (g == rounded)) | (np.isnan(rounded) & np.isnan(g))


def close(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """bool[shape]: equal, or within a few roundings of the dtype: for values whose making is not known."""
    if not _is_float(want.dtype):
        return got == want
    g, w = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(g - w) <= _ROUNDINGS * float(jnp.finfo(want.dtype).eps) * np.maximum(np.abs(w), 1e-30)
    near &= np.isfinite(g) & np.isfinite(w)  # an infinite tolerance would forgive everything
    return near | (g == w) | (np.isnan(g) & np.isnan(w))


def _both_nan(got: np.ndarray, want: np.ndarray) -> np.ndarray | bool:
    return np.isnan(got) & np.isnan(want) if _is_float(got.dtype) else False


def _is_float(dtype) -> bool:
    return jnp.issubdtype(dtype, jnp.floating)


class _Setting(NamedTuple):
    """What holds for a whole evaluation: how the MXU rounds, and the value of each constant, by its id."""

    one_pass: bool
    constants: dict[int, tuple]


def _evaluated(jaxpr, args: tuple, one_pass: bool) -> tuple[list, list]:
    """Exact values and bounds of every output, as NumPy arrays; the bound of an integer is None."""
    leaves = [np.asarray(a) for a in jax.tree.leaves(args)]
    # A reference is judged against many times: what differs between two with the same text are their constants.
    run = _compiled.setdefault((str(jaxpr), one_pass), jax.jit(functools.partial(_both, jaxpr, one_pass)))
    while len(_compiled) > 64:
        del _compiled[next(iter(_compiled))]
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        outputs = run([np.asarray(c) for c in _constants(jaxpr)], leaves)
    return [np.asarray(v) for v, _ in outputs], [b if b is None else np.asarray(b) for _, b in outputs]


_compiled: dict[tuple[str, bool], Callable] = {}


def _constants(closed) -> list:
    """The constants of a jaxpr, and of all inside it, in order."""
    inside = [value for eqn in closed.jaxpr.eqns for value in jax.tree.leaves(eqn.params, is_leaf=_is_closed)]
    return [*closed.consts, *(c for inner in inside if _is_closed(inner) for c in _constants(inner))]


def _is_closed(value) -> bool:
    return isinstance(value, jax.extend.core.ClosedJaxpr)


def _both(jaxpr, one_pass: bool, constants: list, leaves: list) -> list[tuple]:
    values = {id(c): _exactly(value) for c, value in zip(_constants(jaxpr), constants, strict=True)}
    setting = _Setting(one_pass, values)
    return _closed(jaxpr, [_exactly(x) for x in leaves], setting)


def _exactly(x) -> tuple:
    """A value and its error bound, to begin with: a float as float64, with no error.

    A bool has no bound but, once it comes from comparing floats, an array that says where it may be either; None before
    that, as for integers.
    """
    if not _is_float(x.dtype):
        return x, None
    x = jnp.asarray(x).astype(jnp.float64)
    return x, jnp.zeros_like(x)


def _jaxpr(jaxpr, consts: list, inputs: list, setting: _Setting) -> list[tuple]:
    """(value, bound) of each output; those of constants and inputs are given."""
    env = dict(zip(jaxpr.constvars, consts, strict=True)) | dict(zip(jaxpr.invars, inputs, strict=True))

    def read(atom) -> tuple:
        return (
            _exactly(np.asarray(atom.val, atom.aval.dtype)) if isinstance(atom, jax.extend.core.Literal) else env[atom]
        )

    for eqn in jaxpr.eqns:
        outputs = _equation(eqn, [read(v) for v in eqn.invars], setting)
        env.update(zip(eqn.outvars, outputs, strict=True))
    return [read(v) for v in jaxpr.outvars]


def _equation(eqn, inputs: list, setting: _Setting) -> list[tuple]:
    name = eqn.primitive.name
    if name in _LOOPS:
        return _LOOPS[name](eqn, inputs, setting)
    if (inner := inner_jaxpr(eqn)) is not None:
        return _closed(inner, inputs, setting) if _is_closed(inner) else _jaxpr(inner, [], inputs, setting)
    values = [value for value, _ in inputs]
    bind = _adding(eqn.params) if name == "scatter-add" else _binding(eqn)
    outputs = bind(*values)
    outputs = list(outputs) if eqn.primitive.multiple_results else [outputs]
    if not any(_is_float(v.aval.dtype) for v in eqn.outvars):
        return [(value, _doubtful(eqn, values, [b for _, b in inputs], bind)) for value in outputs]
    bounds = [jnp.zeros_like(v) if b is None and _is_float(v.dtype) else b for v, b in inputs]
    return list(zip(outputs, _bounds(eqn, bind, values, bounds, outputs, setting), strict=True))


def _binding(eqn) -> Callable:
    """The operation of an equation, for float64."""
    return functools.partial(eqn.primitive.bind, **_in_float64(eqn.primitive.get_bind_params(eqn.params)))


def _adding(params: dict) -> Callable:
    """The same for x.at[...].add, which carries an addition in its own dtype inside."""
    kept = {key: params[key] for key in ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode")}
    return functools.partial(jax.lax.scatter_add, **kept)


def _doubtful(eqn, values: list, bounds: list, bind: Callable):
    """Where a bool that comes from floats may as well be the other one, as bool of its shape; None: nowhere."""
    name, dtype = eqn.primitive.name, eqn.outvars[0].aval.dtype
    if dtype != np.bool_ or all(b is None for b in bounds):
        return None
    if name in _COMPARES:
        either = sum(jnp.zeros_like(v) if b is None else b for v, b in zip(values, bounds, strict=True))
        near = jnp.abs(values[0] - values[1]) <= either
        return near & (either > 0)
    if name in _LOGIC:
        return functools.reduce(jnp.logical_or, [b for b in bounds if b is not None])
    return bind(*[v if b is None else b for v, b in zip(values, bounds, strict=True)]) if name in _MOVES else None


def _in_float64(params: dict) -> dict:
    """The parameters of an operation, with float64 in the place of narrower floats."""

    def widened(value):
        try:
            return np.dtype(np.float64) if _is_float(value) else value
        except TypeError:  # no dtype at all
            return value

    return {key: widened(v) if isinstance(v, (np.dtype, type)) else v for key, v in params.items()}


def _bounds(eqn, bind: Callable, values: list, bounds: list, outputs: list, setting: _Setting) -> list:
    """The bound of each output of one operation."""
    name = eqn.primitive.name
    if name in _MOVES:
        moved = bind(*[v if b is None else b for v, b in zip(values, bounds, strict=True)])
        moved = list(moved) if eqn.primitive.multiple_results else [moved]
        return [m if _is_float(m.dtype) else None for m in moved]
    if len(outputs) != 1:
        raise _Unbounded(name)
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
        terms = eqn.invars[1].aval.size  # indices: no element is added to more often
        return [bind(bounds[0], values[1], bounds[2]) + _roundings(terms, False) * roundoff * sizes]
    if name == "convert_element_type":
        return [_of_conversion(eqn, value, bounds[0], roundoff)]
    if name == "reduce_precision":
        return [bounds[0] + 2.0 ** -(eqn.params["mantissa_bits"] + 1) * jnp.abs(value)]
    if name in _SUMS:
        terms = _terms(eqn)
        by_chance = _roundings(terms, False) * roundoff * bind(jnp.abs(values[0]))
        return [bind(bounds[0]) + jnp.maximum(by_chance, 3 * jnp.abs(_one_by_one(eqn, values[0]) - value))]
    if name in _EXTREMES:
        axes = eqn.params.get("axes")
        largest = jnp.max(bounds[0], axis=axes) if axes is not None else jnp.max(bounds[0])
        return [jnp.broadcast_to(largest, value.shape)]
    if name == "sort":
        return [jnp.broadcast_to(jnp.max(bounds[0], axis=eqn.params["dimension"], keepdims=True), value.shape)]
    if name in _PRODUCTS:
        return [_of_product(eqn, bind, values, bounds, value, roundoff, setting)]
    return [_of_elementwise(eqn, bind, values, bounds, value, roundoff)]


def _roundoff(dtype) -> float:
    return float(jnp.finfo(dtype).eps) / 2


def _roundings(terms: int, alike):
    """How many roundings a sum of so many terms is allowed. Those of equal terms all go one way, and add up."""
    return jnp.where(alike, terms, min(terms, 4 * math.sqrt(terms)))


def _alike(x):
    """Whether all elements are of one size."""
    return jnp.max(jnp.abs(x), initial=0.0) == jnp.min(jnp.abs(x), initial=jnp.inf)


def _terms(eqn) -> int:
    """How many terms each element of a sum has."""
    shape = eqn.invars[0].aval.shape
    return math.prod(shape[axis] for axis in eqn.params["axes"]) if "axes" in eqn.params else shape[eqn.params["axis"]]


def _one_by_one(eqn, x):
    """The sum of an equation in its own dtype, term after term."""
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


def _of_conversion(eqn, value, bound, roundoff: float):
    old, new = eqn.invars[0].aval.dtype, eqn.outvars[0].aval.dtype
    if bound is None:
        bound = jnp.zeros_like(value)
    exact = _is_float(old) and jnp.finfo(new).nmant >= jnp.finfo(old).nmant or old == np.bool_
    return bound if exact else bound + roundoff * jnp.abs(value)


def _of_factors(eqn, x, bound, value, roundoff: float):
    """The relative errors of the factors add up."""
    relative = jnp.where(x == 0, 0.0, bound / jnp.abs(x))
    if "axes" in eqn.params:
        each = jnp.sum(relative, axis=eqn.params["axes"])
    else:
        each = jnp.max(jnp.cumsum(relative, axis=eqn.params["axis"]), axis=eqn.params["axis"], keepdims=True)
    return (each + _terms(eqn) * roundoff) * jnp.abs(value)


def _of_product(eqn, bind, values: list, bounds: list, value, roundoff: float, setting: _Setting):
    """|x| e_y + e_x |y|, and the roundings of the sum."""
    x, y, *rest = map(jnp.abs, values)
    terms = _terms_of_product(eqn)
    total = bind(x, bounds[1], *rest) + bind(bounds[0], y, *rest)
    # A product is summed in float32 at least, on the MXU and in XLA, and rounded to a narrower dtype once.
    in_sum = min(roundoff, _roundoff(jnp.float32))
    total += _roundings(terms, _alike(x) & _alike(y)) * in_sum * bind(x, y, *rest)
    if roundoff > in_sum:
        total += roundoff * jnp.abs(value)
    if setting.one_pass and eqn.invars[0].aval.dtype == np.float32 and eqn.params.get("precision") is None:
        # Both factors of every term are rounded, up or down: four standard deviations of the sum, at most.
        total += 4 * math.sqrt(2) * _roundoff(jnp.bfloat16) * jnp.sqrt(bind(x * x, y * y, *rest))
    return total


def _terms_of_product(eqn) -> int:
    x, y = (v.aval for v in eqn.invars[:2])
    if eqn.primitive.name == "dot_general":
        (contracted, _), _ = eqn.params["dimension_numbers"]
        return math.prod(x.shape[axis] for axis in contracted)
    if eqn.primitive.name == "conv_general_dilated":
        return y.size // y.shape[eqn.params["dimension_numbers"].rhs_spec[0]]
    return max(x.shape)  # a ragged product: one axis of x is summed


def _of_elementwise(eqn, bind, values: list, bounds: list, value, roundoff: float):
    """Each input's error times the slope, and a few roundings of the result."""
    if any(np.broadcast_shapes(v.shape, value.shape) != value.shape for v in values):
        raise _Unbounded(eqn.primitive.name)
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
        total = total + (
            jnp.minimum(moved, jnp.sqrt(bound)) if name == "sqrt" else moved
        )  # whose slope at 0 is infinite
    return jnp.broadcast_to(total, value.shape)


def _scan(eqn, inputs: list, setting: _Setting) -> list[tuple]:
    body, params = eqn.params["jaxpr"], eqn.params
    consts, carry, xs = scan_parts(eqn, inputs)

    def turn(carry, x):
        outputs = _closed(body, [*consts, *carry, *x], setting)
        return outputs[: len(carry)], outputs[len(carry) :]

    carry, ys = jax.lax.scan(turn, list(carry), list(xs), length=params["length"], reverse=params["reverse"])
    return [*carry, *ys]


def _while(eqn, inputs: list, setting: _Setting) -> list[tuple]:
    condition, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    first, second = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    of_cond, of_body, carry = inputs[:first], inputs[first : first + second], inputs[first + second :]
    return jax.lax.while_loop(
        lambda c: _closed(condition, [*of_cond, *c], setting)[0][0],
        lambda c: _closed(body, [*of_body, *c], setting),
        list(carry),
    )


def _cond(eqn, inputs: list, setting: _Setting) -> list[tuple]:
    branches = [lambda *a, b=b: _closed(b, list(a), setting) for b in eqn.params["branches"]]
    return jax.lax.switch(inputs[0][0], branches, *inputs[1:])


def _closed(closed, inputs: list, setting: _Setting) -> list[tuple]:
    return _jaxpr(closed.jaxpr, [setting.constants[id(c)] for c in closed.consts], inputs, setting)


_LOOPS = {"scan": _scan, "while": _while, "cond": _cond}
