"""Tracing of a function for a TPU that is not attached, and its evaluation with kernels in another mode."""

import dataclasses
from collections.abc import Callable

import jax
import jax.extend.core
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from jax.interpreters import partial_eval

from course_lib import chips, compat
from course_lib.grid.jaxprs import KERNELS, called, equations, holds_a_kernel, inside, is_variable, run_anew
from course_lib.grid.parallel import parallel_first
from course_lib.grid.unreadable import UnreadableCall

compat.trace_kernels_anew()

_CALLS = {
    "jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "remat2", "checkpoint",
}  # fmt: skip
_LAUNCH = "kernel_launch"  # the primitive of an op of course_lib.kernels
_CHOICES = ("platform_index", _LAUNCH)  # primitives that do one thing on a TPU and another elsewhere


def trace(fn: Callable, *args, chip: str = "v5e") -> jax.extend.core.ClosedJaxpr:
    """Return the jaxpr of ``fn(*args)`` as Pallas traces it for ``chip``; args are arrays or ShapeDtypeStructs."""
    return trace_with_result(fn, *args, chip=chip)[0]


def trace_with_result(fn: Callable, *args, chip: str = "v5e") -> tuple[jax.extend.core.ClosedJaxpr, object]:
    """Return the jaxpr, and the shapes and dtypes of the function's result in its lists and tuples."""
    # A fresh function object, so that JAX does not reuse a trace made for a simulator.
    with chips.chip(chip).target(), pltpu.force_tpu_interpret_mode(False), compat.compiler_options_ignored():
        jaxpr, result = jax.make_jaxpr(lambda *a: fn(*a), return_shape=True)(*args)
        if any(eqn.primitive.name in _CHOICES for eqn in equations(jaxpr)):
            jaxpr = jax.make_jaxpr(lambda *a: run(jaxpr, False, *a))(*args)  # keeps only the TPU's branches
        return _without_dead_code(jaxpr), result


def _without_dead_code(closed: jax.extend.core.ClosedJaxpr) -> jax.extend.core.ClosedJaxpr:
    """Remove what no result depends on, as any compiler would: the forward pass of a gradient, for example."""
    jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    return jax.extend.core.ClosedJaxpr(jaxpr, closed.consts)


def run(jaxpr: jax.extend.core.ClosedJaxpr, interpret, *args) -> list:
    """Evaluate a traced function with every kernel in the given interpret mode; return its flat list of outputs.

    ``interpret``: False lowers for the chip, True is the plain interpreter, InterpretParams the TPU simulator. A kernel
    call stores the mode it was traced in, so the mode is written into the jaxpr, not only set around it.
    """
    return _run(jaxpr, interpret, *jax.tree.leaves(args))


