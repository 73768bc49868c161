"""What people do in the place of a reduction or a running sum: another axis, one block only, a variance."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

from course_lib.judges.slips import expressions, reference_steps
from course_lib.judges.slips.edit import Edit, shaped
from course_lib.judges.slips.expressions import Expressions
from course_lib.judges.slips.reference_steps import Step, Steps

_REDUCERS = {"reduce_sum": jnp.sum, "reduce_max": jnp.max, "reduce_min": jnp.min}
_REGISTER = 8  # rows
_ADDED = "the {which} {{of}} of each block of {{size}} are added, but the {which} of all is needed"
_WAYS = {  # how a block is reduced, how the blocks are put together, what that means, what to try
    "reduce_sum": (
        (
            jnp.max,
            jnp.sum,
            "only the largest {of} of each block of {size} counts, not the sum",
            "sum within each block.",
        ),
        (jnp.sum, jnp.max, "only the block of {size} with the largest sum of {of} counts", "add the blocks' sums: +=."),
    ),
    "reduce_max": ((jnp.max, jnp.sum, _ADDED.format(which="largest"), "keep the larger: jnp.maximum."),),
    "reduce_min": ((jnp.min, jnp.sum, _ADDED.format(which="smallest"), "keep the smaller: jnp.minimum."),),
}


def of(step: Step, steps: Steps, named: Expressions, blocks: list[int]) -> Iterator[Edit]:
    """Yield the changes of one such operation; none of any other. ``blocks``: the lengths of the kernel's blocks."""
    if step.name in _REDUCERS and len(step.eqn.params["axes"]) == 1:
        yield from _one_block_only(step, named, blocks)
        yield from _largest_of_sizes(step, named)
        yield from _blocks_put_together(step, named, blocks)
        if (kept := _kept_axis(step, steps)) is not None:
            yield from _over_something_else(step, steps, kept, named, blocks)
            yield from _variance(step, steps, kept, named)
    elif step.name == "dot_general":
        yield from _one_block_of_a_product(step, named, blocks)
    elif step.name == "cumsum":
        yield from _running_sum(step, named, blocks)


def _parts_of(length: int, blocks: list[int]) -> Iterator[tuple[int, int, str]]:
    """Yield (size, start, "last" or "first") of the blocks at either end of an axis."""
    for size in (b for b in blocks if b < length and length % b == 0):
        yield size, length - size, "last"
        yield size, 0, "first"


def _one_block_only(step: Step, named: Expressions, blocks: list[int]) -> Iterator[Edit]:
    (axis,), (of,), (out,) = step.eqn.params["axes"], step.inputs, step.outputs
    for size, start, which in _parts_of(step.eqn.invars[0].aval.shape[axis], blocks):

        def value(env, start=start, size=size):
            part = jax.lax.slice_in_dim(env[of], start, start + size, axis=axis)
            return shaped(_REDUCERS[step.name](part, axis=axis), env[out])

        yield Edit(out, *_only(named.call(step), which, size), value)


def _largest_of_sizes(step: Step, named: Expressions) -> Iterator[Edit]:
    (of,) = step.inputs
    name = named(of)
    means = f"the absolute value of {name} is taken, but {named.call(step)} uses {name} itself"
    yield Edit(of, means, f"remove abs: the sign of {name} counts.", lambda env: jnp.abs(env[of]))


def _blocks_put_together(step: Step, named: Expressions, blocks: list[int]) -> Iterator[Edit]:
    """Yield blocks that are reduced in one way and put together in another: the sum of each block's maximum."""
    (axis,), (of,), (out,) = step.eqn.params["axes"], step.inputs, step.outputs
    name, length = named(of), step.eqn.invars[0].aval.shape[axis]
    for size in (b for b in blocks if b < length):

        def value(env, within, across, size=size):
            x = env[of]
            parts = [jax.lax.slice_in_dim(x, at, min(at + size, length), axis=axis) for at in range(0, length, size)]
            return shaped(across(jnp.stack([within(part, axis=axis) for part in parts]), axis=0), env[out])

        for within, across, means, next_ in _WAYS[step.name]:
            yield Edit(
                out,
                means.format(of=name, size=size),
                next_,
                functools.partial(value, within=within, across=across),
            )


