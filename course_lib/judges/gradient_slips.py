"""Slips in gradients that need no declaration: what the reference's own vjp gives with another cotangent, other
residuals, other rows, another factor.

A gradient is linear in the cotangent g, so whatever a kernel does with whole rows of g is a weight for each row.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from course_lib.judges.finding import Finding
from course_lib.judges.slips import Suspect

_HAIR = 2.0**-100  # more than 0, and lost in any sum
_READ_ANEW = "look at what the forward rule saves, in which order, and at how the backward rule unpacks it."


class Problem(NamedTuple):
    """What is differentiated: ``backwards(*args, g)`` returns the gradients at ``places`` and the value.

    ``pre`` and ``activation`` as in ``Gradient``; ``names`` are those of the arguments.
    """

    reference: Callable
    backwards: Callable
    places: tuple[int, ...]
    names: tuple[str, ...]
    pre: Callable | None
    activation: Callable | None


def suspects(found: Finding, problem: Problem) -> Iterator[Suspect]:
    """What may have gone wrong with a gradient, the surest first. Nothing for the value beside the gradients."""
    if found.number >= len(problem.places) or not isinstance(found.args[-1], jax.Array):
        return
    for kind in (_nothing, _activation, _cotangent, _kink, _axes, _factors, _residuals, _rows):
        yield from kind(found, problem)


def _backwards(problem: Problem, args: tuple, dz) -> tuple:
    """The gradients for the cotangent ``dz`` of the pre-activation; of the value, where none is declared."""
    pre = problem.pre or problem.reference

    def of_these(*values):
        changed = [*args]
        for place, value in zip(problem.places, values, strict=True):
            changed[place] = value
        return pre(*changed)

    z, pull_back = jax.vjp(of_these, *(args[place] for place in problem.places))
    return pull_back(dz.astype(z.dtype))


def _dz(problem: Problem, args: tuple, g):
    """The cotangent of the pre-activation; g where no activation is declared."""
    return g if problem.activation is None else _through(problem.activation, problem.pre(*args), g)


def _through(activation: Callable, z, g):
    y, pull_back = jax.vjp(activation, z)
    return pull_back(g.astype(y.dtype))[0]


def _of_dz(problem: Problem, means: str, next: str, args: tuple, dz) -> Suspect:
    return Suspect(means, next, lambda *a: _backwards(problem, a[:-1], a[-1]), (*args, dz))


def _nothing(found: Finding, problem: Problem) -> Iterator[Suspect]:
    yield Suspect(
        f"{found.name} is 0 everywhere, as if nobody had asked for it",
        "what does the backward rule return in its place? JAX takes None for zeros.",
        jnp.zeros_like,
        (found.want.value,),
    )


def _activation(found: Finding, problem: Problem) -> Iterator[Suspect]:
    """The slope of the activation left out, taken in another place, or its value in the place of the slope."""
    if problem.pre is None:
        return
    (*args, g), act = found.args, problem.activation
    name = found.name
    yield _of_dz(
        problem,
        f"{name} is computed from g as it comes, and the derivative of the activation is left out",
        "multiply g with the slope of the activation at z first: dz = g * slope. Is there a mask? Where y is what relu "
        "has returned, y >= 0 is true everywhere.",
        args,
        g,
    )
    if act is None:
        return
    z = problem.pre(*args)
    y = act(z)
    yield _of_dz(
        problem,
        "the slope of the activation is taken at y, what the activation returns, and not at z, what it takes",
        "save z, or compute it again in the backward pass: the slope is a function of z.",
        args,
        _through(act, y.astype(z.dtype), g),
    )
    yield _of_dz(
        problem,
        "g is multiplied with what the activation returns, and not with its slope",
        "the slope of relu is 1 where z > 0 and 0 elsewhere; of others, differentiate the formula.",
        args,
        (g.astype(jnp.float32) * y.astype(jnp.float32)).astype(g.dtype),
    )
    yield _of_dz(
        problem,
        "the slope of the activation stands in the place of dz, and g is not used",
        "dz is the product of both: g * slope, element by element.",
        args,
        _through(act, z, jnp.ones_like(g)),
    )


def _cotangent(found: Finding, problem: Problem) -> Iterator[Suspect]:
    *args, g = found.args
    yield Suspect(
        f"{found.name} does not depend on g: it is what a g of ones would give",
        "the backward function gets g, the gradient of the loss by the output; everything it returns is linear in g.",
        problem.backwards,
        (*args, jnp.ones_like(g)),
    )


def _kink(found: Finding, problem: Problem) -> Iterator[Suspect]:
    """What the gradient is a hair beside 0."""
    *args, g = found.args
    for beside in beside_zero(tuple(args)):
        yield Suspect(
            "it differs only where a kink is met at exactly 0, and there the slope is that of the other side",
            "is it >= where > is meant, or the other way round? The slope of jax.nn.relu at 0 is 0: z > 0.",
            problem.backwards,
            (*beside, g),
        )


def beside_zero(args: tuple) -> Iterator[tuple]:
    """The arguments with the zeros in one of them a hair larger, and a hair smaller; one argument after another."""
    for place, arg in enumerate(args):
        if arg.dtype not in (jnp.float32, jnp.bfloat16) or (arg != 0).all():
            continue
        for hair in (_HAIR, -_HAIR):
            yield (*args[:place], jnp.where(arg == 0, jnp.asarray(hair, arg.dtype), arg), *args[place + 1 :])


def _axes(found: Finding, problem: Problem) -> Iterator[Suspect]:
    """dz summed over another axis, for an argument with fewer axes: a bias."""
    *args, g = found.args
    dz, want = _dz(problem, args, g), found.want.value
    for count in range(1, dz.ndim):
        for axes in itertools.combinations(range(dz.ndim), count):
            left = tuple(n for axis, n in enumerate(dz.shape) if axis not in axes)
            if left != want.shape:
                continue
            over = " and ".join(map(str, axes))
            yield Suspect(
                f"the sum for {found.name} runs over axis {over} of the cotangent, which is the wrong one",
                f"{found.name} collects what every row contributes: an element of {_name(found, problem)} has a part "
                "in all that it was added to, and the sum is over those.",
                lambda dz, axes=axes: dz.astype(jnp.float32).sum(axes).astype(want.dtype),
                (dz,),
            )


def _factors(found: Finding, problem: Problem) -> Iterator[Suspect]:
    want = found.want.value
    lengths = sorted({n for leaf in found.leaves for n in leaf.shape if n > 2}, reverse=True)
    known = [
        (-1.0, "its sign is wrong", "is something subtracted from what it should be subtracted by?"),
        (2.0, "it is twice what it should be", "is a term added twice, or a step done twice?"),
        (0.5, "it is half of what it should be", "is a mean taken of two, or a term left out?"),
    ]
    known += [
        (
            1 / n,
            f"it is a mean over {n}, where a sum is asked for",
            "the gradient of a sum of losses is a sum over the rows: whoever wants a mean puts it into g.",
        )
        for n in lengths
    ]
    known += [
        (float(n), f"it is {n} times what it should be, as if it were added {n} times", "in which loop does it stand?")
        for n in lengths
    ]
    for factor, means, next in known:
        yield Suspect(means, next, lambda value, factor=factor: value * jnp.asarray(factor, value.dtype), (want,))


def _residuals(found: Finding, problem: Problem) -> Iterator[Suspect]:
    """The gradient at other arguments: exchanged, transposed, rounded, or the output in the place of one."""
    *args, g = found.args
    dz, y = _dz(problem, args, g), problem.backwards(*args, g)[-1]
    names = problem.names
    for place, arg in enumerate(args):
        if not jnp.issubdtype(arg.dtype, jnp.floating):
            continue
        for means, next, other in _in_place_of(names, args, place, y):
            changed = [*args]
            changed[place] = other
            yield _of_dz(problem, means, next, changed, dz)
            yield Suspect(means, next, problem.backwards, (*changed, g))
    for first, second in itertools.combinations(range(len(args)), 2):
        if (args[first].shape, args[first].dtype) == (args[second].shape, args[second].dtype):
            changed = [*args]
            changed[first], changed[second] = args[second], args[first]
            means = f"it is the gradient with {names[first]} and {names[second]} exchanged"
            yield _of_dz(problem, means, _READ_ANEW, changed, dz)
            yield Suspect(means, _READ_ANEW, problem.backwards, (*changed, g))
    if g.dtype == jnp.float32:
        if problem.activation is not None:
            z = problem.pre(*args)
            yield _of_dz(
                problem,
                "the slope is taken at a z that was rounded to bfloat16",
                "save z in float32, or compute it again.",
                args,
                _through(problem.activation, _rounded(z), g),
            )
        yield _of_dz(
            problem,
            "the cotangent was rounded to bfloat16 before the product",
            "keep it in float32, and ask for precision=HIGHEST in the product.",
            args,
            _rounded(dz),
        )


def _in_place_of(names: tuple[str, ...], args: list, place: int, y) -> Iterator[tuple[str, str, jax.Array]]:
    """(what it means, what to try, another array) that a backward rule may take for argument ``place``."""
    arg, name = args[place], names[place]
    if arg.ndim == 2 and arg.shape[0] == arg.shape[1]:
        yield (
            f"{name} stands in it transposed where it should not be, or the other way round",
            f"which axis of {name} does the cotangent meet? The shapes do not say, for {name} is square.",
            arg.T,
        )
    if isinstance(y, jax.Array) and (y.shape, y.dtype) == (arg.shape, arg.dtype):
        yield (
            f"the output stands where {name} should: a residual is another than the backward rule takes it for",
            (_READ_ANEW),
            y,
        )
    if arg.dtype == jnp.float32:
        yield (
            f"it is computed from a {name} that was rounded to bfloat16",
            f"save {name} as it came, in float32: a residual costs its bytes, and the gradient has no more digits.",
            _rounded(arg),
        )
    yield (
        f"{name} is taken for 0 in it",
        f"is {name} read, and is the residual the one that was saved?",
        jnp.zeros_like(arg),
    )


def _rows(found: Finding, problem: Problem) -> Iterator[Suspect]:
    """Blocks of rows of g left out, or counted twice."""
    *args, g = found.args
    if g.ndim < 2:
        return
    rows = g.shape[0]
    for size in sorted(_block_rows(found, rows)):
        blocks = -(-rows // size)
        last = (blocks - 1) * size
        row, first = np.arange(rows), f"rows 0 to {size - 1} of g, the first block of {size},"
        whose = f"rows {last} to {rows - 1} of g, the {'ragged ' if rows % size else ''}last block,"
        weights = [
            (row < last, f"{whose} are left out", "pl.cdiv(rows, block) counts the last block. Does a mask hide it?"),
            (row >= last, f"only {whose} count", "zero the sum at the first block, and add each one: +=."),
            (row < size, f"only {first} count", "does the grid go on, and is each block added: +=?"),
            (row >= size, f"{first} are left out", "is the sum set to zero before the first block is added?"),
            (1 + (row < size), f"{first} count twice", "is the first step done twice?"),
            (1 + (row >= last), f"{whose} count twice", "is the last step done twice?"),
        ]
        if rows % size:
            again = 1 + ((row >= rows - size) & (row < last))
            what = (
                f"rows {rows - size} to {last - 1} of g count twice, for the last block begins early, so that it fits"
            )
            weights.insert(0, (again, what, "mask the rows that the block before has had already."))
        for weight, means, next in weights:
            shape = (rows,) + (1,) * (g.ndim - 1)
            weighted = g * jnp.asarray(np.reshape(weight, shape), g.dtype)
            yield Suspect(means, next, problem.backwards, (*args, weighted))


def _block_rows(found: Finding, rows: int) -> set[int]:
    """How many rows the kernels' blocks have of arrays with so many rows."""
    operands = [operand for call in found.walk.calls for operand in call.operands]
    sizes = {o.block_shape[axis] for o in operands if o.block_shape for axis, n in enumerate(o.shape) if n == rows}
    return {int(size) for size in sizes if size and 1 < size < rows}


def _name(found: Finding, problem: Problem) -> str:
    return problem.names[problem.places[found.number]]


def _rounded(array: jax.Array) -> jax.Array:
    """As bfloat16 keeps it, in the dtype that it has."""
    return array.astype(jnp.bfloat16).astype(array.dtype)
