"""Slices of a ref with a start known only at run time: which starts the compiler accepts, and what to do instead.

For 32-bit elements any row will do if the ref is at most 128 lanes wide, or if the slice is one whole row. Otherwise
the compiler wants a proof that the row is a multiple of the number in its message: 8, or 32 for one-byte elements.
Slices along the lanes start at multiples of 128. Axes before the last two may start anywhere, whatever the dtype.
tests/test_errors_starts.py asks the compiler about each of these.
"""

import math

from course_lib.errors.row import Row

LANES = 128


# The refused operation: vector_load(memref<64x512xf32, ...>, ...) -> vector<8x512xf32>, or vector_store.
_REF = r"memref<(?P<ref>[\dx]*x\w+)"
_PART = r"vector<(?P<part>[\dx]*x\w+)>"
_OPERATION = rf"(?:(?=.*?{_REF})(?=.*?{_PART})|)"


def _sizes(text: str) -> tuple[tuple[int, ...], str]:
    """Return ((64, 512), "f32") for "64x512xf32", for example."""
    *sizes, dtype = text.split("x")
    return tuple(map(int, sizes)), dtype


def _cure(axis: str, n: str, ref: str, part: str) -> dict[str, str]:
    """Describe the ref, and say what suits its dtype and shape."""
    promise = f"pl.multiple_of(start, {n}) is a promise that is never checked: give it only if it holds at every step."
    if "?" in (ref, part):
        return {"ref": "", "cure": f"start at {n} * i, which the compiler can prove. {promise}"}
    (shape, dtype), (sizes, _) = _sizes(ref), _sizes(part)
    lanes = int(axis) == len(shape) - 1
    if math.prod(sizes) == 1 and lanes:
        cure = "a scalar that is used as an index belongs in SMEM, where any element may be read."
    elif lanes:
        cure = (
            f"start at {n} * i, which the compiler can prove; or read all lanes and rotate them, pltpu.roll(value, "
            f"{shape[-1]} - start, axis)."
        )
    elif dtype in ("f32", "i32"):
        cure = (
            f"start at {n} * i, which the compiler can prove; or take one whole row at a time, or a ref of {LANES} "
            "lanes: these may start at any row."
        )
    else:
        cure = (
            f"start at {n} * i, which the compiler can prove; or add an axis, "
            f"{(*shape[:-2], shape[-2], 1, shape[-1])}: the axis before the last two may be indexed anywhere."
        )
    return {"ref": f", {dtype}{list(shape)},", "cure": f"{cure} {promise}"}


ROWS = (
    Row(
        "alignment",
        r"E2003: \w+: cannot statically prove that index in dimension (?P<axis>\d+) is a multiple of (?P<n>\d+)"
        + _OPERATION,
        "The kernel slices axis {axis} of a ref{ref} at a start that the compiler cannot prove to be a multiple of "
        "{n}.",
        "{cure}",
        "04",
        _cure,
    ),
    Row(
        "part-of-a-row",
        r"Not implemented: dynamic (?:load|store) with unaligned indices",
        "The kernel takes a part of a row, but the row is known only when it runs.",
        "take the whole row, x_ref[pl.ds(start, 1), :], and slice the lanes out of that value; to change part of a "
        "row, write the whole row back.",
        "04",
    ),
)
