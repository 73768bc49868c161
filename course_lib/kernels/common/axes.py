"""Axes that a caller names, counted from the front; and the view of an array in which a kernel goes along one of them.

Along an axis that is not the last an array is seen as (A, N, C), N that axis, or as (A, N, R, C) where several lie
behind it: nothing is transposed in HBM, and C lies in the lanes as it did. (Axes are merged for that; where the last
but one is among them and no multiple of 8, XLA copies.)
"""

import math
import numbers

from course_lib.arrays import Array
from course_lib.kernels.common.legal import LANES, SUBLANES, shown


def one(op: str, x: Array, axis: int) -> int:
    """``axis`` counted from the front. Raises ValueError where x has no such axis."""
    if isinstance(axis, numbers.Integral) and not isinstance(axis, bool) and -x.ndim <= axis < x.ndim:
        return int(axis) % x.ndim
    if not x.ndim:
        raise ValueError(f"{op}: x has shape (), and an axis is wanted. Try x[None].")
    raise ValueError(
        f"{op}: axis is {shown(axis)} and x has shape {x.shape}; it must be a whole number from {-x.ndim} to "
        f"{x.ndim - 1}. Try axis=-1."
    )


def several(op: str, x: Array, axis: int | tuple[int, ...] | None) -> tuple[int, ...] | None:
    """As a tuple, sorted; None for all. Raises ValueError where x has no such axis, or one is named twice."""
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
    """Whether to move ``axis`` behind all others first, which is no work then: XLA stores the array so.

    It does where the last axis is narrow, and less of the lanes is padding so; or nothing lies behind ``axis``.
    """
    behind, last = math.prod(shape[axis + 1 :]), shape[-1]
    return behind == 1 or last < LANES and shape[axis] / _lanes(shape[axis]) > last / LANES


def _lanes(size: int) -> int:
    return -(-size // LANES) * LANES


def seen_as(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """(A, N, C), or (A, N, R, C), for an axis that is not the last."""
    before, along, behind = shape[:axis], shape[axis], shape[axis + 1 :]
    deep = (math.prod(behind[:-1]),) if len(behind) > 1 else ()
    return math.prod(before), along, *deep, behind[-1]


def block(view: tuple[int, ...], along: int, bm: int, bn: int, step: int = 1) -> tuple[int, ...]:
    """A block of ``view`` with ``along`` elements of N, about ``bm`` rows of all the axes but the last, and bn columns.

    ``step``: of A it has a multiple of that, or all.
    """
    outer, _, *deep, columns = view
    rows = max(1, bm // along)
    if deep:
        (depth,) = deep
        deep = (min(depth, max(SUBLANES, rows // SUBLANES * SUBLANES)),)
        rows = rows // depth if deep == (depth,) else 1
    return min(outer, max(step, rows // step * step)), along, *deep, min(columns, bn)
