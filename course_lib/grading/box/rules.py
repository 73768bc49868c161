"""Custom derivative rules of a function that came out of a box, restored as programs."""

from collections.abc import Callable

import jax
import jax.numpy as jnp


def with_tangents(function: Callable, count: int, rule: Callable, zeros: list) -> Callable:
    """Return a function with its rule for tangents; ``zeros`` marks the results that have none."""

    def does(*given):
        consts, args = given[:count], given[count:]
        derived = jax.custom_jvp(lambda *args: function(*consts, *args))

        @derived.defjvp
        def tangents(primals, given):
            found = rule(*primals, *given)
            results, rest = found[: len(zeros)], iter(found[len(zeros) :])
            return results, [jnp.zeros_like(r) if z else next(rest) for r, z in zip(results, zeros, strict=True)]

        return derived(*args)

    return does


def with_way_back(function: Callable, count: int, forwards: Callable, where: list, backwards: Callable) -> Callable:
    """Return a function with its forward and backward rules; ``where`` says which residuals are arguments."""

    def does(*given):
        consts, args = given[:count], given[count:]
        derived = jax.custom_vjp(lambda *args: function(*consts, *args))

        def forward(*args):
            found = forwards(*args)
            made, own = found[: where.count(None)], iter(found[: where.count(None)])
            residuals = [next(own) if n is None else (*consts, *args)[n] for n in where]
            return found[len(made) :], residuals

        def backward(residuals, cotangents):
            found = iter(backwards(*residuals, *cotangents))
            return tuple(next(found) if jnp.issubdtype(a.dtype, jnp.floating) else None for a in args)

        derived.defvjp(forward, backward)
        return derived(*args)

    return does