def _run(jaxpr, interpret, *args) -> list:
    values = dict(zip(jaxpr.constvars, jaxpr.consts, strict=True)) | dict(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        inputs = [values[v] if is_variable(v) else v.val for v in eqn.invars]
        if eqn.primitive.name in KERNELS:
            outputs = eqn.primitive.bind(*inputs, **_in_mode(eqn.params, interpret))
        elif eqn.primitive.name == _LAUNCH:
            outputs = _run(jax.make_jaxpr(eqn.params["op"].run_tpu)(*inputs), interpret, *inputs)
        elif eqn.primitive.name == "platform_index":  # lax.platform_dependent: take the TPU's branch
            outputs = next(n for n, p in enumerate(eqn.params["platforms"]) if p is None or "tpu" in p)
        elif eqn.primitive.name == "cond" and isinstance(inputs[0], int):
            outputs = _run(eqn.params["branches"][inputs[0]], interpret, *inputs[1:])
        elif holds_a_kernel(eqn, _CHOICES):  # or a choice by platform, which may lead to one
            outputs = _run_inside(eqn, interpret, inputs)
        else:
            outputs = eqn.primitive.bind(*inputs, **eqn.primitive.get_bind_params(eqn.params))
        outputs = outputs if eqn.primitive.multiple_results else [outputs]
        values |= dict(zip(eqn.outvars, outputs, strict=True))
    return [values[v] if is_variable(v) else v.val for v in jaxpr.outvars]


def _in_mode(params: dict, interpret) -> dict:
    """Return the parameters of a kernel call for an interpret mode.

    The chip accepts "parallel" axes anywhere in the grid, but the TPU simulator only in front. Where it looks for races
    later ones are therefore moved there, and elsewhere simulated in order, one step after another.
    """
    compiler_params, semantics = params.get("compiler_params"), meanings_of_axes(params)
    if isinstance(interpret, pltpu.InterpretParams) and semantics:
        if interpret.detect_races and "grid_mapping" in params and len(semantics) == len(params["grid_mapping"].grid):
            marks = [_parallel(meaning) for meaning in semantics]
            moved = parallel_first(params, marks)
            if moved is not params:
                params, semantics = moved, sorted(semantics, key=lambda meaning: not _parallel(meaning))
        first = next((n for n, meaning in enumerate(semantics) if not _parallel(meaning)), len(semantics))
        in_order = tuple(pltpu.ARBITRARY if n > first else meaning for n, meaning in enumerate(semantics))
        params = params | {"compiler_params": dataclasses.replace(compiler_params, dimension_semantics=in_order)}
    return params | {"interpret": interpret}


def meanings_of_axes(params: dict) -> tuple:
    """Return the meaning of each grid axis of a kernel call, "parallel" or not; () if the call does not say.

    Axes added by ``jax.vmap`` are parallel, as in JAX's own lowering; the kernel's author did not know about them.
    """
    said = getattr(params.get("compiler_params"), "dimension_semantics", None)
    if not said or "grid_mapping" not in params:
        return tuple(said or ())
    mapping, left = params["grid_mapping"], iter(said)
    found = tuple(pltpu.PARALLEL if n in mapping.vmapped_dims else next(left, None) for n in range(len(mapping.grid)))
    # If they do not fit the grid, keep them as written and let JAX refuse them.
    return tuple(said) if None in found or next(left, None) is not None else found


def _parallel(meaning) -> bool:
    return "parallel" in str(meaning).lower()


def _kept_apart(params: dict, inputs: list) -> list:
    """Return the inputs of a call; for a ``jax.checkpoint``, behind a barrier, as JAX itself lowers it.

    Without the barrier XLA would see the same kernel twice with the same arguments, and run it once.
    """
    apart = params.get("prevent_cse", False) if params.get("differentiated") else False
    apart = (apart,) * len(inputs) if isinstance(apart, bool) else apart
    behind = iter(jax.lax.optimization_barrier([value for value, one in zip(inputs, apart, strict=True) if one]))
    return [next(behind) if one else value for value, one in zip(inputs, apart, strict=True)]


def _run_inside(eqn, interpret, inputs: list) -> list:
    """Run an equation that wraps a kernel: enter calls, and rebuild loops and conditions."""
    name, params = eqn.primitive.name, eqn.params
    if name in _CALLS or (name == "shard_map" and params["mesh"].size == 1):  # on one device it is a call
        return _run(called(eqn), interpret, *_kept_apart(params, inputs))
    if name in ("scan", "while", "cond"):
        return run_anew(eqn, inputs, lambda jaxpr, values: _run(jaxpr, interpret, *values))
    if any(_for_gpus(e) for inner in inside(eqn) for e in equations(inner)):
        raise UnreadableCall(
            "This kernel is a GPU kernel, made with plgpu.kernel, but was passed to a TPU tool. Use judges.judge_gpu "
            "and compiler.compile_gpu."
        )
    if name == "shard_map":
        raise UnreadableCall(
            f"The kernel is inside a shard_map over {params['mesh'].size} devices, but the judges have one. Judge the "
            "function inside the shard_map, with one device's share of the arrays; or, if its kernel communicates "
            "with other devices, use judges.judge_chips."
        )
    raise UnreadableCall(f"A kernel inside `{name}` cannot be judged. Judge the function that calls it directly.")


def _for_gpus(eqn) -> bool:
    """Whether an equation is a kernel of Mosaic GPU: its meshes are GPUs'."""
    return any(isinstance(mesh, plgpu.Mesh) for mesh in eqn.params.get("meshes", ()))