def _only(what: str, which: str, size: int) -> tuple[str, str]:
    return (
        f"only the {which} block of {size} counts in {what}",
        "accumulate over all blocks: += adds to the previous value, = replaces it.",
    )


def _one_block_of_a_product(step: Step, named: Expressions, blocks: list[int]) -> Iterator[Edit]:
    (left, right), (out,) = step.inputs, step.outputs
    (axes, others), _ = step.eqn.params["dimension_numbers"]
    if len(axes) != 1:
        return
    for size, start, which in _parts_of(step.eqn.invars[0].aval.shape[axes[0]], blocks):

        def value(env, start=start, size=size):
            parts = (
                jax.lax.slice_in_dim(env[n], start, start + size, axis=axis)
                for n, axis in ((left, axes[0]), (right, others[0]))
            )
            return step.eqn.primitive.bind(*parts, **step.eqn.params)

        yield Edit(out, *_only(named.call(step), which, size), value)


def _over_something_else(step: Step, steps: Steps, kept: int, named: Expressions, blocks: list[int]) -> Iterator[Edit]:
    """Yield the reduction of other elements: along another axis, of everything, of each block."""
    (axis,), shape, (of,) = step.eqn.params["axes"], step.eqn.invars[0].aval.shape, step.inputs
    is_mean = _in_a_mean(step, steps)
    what = named.call(step)
    what = what.replace("sum(", "mean(", 1) if is_mean else what
    along = f"take it along axis {axis}, with keepdims=True."

    def edit(means: str, next_: str, tile: dict[int, int]) -> Edit:
        by = shape[axis] / np.prod([*tile.values()]) if is_mean else 1.0
        return Edit(kept, means, next_, lambda env: _tiled(env[of], _REDUCERS[step.name], tile) * by)

    for size in (b for b in blocks if b < shape[axis] and shape[axis] % b == 0):
        yield edit(
            f"{what} is computed for each block of {size}, but should cover all {shape[axis]} elements along axis "
            f"{axis}",
            "let one block hold all of them, or accumulate over the blocks before you use the result.",
            {axis: size},
        )
    for other in (n for n in range(len(shape)) if n != axis):
        for size in {shape[other], *(b for b in blocks if shape[other] % b == 0)}:
            yield edit(
                f"{what} is taken along axis {other}, but should be taken along axis {axis}", along, {other: size}
            )
            both = f"{what} is taken over all axes, but should be taken along axis {axis}"
            yield edit(both, along, {axis: shape[axis], other: size})


