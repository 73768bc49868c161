"""Slips in the gradient of a softmax, and of the attention around it: delta, p, the scale, blocks, heads.

    p = softmax(s)    dp = do @ v.T    delta = sum(p * dp), which is sum(do * o)    ds = p * (dp - delta)
    dv = p.T @ do     dq = ds @ k * scale     dk = ds.T @ q * scale

The reference is computed with another p and another ds, and JAX pulls the cotangent back through the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from course_lib.judges.running.pulling_back import vjp_at
from course_lib.judges.slips import reference_softmax
from course_lib.judges.slips.gradient_problem import Problem
from course_lib.judges.slips.reference_softmax import Softmax
from course_lib.judges.slips.slip import Suspect
from course_lib.judges.wrong_outputs.finding import Finding

_MOST = 2**22  # scores
_DS = "ds = p * (dp - delta), with dp = do @ v.T and delta = sum(do * o) of each query."
_LSE = "save lse = m + log(l) in the forward pass; p = exp(s - lse) is the softmax, without a division."


def suspects(found: Finding, problem: Problem) -> Iterator[Suspect]:
    """Yield possible mistakes in the gradient of a reference that sums exponentials; nothing for others."""
    *args, _ = found.args
    try:
        softmax = reference_softmax.find(problem.reference, tuple(args))
    except Exception:  # the reference cannot be traced
        return
    if softmax is None or math.prod(reference_softmax.shape(softmax)) > _MOST:
        return
    way = _Way(problem, softmax, reference_softmax.mask_of(softmax, tuple(args)))
    for means, next_, p_and_ds in (*_formulas(found, softmax), *_of_blocks(found, softmax)):
        yield Suspect(means, next_, _gradients(way, p_and_ds), found.args)
    yield from _of_other_matrices(found, way)
    yield from _of_heads(found, problem)


class _Way(NamedTuple):
    """What is differentiated, the softmax in it, and which scores count: bool of their shape; None: all."""

    problem: Problem
    softmax: Softmax
    counts: np.ndarray | None

    def weighted(self, args: tuple, weights_of: Callable) -> jax.Array:
        """Return the output with ``weights_of(scores)``, -1e30 for masked scores; those weights count, too."""
        if self.counts is None:
            return reference_softmax.outputs_with(self.softmax, args, weights_of)[0]
        return reference_softmax.outputs_with(self.softmax, args, weights_of, lambda scores: scores)[0]

    def scores(self, x: jax.Array) -> jax.Array:
        return x if self.counts is None else jnp.where(self.counts, x, reference_softmax.LEAST)


def _pulled(way: _Way, weights_of: Callable, at: tuple, g) -> tuple:
    """Return the gradients and the value for the cotangent ``g`` with these weights."""
    y, pull_back = vjp_at(lambda *args: way.weighted(args, weights_of), way.problem.places, at)
    return (*pull_back(g.astype(y.dtype)), y)


def _gradients(way: _Way, p_and_ds: Callable) -> Callable:
    """Return the gradients with ``p_and_ds(x, p, dp, delta)`` for p, which dv uses, and ds, which dq and dk use."""

    def weights(x):
        x = way.scores(x)
        return p_and_ds(x, jax.nn.softmax(x), jnp.zeros_like(x), 0.0)[0]

    def backward(x, dp):
        x = way.scores(x)
        p = jax.nn.softmax(x)
        return (p_and_ds(x, p, dp, (p * dp).sum(-1, keepdims=True))[1],)

    rule = jax.custom_vjp(weights)
    rule.defvjp(lambda x: (weights(x), x), backward)
    return lambda *args_and_cotangent: _pulled(way, rule, args_and_cotangent[:-1], args_and_cotangent[-1])


def _matrices(way: _Way, args: tuple, g) -> tuple[jax.Array, jax.Array]:
    """Return p and ds."""
    scores = []

    def weights(x):
        scores.append(way.scores(x))
        return jax.nn.softmax(scores[0])

    way.weighted(args, weights)
    p = jax.nn.softmax(scores[0])
    y, pull_back = jax.vjp(lambda p: way.weighted(args, lambda x: p), p)
    (dp,) = pull_back(g.astype(y.dtype))
    return p, p * (dp - (p * dp).sum(-1, keepdims=True))


def _of_other_matrices(found: Finding, way: _Way) -> Iterator[Suspect]:
    """Yield ds in place of p, and ds or p multiplied with the rows of another block."""

    def fixed(p, ds):
        rule = jax.custom_vjp(lambda x: p)
        rule.defvjp(lambda x: (p, None), lambda _, dp: (ds,))
        return rule

    def of_ds(*args_and_cotangent):
        *args, g = args_and_cotangent
        _, ds = _matrices(way, tuple(args), g)
        return _pulled(way, fixed(ds, ds), tuple(args), g)

    name, places = found.name, (*range(len(found.args) - 1), len(found.args) - 1)
    yield Suspect(
        f"ds is used instead of p in {name}",
        "dv = p.T @ do, because the forward pass weights the values with p and nothing else.",
        of_ds,
        found.args,
    )
    blocks, mine = reference_softmax.sizes_of_blocks(found.walk), way.problem.places[found.number]
    names = (*way.problem.names, "g, the cotangent,")
    for place in (n for n in places if n != mine):
        array = found.args[place]
        lengths = {axis: array.shape[axis] for axis in range(-2, 0) if array.ndim >= 2}
        for axis, block in ((a, b) for a, n in lengths.items() for b in sorted(blocks) if b < n and n % b == 0):
            for first, which in ((0, "first"), (lengths[axis] - block, "last")):
                rows = first + np.arange(lengths[axis]) % block

                def of_other_rows(*args_and_cotangent, place=place, axis=axis, rows=rows):
                    *args, g = args_and_cotangent
                    p, ds = _matrices(way, tuple(args), g)
                    changed = [*args, g]
                    changed[place] = jnp.take(changed[place], rows, axis)
                    return _pulled(way, fixed(p, ds), tuple(changed[:-1]), changed[-1])

                yield Suspect(
                    f"every block of {name} is computed with the {which} {block} rows of {names[place]}",
                    "in a matmul, ds or p and the other operand must have the same rows.",
                    of_other_rows,
                    found.args,
                )


def _formulas(found: Finding, softmax: Softmax) -> Iterator[tuple]:
    name = found.name
    yield (
        f"delta is left out of {name}: ds is p * dp",
        f"{_DS} A softmax does not change when the same number is added to all scores of a row, and delta removes "
        "that part.",
        lambda x, p, dp, delta: (p, p * dp),
    )
    yield f"p is left out of {name}: ds is dp - delta", _DS, lambda x, p, dp, delta: (p, dp - delta)
    yield f"delta is added in {name}: ds is p * (dp + delta)", _DS, lambda x, p, dp, delta: (p, p * (dp + delta))
    yield f"dp is used instead of ds in {name}", _DS, lambda x, p, dp, delta: (p, dp)
    yield f"p is used instead of ds in {name}", _DS, lambda x, p, dp, delta: (p, p)
    if depth := softmax.depth:
        root = math.sqrt(depth)
        yield (
            f"{name} is not multiplied by the scale, 1 / sqrt({depth})",
            "s = q @ k.T * scale, so dq = ds @ k * scale and dk = ds.T @ q * scale: both.",
            lambda x, p, dp, delta: (p, p * (dp - delta) * root),
        )
        yield (
            f"{name} is multiplied by the scale, 1 / sqrt({depth}), twice",
            "if q or ds is scaled already, do not scale their matmul again.",
            lambda x, p, dp, delta: (p, p * (dp - delta) / root),
        )

    def by_maximum(x, p, dp, delta):
        p = jnp.exp(x - x.max(-1, keepdims=True))
        return p, p * (dp - delta)

    yield f"{name} uses exp(s - m) as p, without dividing by l", _LSE, by_maximum


def _of_blocks(found: Finding, softmax: Softmax) -> Iterator[tuple]:
    """Yield blocks of queries or keys that are left out, or the only ones."""
    *_, rows, keys = reference_softmax.shape(softmax)
    if softmax.axis != -1:
        return
    for axis, length, what in ((-2, rows, "query"), (-1, keys, "key")):
        for block in sorted(b for b in reference_softmax.sizes_of_blocks(found.walk) if b < length):
            last = (-(-length // block) - 1) * block
            at = np.arange(length)
            for counts, means, next_ in (
                (
                    at >= last,
                    f"only the last {what} block counts",
                    "accumulate with +=, and set the sum to 0 only once.",
                ),
                (
                    at < block,
                    f"only the first {what} block counts",
                    "check that the loop continues, and that each block is added.",
                ),
                (at < last, f"the last {what} block is left out", "count the iterations of the loop."),
                (
                    at >= block,
                    f"the first {what} block is left out",
                    "check that the sum is set to 0 before this block is added.",
                ),
            ):
                shape = (length, 1) if axis == -2 else (length,)
                keep = jnp.asarray(counts.reshape(shape), jnp.float32)
                yield (
                    f"{means} in {found.name}, of {block} {'queries' if what == 'query' else 'keys'} each",
                    f"{found.name} is a sum over all {'queries' if what == 'query' else 'keys'} that meet: {next_}",
                    lambda x, p, dp, delta, keep=keep: (p * keep, p * (dp - delta) * keep),
                )


def _of_heads(found: Finding, problem: Problem) -> Iterator[Suspect]:
    """Yield one head counted of those that share a KV head, and sums over heads that share none."""
    *args, g = found.args
    want, name = found.want.value, found.name
    if not isinstance(g, jax.Array) or want.ndim < 3 or g.ndim != want.ndim:
        return
    heads, of_keys = g.shape[-3], want.shape[-3]
    if 1 < of_keys:
        yield Suspect(
            f"{name} of a head continues the sum of the previous head",
            f"set the sum of {name} to 0 at the first step of each KV head.",
            lambda value: jnp.cumsum(value, -3),
            (want,),
        )
    if not of_keys < heads or heads % of_keys:
        return
    group = heads // of_keys
    for place, which in ((group - 1, "last"), (0, "first")):
        counts = (np.arange(heads) % group == place).reshape(heads, 1, 1)
        yield Suspect(
            f"only the {which} of the {group} query heads that share a KV head counts in {name}",
            f"{name} is the sum over all {group}: set it to 0 at the first, add each head, and store it at the last.",
            problem.backwards,
            (*args, g * jnp.asarray(counts, g.dtype)),
        )
