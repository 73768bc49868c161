"""Copies by hand that begin, or end, within a tile of an array in HBM or VMEM.

Arrays lie in tiles of 8 rows, more for narrow dtypes, and 128 lanes. Axes before the last two are not tiled.
tests/test_errors_copies.py asks the compiler about each of these copies, and about what to write instead.
"""

from course_lib.errors.row import Row

_LANES = 128
_REF = r"(?:(?=.*?memref<(?P<ref>(?:\d+x)+)(?P<dtype>\w+))|)"  # the array, or what is copied of it
_ANYWHERE = (
    "copy whole tiles, and slice what you need out of them in VMEM; axes before the last two may be sliced anywhere."
)


def _tile(axis: str, n: str, ref: str, dtype: str, part: str) -> dict[str, str]:
    """Say where the slice does not fit the tiles, and how to copy a whole one."""
    sizes, array = _array(ref, dtype)
    unit = _unit(sizes, int(axis))
    if part == "Offsets":
        wrong = f"the slice begins at a number of {unit} that the compiler cannot prove to be a multiple of {n}"
    else:
        wrong = f"the slice takes a number of {unit} that is not a multiple of {n}"
    return {"array": array, "wrong": wrong, "cure": _cure(unit, n, sizes)}


def _lanes(ref: str, dtype: str) -> dict[str, str]:
    """Name what is copied, and say how to copy whole tiles of lanes."""
    sizes, array = _array(ref, dtype)
    unit = _unit(sizes, len(sizes) - 1)
    return {"array": array, "unit": unit, "cure": _cure(unit, str(_LANES), sizes)}


def _array(ref: str, dtype: str) -> tuple[list[int], str]:
    """Return ([64, 128], " of bf16[64, 128]") for "64x128x" and "bf16"; ([], "") if the compiler names no array."""
    sizes = [int(size) for size in ref.split("x") if size.isdigit()]
    return sizes, f" of {dtype}{sizes}" if sizes else ""


def _unit(sizes: list[int], axis: int) -> str:
    if len(sizes) < 2:
        return "elements"
    return "lanes" if axis == len(sizes) - 1 else "rows"


def _cure(unit: str, n: str, sizes: list[int]) -> str:
    if not sizes:
        return _ANYWHERE
    if unit == "rows":
        return (
            f"copy the whole tile that holds the rows, ref.at[pl.ds(pl.multiple_of(i // {n} * {n}, {n}), {n})], and "
            f"pick the row in VMEM; or reshape the array to {(*sizes[:-1], 1, sizes[-1])} before pallas_call: an axis "
            "before the last two may be indexed anywhere."
        )
    if unit == "lanes":
        return (
            f"copy whole tiles of lanes, ref.at[:, pl.ds({n} * i, {n})], and slice the lanes out of the value in "
            "VMEM; if the array ends within a tile, copy to its very end or pad it before pallas_call."
        )
    return (
        f"begin at {n} * i and copy a multiple of {n} elements; or give the array rows of {_LANES} before pallas_call."
    )


ROWS = (
    Row(
        "copy-part-of-a-tile",
        r"(?P<part>Offsets|Slice sizes) along tiled dimensions must be aligned to tiles\. Failed to verify that the "
        r"\w+ at dimension (?P<axis>\d+) is divisible by the tile dimension (?P<n>\d+)" + _REF,
        "The kernel copies part of a tile{array}{where}: {wrong}.",
        "{cure}",
        "05",
        _tile,
    ),
    Row(
        "copy-part-of-the-lanes",
        r"contiguous inner slice in the (?:DMA )?transfer must be (?:divisible by|aligned to) \d+ bytes" + _REF,
        "The kernel copies a slice{array}{where}, whose number of {unit} is not a multiple of 128. A copy takes whole "
        "tiles of lanes.",
        "{cure}",
        "05",
        _lanes,
    ),
    Row(
        "copy-from-within-the-lanes",
        r"dynamic offset times the element size is (?:not )?a multiple of the (?:memory space )?word size" + _REF,
        "The kernel copies a slice{array}{where} that begins at a number of {unit} which is not a multiple of 128, or "
        "not provably so. A copy begins at a whole tile of lanes.",
        "{cure}",
        "05",
        _lanes,
    ),
    Row(
        "copy-size",  # another version of the compiler, and SparseCores
        r"Slice shape along dimension (?P<axis>\d+) must be aligned to tiling \((?P<n>\d+)\), but is (?P<size>\d+)",
        "The kernel copies {size} along axis {axis}{where}, but a tile of the array has {n} there. A copy takes whole "
        "tiles.",
        _ANYWHERE,
        "05",
    ),
)
