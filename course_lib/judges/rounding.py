"""Evaluate a reference in float64, with a bound on the rounding error beside every value.

A running error analysis (N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.3): the bounds
of an operation's inputs, times how much the result depends on them, and the roundings of the operation itself.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np

from course_lib.grid import inner_jaxpr, scan_parts
from course_lib.judges.rounding_rules import bounds_of, doubtful, is_float


class _Setting(NamedTuple):
    """What holds for a whole evaluation: how the MXU rounds, and the value of each constant, by its id."""

    one_pass: bool
    constants: dict[int, tuple]


def evaluated(jaxpr, args: tuple, one_pass: bool) -> tuple[list, list]:
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
    if not is_float(x.dtype):
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
        if meant := _BY_BITS.get(getattr(inner, "jaxpr", inner).debug_info.func_name):
            inner = jax.make_jaxpr(meant)(*(value for value, _ in inputs))
        return _closed(inner, inputs, setting) if _is_closed(inner) else _jaxpr(inner, [], inputs, setting)
    values = [value for value, _ in inputs]
    bind = _adding(eqn.params) if name == "scatter-add" else _binding(eqn)
    outputs = bind(*values)
    outputs = list(outputs) if eqn.primitive.multiple_results else [outputs]
    if not any(is_float(v.aval.dtype) for v in eqn.outvars):
        return [(value, doubtful(eqn, values, [b for _, b in inputs], bind)) for value in outputs]
    bounds = [jnp.zeros_like(v) if b is None and is_float(v.dtype) else b for v, b in inputs]
    return list(zip(outputs, bounds_of(eqn, bind, values, bounds, outputs, setting.one_pass), strict=True))


# Functions that JAX 0.12 computes by taking numbers apart into bits, which says nothing about errors: what they mean.
_BY_BITS = {"exp_neg_sq": lambda x: jnp.exp(-x * x)}


def _binding(eqn) -> Callable:
    """The operation of an equation, for float64."""
    return functools.partial(eqn.primitive.bind, **_in_float64(eqn.primitive.get_bind_params(eqn.params)))


def _adding(params: dict) -> Callable:
    """The same for x.at[...].add, which carries an addition in its own dtype inside."""
    kept = {key: params[key] for key in ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode")}
    return functools.partial(jax.lax.scatter_add, **kept)


def _in_float64(params: dict) -> dict:
    """The parameters of an operation, with float64 in the place of narrower floats."""

    def widened(value):
        try:
            return np.dtype(np.float64) if is_float(value) else value
        except TypeError:  # no dtype at all
            return value

    return {key: widened(v) if isinstance(v, (np.dtype, type)) else v for key, v in params.items()}


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
