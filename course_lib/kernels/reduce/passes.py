"""The passes of a reduction: each reduces along one axis, and between them the array has the accumulator's dtype.

Longer axes come first, so that less is written between passes. Everything is reduced in two passes over a matrix, its
longer side first. Sizes of axes that are not reduced need not be known.
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
    turned: tuple[tuple[int, ...], int] | None = None  # a shape, and which of its axes is moved behind the others first

    def seen(self, x: Array) -> Array:
        """Return x in that view."""
        if self.turned:
            shape, axis = self.turned
            x = jnp.moveaxis(x.reshape(shape), axis, -1)
        return x.reshape(self.view)


def passes(shape: tuple[int, ...], axis: tuple[int, ...] | None) -> list[Pass]:
    """Return the passes along the axes ``axis`` (None: all) for an array of ``shape`` that is not empty."""
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