def _tiled(x: jax.Array, reduced: Callable, tile: dict[int, int]) -> jax.Array:
    """Return x with each element replaced by the reduction of its tile, which has a length for each reduced axis."""
    lengths, axes = [], []
    for axis, length in enumerate(x.shape):
        if axis in tile:
            axes.append(len(lengths) + 1)
            lengths += [length // tile[axis], tile[axis]]
        else:
            lengths.append(length)
    parts = x.reshape(lengths)
    return (
        jnp.broadcast_to(reduced(parts, axis=tuple(axes), keepdims=True), parts.shape).reshape(x.shape).astype(x.dtype)
    )


def _variance(step: Step, steps: Steps, kept: int, named: Expressions) -> Iterator[Edit]:
    """Yield a mean of squares after the mean has been subtracted, as a layer norm does."""
    squares, (axis,) = steps.made.get(step.inputs[0]), step.eqn.params["axes"]
    if squares is None or not expressions.is_square(squares) or not _in_a_mean(step, steps):
        return
    of = squares.inputs[0]
    length = step.eqn.invars[0].aval.shape[axis]

    def centred(env):
        return env[of] - jnp.mean(env[of], axis=axis, keepdims=True)

    def total(values):
        return length * jnp.mean(values, axis=axis, keepdims=True)

    name = named(of)
    yield Edit(
        kept,
        f"this is the variance of {name}, but the mean of its squares is needed",
        f"do not subtract the mean: square {name} itself.",
        lambda env: shaped(total(centred(env) ** 2), env[kept]),
    )
    yield Edit(
        kept,
        f"this is the square of the mean of {name}, but the mean of its squares is needed",
        "square first, and then take the mean.",
        lambda env: shaped(total(env[of]) ** 2 / length, env[kept]),
    )
    yield Edit(
        of,
        f"the mean of {name} is subtracted first, as in a layer norm",
        f"do not subtract the mean: use {name} itself.",
        centred,
    )


def _in_a_mean(step: Step, steps: Steps) -> bool:
    """Whether a sum is divided by the number of its terms."""
    return any(
        expressions.is_mean(steps, other)
        and reference_steps.through(steps, other.inputs[0], expressions.MOVES) == step.outputs[0]
        for other in steps.steps
    )


def _kept_axis(step: Step, steps: Steps) -> int | None:
    """Return the value that has the reduced axis as one of length 1; None if there is none."""
    rank = step.eqn.invars[0].aval.ndim
    return next(
        (
            other.outputs[0]
            for other in steps.steps
            if other.name in ("broadcast_in_dim", "reshape")
            and other.inputs[0] == step.outputs[0]
            and other.eqn.outvars[0].aval.ndim == rank
        ),
        None,
    )


def _running_sum(step: Step, named: Expressions, blocks: list[int]) -> Iterator[Edit]:
    (of,), (out,), axis = step.inputs, step.outputs, step.eqn.params["axis"]
    length = step.eqn.invars[0].aval.shape[axis]
    yield Edit(
        out,
        f"element i is the sum of the elements before it, without {named(of)}[i]",
        "add the element before you write the sum.",
        lambda env: env[out] - env[of],
    )
    yield Edit(
        out,
        "the running sum starts at the other end",
        f"start with element 0 of axis {axis}.",
        lambda env: jax.lax.cumsum(env[of], axis, reverse=True),
    )
    for block in sorted(b for b in {*blocks, _REGISTER} if b <= length and length % b == 0):
        yield from _wrong_distances(of, out, axis, block)
        if block == length:
            continue

        def value(env, block=block):
            x = env[of]
            parts = x.reshape(*x.shape[:axis], -1, block, *x.shape[axis + 1 :])
            return jnp.cumsum(parts, axis=axis + 1).reshape(x.shape)

        yield Edit(
            out,
            f"the running sum restarts every {block} elements along axis {axis}",
            "carry the last sum of each part to the next.",
            value,
        )


def _wrong_distances(of: int, out: int, axis: int, block: int) -> Iterator[Edit]:
    """Yield a running sum within blocks by distances that grow by 1, where each should be twice the one before."""
    doubled = [2**n for n in range(block.bit_length()) if 2**n < block]
    counted = list(range(1, len(doubled) + 1))
    if counted == doubled:
        return

    def value(env):
        x = env[of]
        parts = jnp.moveaxis(x.reshape(*x.shape[:axis], -1, block, *x.shape[axis + 1 :]), (axis, axis + 1), (0, 1))
        for distance in counted:
            parts = parts.at[:, distance:].add(parts[:, :-distance])
        totals = parts[:, -1:]
        before = jnp.cumsum(totals, axis=0) - totals
        return jnp.moveaxis(parts + before, (0, 1), (axis, axis + 1)).reshape(x.shape)

    yield Edit(
        out,
        f"within {block} elements, the sums at distances {', '.join(map(str, counted))} are added",
        "after each addition every element holds the sum of twice as many, so the distances double: "
        f"{', '.join(map(str, doubled))}.",
        value,
    )
