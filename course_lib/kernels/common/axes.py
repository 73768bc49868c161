"""Axes named by a caller, counted from the front, and the view of an array in which a kernel goes along one of them.

A kernel that goes along an axis N other than the last sees the array as (A, N, C), or as (A, N, R, C) if several axes
follow N. Nothing is transposed in HBM, and C stays in the lanes. Axes are merged for this view; if the last but one is
among them and no multiple of 8, XLA copies.
"""

import math
import numbers

from course_lib.arrays import Array
from course_lib.kernels.common.legal import LANES, SUBLANES, shown


def one(op: str, x: Array, axis: int) -> int:
    """Return ``axis`` counted from the front. Raises ValueError if x has no such axis."""
    if isinstance(axis, numbers.Integral) and not isinstance(axis, bool) and -x.ndim <= axis < x.ndim:
        return int(axis) % x.ndim
    if not x.ndim:
        raise ValueError(f"{op}: x has shape (), and an axis is wanted. Try x[None].")
    raise ValueError(
        f"{op}: axis is {shown(axis)} and x has shape {x.shape}; it must be a whole number from {-x.ndim} to "
        f"{x.ndim - 1}. Try axis=-1."
    )


def several(op: str, x: Array, axis: int | tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Return the axes as a sorted tuple; None means all. Raises ValueError if x lacks one, or one is named twice."""
    if axis is None or not x.ndim and axis == ():
        return None
    named = axis if isinstance(axis, tuple) else (axis,)
    try:
        found = tuple(sorted(one(op, x, each) for each in named))
    except ValueError:
        found = None
    if found is None or len(set(found)) < len(found):
        each = f"a whole number from {-x.ndim} to {x.ndim - 1}, a tuple of such, each axis once, or " if x.ndim else ""
        raise ValueError(
            f"{op}: axis is {shown(axis)} and x has shape {x.shape}; it may be {each}None, for all. Try axis=None."
        )
    return None if len(found) == x.ndim else found


def is_better_last(shape: tuple[int, ...], axis: int) -> bool:
    """Whether to move ``axis`` behind all others first, which costs nothing if XLA already stores the array that way.

    XLA does so if the last axis is narrow, because fewer lanes are padding then; or if no axis follows ``axis``.
    """
    behind, last = math.prod(shape[axis + 1 :]), shape[-1]
    return behind == 1 or last < LANES and shape[axis] / _lanes(shape[axis]) > last / LANES


def _lanes(size: int) -> int:
    return -(-size // LANES) * LANES


def seen_as(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Return (A, N, C), or (A, N, R, C), for an axis that is not the last."""
    before, along, behind = shape[:axis], shape[axis], shape[axis + 1 :]
    deep = (math.prod(behind[:-1]),) if len(behind) > 1 else ()
    return math.prod(before), along, *deep, behind[-1]


def block(view: tuple[int, ...], along: int, bm: int, bn: int, step: int = 1) -> tuple[int, ...]:
    """Return a block of ``view``: ``along`` elements of N, about ``bm`` rows of all axes but the last, and bn columns.

    It has a multiple of ``step`` elements of A, or all.
    """
    outer, _, *deep, columns = view
    rows = max(1, bm // along)
    if deep:
        (depth,) = deep
        deep = (min(depth, max(SUBLANES, rows // SUBLANES * SUBLANES)),)
        rows = rows // depth if deep == (depth,) else 1
    return min(outer, max(step, rows // step * step)), along, *deep, min(columns, bn)
