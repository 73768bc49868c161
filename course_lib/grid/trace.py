"""Trace a function for a TPU that is not there, find the kernels in it, and run it again in another mode."""

import dataclasses
from collections.abc import Callable, Iterator

import jax
import jax.extend.core
from jax.experimental.pallas import tpu as pltpu
from jax.interpreters import partial_eval

from course_lib import chips, compat
from course_lib.grid.call import UnreadableCall

compat.trace_kernels_anew()

KERNELS = ("pallas_call", "mpmd_map")  # what pl.pallas_call and pl.kernel are called in a jaxpr
_CALLS = {
    "jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "remat2", "checkpoint",
}  # fmt: skip


def trace(fn: Callable, *args, chip: str = "v5e") -> jax.extend.core.ClosedJaxpr:
    """The jaxpr of ``fn(*args)`` as Pallas traces it for ``chip``; args are arrays or ShapeDtypeStructs."""
    return trace_with_result(fn, *args, chip=chip)[0]


def trace_with_result(fn: Callable, *args, chip: str = "v5e") -> tuple[jax.extend.core.ClosedJaxpr, object]:
    """The jaxpr, and what the function returns, as shapes and dtypes in their lists and tuples."""
    # A fresh function object: JAX must not reuse a trace that was made for a simulator.
    with chips.chip(chip).target(), pltpu.force_tpu_interpret_mode(False):
        jaxpr, result = jax.make_jaxpr(lambda *a: fn(*a), return_shape=True)(*args)
        if any(eqn.primitive.name == "platform_index" for eqn in equations(jaxpr.jaxpr)):
            jaxpr = jax.make_jaxpr(lambda *a: run(jaxpr, False, *a))(*args)  # keeps the TPU's side only
        return _without_dead_code(jaxpr), result


def _without_dead_code(closed: jax.extend.core.ClosedJaxpr) -> jax.extend.core.ClosedJaxpr:
    """Without what no result depends on, as every compiler would leave it out: the forward side of a gradient, say."""
    jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    return jax.extend.core.ClosedJaxpr(jaxpr, closed.consts)


def run(jaxpr: jax.extend.core.ClosedJaxpr, interpret, *args) -> list:
    """Evaluate a traced function with every kernel in the given interpret mode; its flat list of outputs.

    ``interpret``: False lowers for the chip, True is the plain interpreter, InterpretParams the TPU simulator. A
    kernel call remembers the mode it was made in, so the mode is put into the jaxpr and not only around it.
    """
    return _run(jaxpr.jaxpr, jaxpr.consts, interpret, *jax.tree.leaves(args))


