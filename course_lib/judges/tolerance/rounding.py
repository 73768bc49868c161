"""The evaluation of a reference in float64, with a bound on the rounding error beside every value.

It is a running error analysis (N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.3): the
bounds of an operation's inputs times the result's dependence on them, plus the roundings of the operation itself.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np

from course_lib.grid import jaxprs
from course_lib.judges.tolerance.op_rounding import bounds_of, doubtful, is_float


class _Setting(NamedTuple):
    """The settings of an evaluation: how the MXU rounds, and the value of each constant by its id.

    ``guessed``: the operations without a rule, as far as the evaluation has met them.
    """

    one_pass: bool
    constants: dict[int, tuple]
    guessed: list[str]


def evaluated(jaxpr, args: tuple, one_pass: bool) -> tuple[list, list, list[str]]:
    """Return the exact values and the bounds of all outputs, as NumPy arrays, and the operations without a rule.

    The bound of an integer is None, unless it was rounded from a float; a bound is NaN behind an operation without a
    rule.
    """
    leaves = [np.asarray(a) for a in jax.tree.leaves(args)]
    # References recur. Two jaxprs with the same text differ only in their constants, so they share a compiled run.
    guessed: list[str] = []
    fresh = jax.jit(functools.partial(_both, jaxpr, one_pass, guessed), compiler_options=QUICKLY)
    run, guessed = _compiled.setdefault((str(jaxpr), one_pass), (fresh, guessed))
    while len(_compiled) > 64:
        del _compiled[next(iter(_compiled))]
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        outputs = run([np.asarray(c) for c in jaxprs.constants(jaxpr)], leaves)
    bounds = [b if b is None else np.asarray(b) for _, b in outputs]
    return [np.asarray(v) for v, _ in outputs], bounds, list(dict.fromkeys(guessed))


_compiled: dict[tuple[str, bool], tuple[Callable, list[str]]] = {}
# A program that runs a few times takes longer to optimize than to run, and XLA needs minutes to fold large constants.
QUICKLY = {"xla_backend_optimization_level": 0, "xla_disable_hlo_passes": "constant_folding"}


def _both(jaxpr, one_pass: bool, guessed: list[str], constants: list, leaves: list) -> list[tuple]:
    values = {id(c): _exactly(value) for c, value in zip(jaxprs.constants(jaxpr), constants, strict=True)}
    return _jaxpr(jaxpr, [_exactly(x) for x in leaves], _Setting(one_pass, values, guessed))


def _exactly(x) -> tuple:
    """Return a value with its initial error bound: a float as float64, with error 0.

    Integers have the bound None. So do bools, until they come from a comparison of floats: then it is an array that
    says where they may be either.
    """
    if not is_float(x.dtype):
        return x, None
    x = jnp.asarray(x).astype(jnp.float64)
    return x, jnp.zeros_like(x)


def _jaxpr(jaxpr, inputs: list, setting: _Setting) -> list[tuple]:
    """Return (value, bound) of each output, given those of the inputs."""
    consts = [setting.constants[id(c)] for c in jaxpr.consts]
    env = dict(zip(jaxpr.constvars, consts, strict=True)) | dict(zip(jaxpr.invars, inputs, strict=True))

    def read(atom) -> tuple:
        return env[atom] if jaxprs.is_variable(atom) else _exactly(np.asarray(atom.val, atom.aval.dtype))

    for eqn in jaxpr.eqns:
        outputs = _equation(eqn, [read(v) for v in eqn.invars], setting)
        env.update(zip(eqn.outvars, outputs, strict=True))
    return [read(v) for v in jaxpr.outvars]


def _equation(eqn, inputs: list, setting: _Setting) -> list[tuple]:
    name = eqn.primitive.name
    if name in ("scan", "while", "cond"):
        return jaxprs.run_anew(eqn, inputs, lambda jaxpr, values: _jaxpr(jaxpr, values, setting), lambda pair: pair[0])
    if (inner := jaxprs.called(eqn)) is not None:
        if meant := _BY_BITS.get(inner.debug_info.func_name):
            inner = jax.make_jaxpr(meant)(*(value for value, _ in inputs))
        return _jaxpr(inner, inputs, setting)
    values = [value for value, _ in inputs]
    bind = _adding(eqn.params) if name == "scatter-add" else _binding(eqn)
    outputs = bind(*values)
    outputs = list(outputs) if eqn.primitive.multiple_results else [outputs]
    if not any(is_float(v.aval.dtype) for v in eqn.outvars):
        return [(value, doubtful(eqn, values, [b for _, b in inputs], bind)) for value in outputs]
    bounds = [jnp.zeros_like(v) if b is None and is_float(v.dtype) else b for v, b in inputs]
    try:
        found = bounds_of(eqn, bind, values, bounds, outputs, setting.one_pass)
    except Exception:  # there is no rule for it, or none that fits these arguments
        setting.guessed.append(name)
        found = [jnp.full_like(value, jnp.nan) if is_float(value.dtype) else None for value in outputs]
    return list(zip(outputs, found, strict=True))


# The meaning of functions that JAX 0.12 computes on the bits of numbers, from which no error bound follows.
_BY_BITS = {"exp_neg_sq": lambda x: jnp.exp(-x * x)}


def _binding(eqn) -> Callable:
    """Return the operation of an equation, for float64."""
    return functools.partial(eqn.primitive.bind, **_in_float64(eqn.primitive.get_bind_params(eqn.params)))


def _adding(params: dict) -> Callable:
    """Return the same for x.at[...].add, which contains an addition in its own dtype."""
    kept = {key: params[key] for key in ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode")}
    return functools.partial(jax.lax.scatter_add, **kept)


def _in_float64(params: dict) -> dict:
    """Replace narrower floats by float64 in the parameters of an operation."""

    def widened(value):
        try:
            return np.dtype(np.float64) if is_float(value) else value
        except TypeError:  # not a dtype
            return value

    return {key: widened(v) if isinstance(v, (np.dtype, type)) else v for key, v in params.items()}
