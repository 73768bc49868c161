"""The vjp of a function as a function of the arguments and a cotangent, and the cotangents to judge it with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from course_lib.judges.tolerance.rounding import QUICKLY

_SEED = 2027
_HAIR = 2.0**-100  # larger than 0, and too small to change any sum


def pulled_back(fn: Callable, places: tuple[int, ...], names: tuple[str, ...] = ()) -> Callable:
    """Return a function of ``fn``'s arguments and a cotangent that gives the gradients at ``places``, and the value."""

    def gradients(*args_and_cotangent):
        *args, g = args_and_cotangent
        y, pull_back = vjp_at(fn, places, args)
        if (got := _types(y)) != (want := _types(g)):
            raise TypeError(
                f"Under a gradient the function returns {got}, and otherwise {want}: the forward rule of its custom_vjp"
            )
        return (*pull_back(g), y)

    return named(gradients, (*names, "g")) if names else gradients


def vjp_at(fn: Callable, places: tuple[int, ...], args: Sequence) -> tuple:
    """Return ``jax.vjp`` of ``fn(*args)`` with respect to the arguments at ``places``."""

    def of_these(*values):
        changed = [*args]
        for place, value in zip(places, values, strict=True):
            changed[place] = value
        return fn(*changed)

    return jax.vjp(of_these, *(args[place] for place in places))


def argument_names(reference: Callable, args: tuple) -> tuple[str, ...]:
    """Return the reference's names of its arguments, or "argument 0" and so on if they are unknown."""
    try:
        names = tuple(inspect.signature(reference).parameters)
    except (TypeError, ValueError):
        names = ()
    return names[: len(args)] if len(names) >= len(args) else tuple(f"argument {n}" for n in range(len(args)))


def named(fn: Callable, names: tuple[str, ...]) -> Callable:
    """Give the function these parameter names, which messages about arguments use."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    try:
        fn.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    except ValueError:  # "argument 0": the reference's signature is unknown
        pass
    return fn


def _types(tree) -> str:
    types = [f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]" for leaf in jax.tree.leaves(tree)]
    return types[0] if len(types) == 1 else f"({', '.join(types)})"


def cotangent(reference: Callable, args: tuple, random: bool):
    """Return a cotangent of the shape and dtype of ``reference(*args)``: random in [-1, 1], or a code of each position.

    No row of it is 0, so mistakes in the last rows show. Raises ValueError if the reference does not run, or returns
    anything but floats.
    """
    try:
        outputs = jax.eval_shape(reference, *args)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise ValueError(f"the reference cannot be run with these arguments. {said}") from error
    for output in jax.tree.leaves(outputs):
        if not jnp.issubdtype(output.dtype, jnp.floating):
            raise ValueError(f"the reference returns {output.dtype}, which has no gradient: it must return floats.")
    rng = np.random.default_rng(_SEED)

    def one(output):
        if random:
            return jnp.asarray(rng.uniform(-1, 1, output.shape), output.dtype)
        places = np.indices(output.shape, dtype=np.int64)
        code = sum(step * index for step, index in zip((3, 7, 5, 11), places[::-1], strict=False)) + 1
        return jnp.asarray(code % 251 - 125.5, output.dtype)  # never 0, and exact in bfloat16 too

    return jax.tree.map(one, outputs)


def with_zeros(reference: Callable, args: tuple, places: tuple[int, ...]) -> tuple | None:
    """Return arguments of the same types with every second row of the floats 0, and random values elsewhere.

    None if that meets no kink, if the reference's slope at a kink is that of neither side (jnp.maximum halves a tie),
    or if the reference or its gradient is not finite.
    """
    rng = np.random.default_rng(_SEED)

    def one(arg):
        if not jnp.issubdtype(arg.dtype, jnp.floating):
            return arg
        values = rng.uniform(-1, 1, arg.shape)
        if arg.ndim:
            values[::2] = 0
        return jnp.asarray(values, arg.dtype)

    changed = jax.tree.map(one, args)
    try:
        g = cotangent(reference, changed, random=True)
        backwards = jax.jit(pulled_back(reference, places), compiler_options=QUICKLY)
        at_zero = jax.tree.leaves(backwards(*changed, g))
        finite = all(bool(jnp.isfinite(leaf).all()) for leaf in at_zero)
        kinks = {_equal(at_zero, jax.tree.leaves(backwards(*beside, g))) for beside in beside_zero(changed)}
    except Exception:  # judging the ordinary arguments will show the error
        return None
    return changed if finite and kinks == {True, False} else None


def beside_zero(args: tuple) -> Iterator[tuple]:
    """Yield the arguments with the zeros of one of them a hair larger, then a hair smaller, one argument at a time."""
    for place, arg in enumerate(args):
        if arg.dtype not in (jnp.float32, jnp.bfloat16) or (arg != 0).all():
            continue
        for hair in (_HAIR, -_HAIR):
            yield (*args[:place], jnp.where(arg == 0, jnp.asarray(hair, arg.dtype), arg), *args[place + 1 :])


def _equal(these: list, others: list) -> bool:
    return all(bool((one == other).all()) for one, other in zip(these, others, strict=True))
