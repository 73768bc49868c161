"""The softmax in a reference: its scores, exponentials, sums and mask, and the result with others in their place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import grid
from course_lib.judges.slips import reference_steps
from course_lib.judges.slips.reference_steps import Steps

_MOVES = ("convert_element_type", "copy", "stop_gradient")
_POWERS = {"exp": 1.0, "exp2": math.log(2.0)}
LEAST = -1e30  # a masked score is this or less


class Mask(NamedTuple):
    """A jnp.where that chooses between scores and a constant."""

    masked: int  # its result
    unmasked: int  # the scores that it chooses from
    chooses: int
    shows: bool  # whether it takes the scores where ``chooses`` is True


class Softmax(NamedTuple):
    """The position of a softmax among the steps of a reference, whose values are integers."""

    steps: Steps
    scores: int  # the exponents, before a maximum is subtracted
    rate: float  # scores times this are exponents of e: 1 for exp, ln 2 for exp2, and c times that for exp(c * (s - m))
    weights: int  # the exponentials, as they are summed up
    total: int  # their sums
    axis: int  # of the sum, counted from the end: -1
    mask: Mask | None
    depth: int | None  # terms of each score, if it is a dot product of a query and a key


def find(reference: Callable, args: tuple) -> Softmax | None:
    """Return the first sum of exponentials in ``reference(*args)``; None without one. Raises what tracing raises."""
    steps = reference_steps.steps_of(reference, args)
    for step in steps.steps:
        if step.name != "reduce_sum" or len(step.eqn.params["axes"]) != 1:
            continue
        weights = reference_steps.through(steps, step.inputs[0], ("convert_element_type", "copy"))
        power = steps.made.get(_unmasked(steps, weights))
        if power is None or power.name not in _POWERS:
            continue
        scores, rate = _scores(steps, power.inputs[0])
        axis = step.eqn.params["axes"][0] - step.eqn.invars[0].aval.ndim
        return Softmax(
            steps,
            scores,
            _POWERS[power.name] * rate,
            weights,
            step.outputs[0],
            axis,
            _mask(steps, scores),
            _depth(steps, scores),
        )
    return None


def _unmasked(steps: Steps, value: int) -> int:
    """Return the exponentials that a jnp.where chooses from, or ``value`` if it does not come from one."""
    step = steps.made.get(value)
    if step is None or step.name != "select_n":
        return value
    made = [reference_steps.through(steps, n, _MOVES) for n in step.inputs[1:]]
    return next((n for n in made if n in steps.made and steps.made[n].name in _POWERS), value)


def _scores(steps: Steps, value: int) -> tuple[int, float]:
    """Return the value from which its own maximum was subtracted, and the factor of the difference.

    ``value`` and 1 if none was.
    """
    inner, rate = _multiplied(steps, value)
    minus = steps.made.get(inner)
    if minus is None or minus.name != "sub":
        return value, 1.0
    maxima = [step for step in reference_steps.before(steps, minus.inputs[1]) if step.name == "reduce_max"]
    if any(step.inputs[0] == minus.inputs[0] for step in maxima):
        return minus.inputs[0], rate
    return value, 1.0


def _multiplied(steps: Steps, value: int) -> tuple[int, float]:
    """Return the value and the number whose product is ``value``; ``value`` and 1 if it is no product."""
    step = steps.made.get(value)
    if step is None or step.name != "mul":
        return value, 1.0
    for number, other in (step.inputs, step.inputs[::-1]):
        known = steps.constants.get(number)
        if known is not None and np.ndim(known) == 0:
            return other, float(known)
    return value, 1.0


def _mask(steps: Steps, scores: int) -> Mask | None:
    """Return the jnp.where between a matmul and the scores."""
    value = scores
    while (step := steps.made.get(value)) is not None and step.name in (*_MOVES, "mul", "div"):
        value = step.inputs[0]
    if step is None or step.name != "select_n" or len(step.inputs) != 3:
        return None
    chooses, *cases = step.inputs
    known = [not _depends_on_arguments(steps, case) for case in cases]
    return Mask(value, cases[known[0]], chooses, known[0]) if known[0] != known[1] else None


def _depends_on_arguments(steps: Steps, value: int) -> bool:
    taken = {value}.union(*(step.inputs for step in reference_steps.before(steps, value)))
    return not taken.isdisjoint(steps.inputs)


def _depth(steps: Steps, scores: int) -> int | None:
    product = next((s for s in reference_steps.before(steps, scores) if s.name == "dot_general"), None)
    if product is None:
        return None
    (contracted, _), _ = product.eqn.params["dimension_numbers"]
    return math.prod(product.eqn.invars[0].aval.shape[axis] for axis in contracted)


def shape(found: Softmax) -> tuple[int, ...]:
    """Return the shape of the exponentials."""
    made = found.steps.made[found.weights]
    return made.eqn.outvars[made.outputs.index(found.weights)].aval.shape


def sizes_of_blocks(walk: grid.Walk) -> set[int]:
    """Return possible block lengths: of the operands of matmuls in kernels, or of all operands if there are none."""
    products = [
        eqn for call in walk.calls for eqn in grid.equations(call.kernel) if eqn.primitive.name == "dot_general"
    ]
    sizes = {n for eqn in products for var in (*eqn.invars, *eqn.outvars) for n in var.aval.shape}
    if not products:
        sizes = {n for call in walk.calls for operand in call.operands for n in operand.block_shape or ()}
    return {int(n) for n in sizes if isinstance(n, (int, np.integer)) and n > 1}


def mask_of(found: Softmax, args: tuple) -> np.ndarray | None:
    """Return bool, of the shape of the scores: which of them count; None if that is unknown."""
    if found.mask is None or found.axis != -1:
        return None
    env = reference_steps.run(found.steps, args)
    counts = np.broadcast_to(np.asarray(env[found.mask.chooses], bool), env[found.mask.masked].shape)
    return counts if found.mask.shows else ~counts


def outputs_with(
    found: Softmax, args: tuple, weights_of: Callable, masked_of: Callable | None = None
) -> list[jax.Array]:
    """Return the reference's outputs with ``weights_of(scores)`` in place of exp(x - m) / sum.

    ``weights_of`` takes the scores, as exponents of e, with the axis of the sum last. ``masked_of`` takes the scores
    before the mask, and its result replaces the masked scores.
    """

    def weights(env):
        x = jnp.moveaxis(env[found.scores].astype(jnp.float32) * found.rate, found.axis, -1)
        return jnp.moveaxis(weights_of(x), -1, found.axis).astype(env[found.weights].dtype)

    instead = {found.weights: weights, found.total: lambda env: jnp.ones_like(env[found.total])}
    if masked_of is not None:
        before = found.mask.unmasked
        instead[found.mask.masked] = lambda env: masked_of(env[before]).astype(env[before].dtype)
    env = reference_steps.run(found.steps, args, instead)
    return [env[n] for n in found.steps.outputs]
