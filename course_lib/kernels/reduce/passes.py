"""The passes of a reduction: each reduces along one axis, and what lies between them is in the dtype of the sums.

Longer axes come first, so that less lies between. Everything is two passes over a matrix, its longer side first. Sizes
of axes that are not reduced need not be known.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp

from course_lib.arrays import Array
from course_lib.kernels.common import axes
from course_lib.kernels.common.symbolic import planned


class Pass(NamedTuple):
    """How an array is seen, and the axis of that view along which it is reduced."""

    view: tuple[int, ...]
    axis: int
    turned: tuple[tuple[int, ...], int] | None = (
        None  # a shape before, and which of its axes is moved behind the others
    )

    def seen(self, x: Array) -> Array:
        if self.turned:
            shape, axis = self.turned
            x = jnp.moveaxis(x.reshape(shape), axis, -1)
        return x.reshape(self.view)


def passes(shape: tuple[int, ...], axis: tuple[int, ...] | None) -> list[Pass]:
    """For an array of ``shape``, with one element or more, along the axes ``axis``; None for all."""
    if axis is None:
        flat = rows, columns = math.prod(shape[:-1]), shape[-1]
        last = Pass((1, min(flat)), 1)
        return [Pass(flat, 1)] if rows == 1 else [Pass(flat, 0 if rows >= columns else 1), last]
    found, left = [], list(shape)
    for each in sorted(axis, key=lambda each: -shape[each]):
        found.append(_along(tuple(left), each))
        left[each] = 1
    return found


def _along(shape: tuple[int, ...], axis: int) -> Pass:
    longer = [n for n, size in enumerate(planned(shape)) if size > 1 or n == axis]
    kept, at = tuple(shape[n] for n in longer), longer.index(axis)
    rows = math.prod(kept[:at]) * math.prod(kept[at + 1 :]), kept[at]
    if at == len(kept) - 1:
        return Pass(rows, 1)
    if len(kept) == 2:
        return Pass(kept, 0)
    if axes.is_better_last(planned(kept), at):
        return Pass(rows, 1, turned=(kept, at))
    return Pass(axes.seen_as(kept, at), 1)
