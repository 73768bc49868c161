"""A function with a mistake in one of its kernels, to be called in the place of the function itself."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.core
import jax.numpy as jnp

from course_lib import chips, compat, grid
from course_lib.checks.planting.catalogue import with_mistake
from course_lib.checks.planting.mistake import Place
from course_lib.judges.running.interpreted import Traced
from course_lib.judges.trial import arrays


def stand_in(fn: Callable, place: Place | None, chip: str = "v5e") -> Callable:
    """Return a function that does what ``fn`` does, with the mistake at ``place``; None: without one.

    It takes arrays and numbers, and keyword arguments that are no arrays. It runs in the TPU simulator, also where it
    is called within ``jax.jit``, and is traced for ``chip`` where a judge traces it. If ``fn`` has a derivative of its
    own (``jax.custom_vjp``), the stand-in has that one, in which nothing is planted. Raises ValueError for an argument
    that is no array, and what ``fn`` and the simulator raise.
    """
    known: dict[str, tuple[Traced, bool]] = {}  # and whether fn has a derivative of its own

    def traced(args: tuple, settings: dict) -> tuple[Traced, bool]:
        types = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), args)
        key = f"{types} {sorted(settings.items())}"
        if key not in known:
            jaxpr, result = grid.trace_with_result(lambda *a: fn(*a, **settings), *types, chip=chip)
            derived = any(eqn.primitive.name.startswith("custom_vjp_call") for eqn in grid.equations(jaxpr))
            known[key] = Traced(planted(jaxpr, place), result), derived
        return known[key]

    def call(args: tuple, settings: dict):
        found, _ = traced(args, settings)
        return jax.tree.unflatten(jax.tree.structure(found.result), _run(found, args))

    def standing_in(*args, **settings):
        args = arrays(args)
        being_traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(args))
        if being_traced and traced(args, settings)[1]:
            return _with_gradient_of(fn, call, settings)(*args)
        return call(args, settings)

    standing_in.__name__ = standing_in.__qualname__ = getattr(fn, "__name__", "function")
    return standing_in


def _with_gradient_of(fn: Callable, call: Callable, settings: dict) -> Callable:
    """Return ``call`` with these settings, as a function that JAX may differentiate: its gradient is that of ``fn``."""

    @jax.custom_vjp
    def differentiable(*args):
        return call(args, settings)

    def forward(*args):
        return call(args, settings), args

    def backward(args, cotangent):
        return jax.vjp(lambda *a: fn(*a, **settings), *args)[1](cotangent)

    differentiable.defvjp(forward, backward)
    return differentiable


def planted(jaxpr, place: Place | None):
    """Return a traced function with a mistake; as it is if ``place`` is None, or if it has no such place."""
    return jaxpr if place is None else with_mistake(jaxpr, place) or jaxpr


def _run(traced: Traced, args: tuple) -> list:
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(args)):
        mode = compat.interpret_mode()
        if mode is None and not chips.on_a_tpu():
            mode = compat.interpret_params()
        return grid.run(traced.jaxpr, mode or False, *args)
    return list(map(jnp.asarray, traced.run(compat.interpret_params(random_seed=0), args)))