def _run(jaxpr, consts, interpret, *args) -> list:
    values = dict(zip(jaxpr.constvars, consts, strict=True)) | dict(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        inputs = [v.val if isinstance(v, jax.extend.core.Literal) else values[v] for v in eqn.invars]
        if eqn.primitive.name in KERNELS:
            outputs = eqn.primitive.bind(*inputs, **_in_mode(eqn.params, interpret))
        elif eqn.primitive.name == "platform_index":  # lax.platform_dependent: take what it does on a TPU
            outputs = next(n for n, p in enumerate(eqn.params["platforms"]) if p is None or "tpu" in p)
        elif eqn.primitive.name == "cond" and isinstance(inputs[0], int):
            branch = eqn.params["branches"][inputs[0]]
            outputs = _run(branch.jaxpr, branch.consts, interpret, *inputs[1:])
        elif _holds_a_kernel(eqn):
            outputs = _run_inside(eqn, interpret, inputs)
        else:
            outputs = eqn.primitive.bind(*inputs, **eqn.primitive.get_bind_params(eqn.params))
        outputs = outputs if eqn.primitive.multiple_results else [outputs]
        values |= dict(zip(eqn.outvars, outputs, strict=True))
    return [v.val if isinstance(v, jax.extend.core.Literal) else values[v] for v in jaxpr.outvars]


def _in_mode(params: dict, interpret) -> dict:
    """The parameters of a kernel call in an interpret mode.

    The TPU simulator takes "parallel" axes only where they come first in the grid, the chip anywhere: those that come
    later are simulated in order, one step after another.
    """
    compiler_params, semantics = params.get("compiler_params"), meanings_of_axes(params)
    if isinstance(interpret, pltpu.InterpretParams) and semantics:
        first = next((n for n, meaning in enumerate(semantics) if not _parallel(meaning)), len(semantics))
        in_order = tuple(pltpu.ARBITRARY if n > first else meaning for n, meaning in enumerate(semantics))
        params = params | {"compiler_params": dataclasses.replace(compiler_params, dimension_semantics=in_order)}
    return params | {"interpret": interpret}


def meanings_of_axes(params: dict) -> tuple:
    """What is said of each grid axis of a kernel call, "parallel" or not; () where nothing is.

    Axes that ``jax.vmap`` has put in are parallel, as in JAX's own lowering; the kernel's author knew nothing of them.
    """
    said = getattr(params.get("compiler_params"), "dimension_semantics", None)
    if not said or "grid_mapping" not in params:
        return tuple(said or ())
    mapping, left = params["grid_mapping"], iter(said)
    found = tuple(pltpu.PARALLEL if n in mapping.vmapped_dims else next(left, None) for n in range(len(mapping.grid)))
    # What does not fit the grid is for JAX to refuse, as it was written.
    return tuple(said) if None in found or next(left, None) is not None else found


def _parallel(meaning) -> bool:
    return "parallel" in str(meaning).lower()


def _run_inside(eqn, interpret, inputs: list) -> list:
    """Run an equation that wraps a kernel: calls are simply entered, loops and conditions are built anew."""
    name, params = eqn.primitive.name, eqn.params
    if name in _CALLS or (name == "shard_map" and params["mesh"].size == 1):  # on one device it is a call
        inner = inner_jaxpr(eqn)
        return _run(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), interpret, *inputs)

    def call(closed, *args) -> list:
        return _run(closed.jaxpr, closed.consts, interpret, *args)

    if name == "scan":
        consts, carry, xs = scan_parts(eqn, inputs)

        def body(carry, xs):
            out = call(params["jaxpr"], *consts, *carry, *xs)
            return out[: len(carry)], out[len(carry) :]

        carry, ys = jax.lax.scan(body, carry, xs, length=params["length"], reverse=params["reverse"])
        return [*carry, *ys]
    if name == "while":
        of_cond, of_body, carry = split(inputs, params["cond_nconsts"], params["body_nconsts"])
        return jax.lax.while_loop(
            lambda c: call(params["cond_jaxpr"], *of_cond, *c)[0],
            lambda c: call(params["body_jaxpr"], *of_body, *c),
            carry,
        )
    if name == "cond":
        branches = [lambda *a, b=branch: call(b, *a) for branch in params["branches"]]
        return jax.lax.switch(inputs[0], branches, *inputs[1:])
    raise UnreadableCall(f"a kernel inside `{name}` cannot be judged yet: call it directly.")


def split(values: list, first: int, second: int) -> tuple[list, list, list]:
    """The first ``first`` values, the ``second`` after them, and the rest."""
    return values[:first], values[first : first + second], values[first + second :]


def scan_parts(eqn, values: list) -> tuple[list, list, list]:
    """A scan's inputs: the constants, what it carries from turn to turn, what it takes a slice of at each turn."""
    consts, carry, _ = (len(list(part.vals)) for part in eqn.params["ft_in"].unpack())
    return split(values, consts, carry)


def inner_jaxpr(eqn):
    """The jaxpr that a call-like equation (jit, custom_vjp ...) enters, or None."""
    return next((eqn.params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in eqn.params), None)


def equations(jaxpr) -> Iterator:
    """Every equation of a jaxpr, those inside jit, loops and conditions too; not those inside a kernel."""
    for eqn in jaxpr.eqns:
        yield eqn
        if eqn.primitive.name not in KERNELS:
            for inner in sub_jaxprs(eqn):
                yield from equations(inner)


def pallas_calls(jaxpr) -> Iterator:
    """The kernel calls of a jaxpr, inside jit, custom_vjp, scan and the like too."""
    return (eqn for eqn in equations(jaxpr) if eqn.primitive.name in KERNELS)


def sub_jaxprs(eqn) -> Iterator:
    """The jaxprs an equation carries in its parameters (jit, cond, scan, custom_vjp ...)."""
    for value in eqn.params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            inner = getattr(item, "jaxpr", item)
            if hasattr(inner, "eqns"):
                yield inner


def _holds_a_kernel(eqn) -> bool:
    """Whether an equation must be entered: it wraps a kernel, or a choice by platform that may lead to one."""
    inside = (e.primitive.name for inner in sub_jaxprs(eqn) for e in equations(inner))
    return any(name in (*KERNELS, "platform_index") for name in inside)
