"""What wrong values look like: the transpose, a neighbour's, a multiple of the right ones."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np

from course_lib.grid import jaxprs
from course_lib.judges.tolerance.expected import close, right
from course_lib.judges.verdict import Complaint
from course_lib.judges.wrong_outputs.finding import Finding, confirmed, show, unwritten

_ONE_OFF = {
    "large": (
        "check for a quotient that is rounded up, or to the nearest, instead of down, and for a count that starts at 1."
    ),
    "small": (
        "check for a quotient just below an integer before it is rounded down, and for a count that starts too late."
    ),
}
_REGISTER = (8, 128)  # rows and columns that are looked for elsewhere
_MOST_PLACES = 10_000


@confirmed
def an_argument(found: Finding) -> Complaint | None:
    """Report an output that equals one of the arguments."""
    for number, arg in enumerate(found.leaves):
        if arg.shape == found.got.shape and arg.dtype == found.got.dtype and (arg == found.got).all():
            return Complaint(
                "",
                f"the output equals argument {number}, element by element. Check whether the rest of the computation "
                "is missing.",
            )
    return None


def another_output(found: Finding) -> Complaint | None:
    """Report an output that is right as another one."""
    values = [np.asarray(value) for value in jax.tree.leaves(found.reference(*found.args))]
    for number, value in enumerate(values):
        alike = number != found.number and (value.shape, value.dtype) == (found.got.shape, found.got.dtype)
        if alike and not found.is_called and close(found.got, value).all():
            return Complaint(
                f"{found.name} is what output {number} should be.",
                f"check which result goes to which ref. Output refs come in the order of out_shape; output {number} "
                "is right already.",
            )
    return None


@confirmed
def transposed(found: Finding) -> Complaint | None:
    """Report an output with its last two axes swapped, as a whole or within each block."""
    got = found.got
    if got.ndim < 2:
        return None
    if found.made_by is not None and (within := _within_blocks(got, found.made_by[1].block_shape)) is not None:
        if _matches(found, within):
            return Complaint(
                "Every block is in the right place, but transposed.",
                "transpose inside the kernel too: x_ref[...].T.",
            )
    if got.shape[-1] != got.shape[-2] or not _matches(found, np.swapaxes(got, -1, -2)):
        return None
    return Complaint(
        f"{found.name} is the transpose of what it should be.",
        "swap the two indices that an index map returns, or transpose inside the kernel, not both.",
    )


@confirmed
def shifted(found: Finding) -> Complaint | None:
    """Report an output that is right, but some rows or columns too far along an axis."""
    steps = {1}
    if found.made_by is not None:
        steps |= set(found.made_by[1].block_shape)
    for axis in range(found.got.ndim):
        for by in sorted(s for s in steps if 0 < s < found.got.shape[axis]):
            for way in (by, -by):
                if _matches(found, np.roll(found.got, -way, axis)):
                    towards = "end" if way > 0 else "beginning"
                    return Complaint(
                        f"The values are right, but {abs(way)} too far towards the {towards} of axis {axis}.",
                        "look for an off-by-one error in an index map, a slice, or the start of a loop.",
                    )
    return None


def misplaced(found: Finding) -> Complaint | None:
    """Report that the values around the first wrong element are right at one other place of the output."""
    if not found.got.ndim:
        return None
    first, fits = found.first, _places(found, found.first)
    if found.elsewhere is not None:
        fits = [at for at in fits if at in _places(found.elsewhere, first)]
    if len(fits) != 1:
        return None
    return Complaint(
        f"The value at [{_listed(first)}] belongs at [{_listed(fits[0])}].",
        "the kernel may read another block than the one it writes. Compare the indices in the index maps, or in the "
        "slices of the copies in and out: which one counts rows, and which columns?",
    )


def _places(found: Finding, first: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return where the values around an element would be right, a whole number of registers from there."""
    sizes = [1] * (found.got.ndim - len(_REGISTER)) + list(_REGISTER[-found.got.ndim :])
    if found.laid_out_by is not None:
        sizes = list(map(min, sizes, found.laid_out_by[1].block_shape))
    here = tuple(slice(at, min(at + size, end)) for at, size, end in zip(first, sizes, found.got.shape, strict=True))
    patch, values = found.got[here].astype(np.float64), found.want.value.astype(np.float64)
    if not np.isfinite(patch).all() or np.ptp(patch) == 0:
        return []
    near = 2.0 ** -_bits(found.got.dtype) * np.abs(patch).max()
    starts = [range(at % size, end, size) for at, size, end in zip(first, sizes, found.got.shape, strict=True)]
    if math.prod(map(len, starts)) > _MOST_PLACES:
        return []
    return [at for at in itertools.product(*starts) if at != first and _is_patch(values, at, patch, near)]


def _is_patch(values: np.ndarray, at: tuple[int, ...], patch: np.ndarray, near: float) -> bool:
    part = values[tuple(slice(start, start + size) for start, size in zip(at, patch.shape, strict=True))]
    return part.shape == patch.shape and bool((np.abs(part - patch) <= near).all())


def _listed(at) -> str:
    return ", ".join(str(int(n)) for n in at)


def clipped(found: Finding) -> Complaint | None:
    """Report wrong elements that are all one number of the kernel's code, which its maximum or minimum takes in."""
    if found.got.dtype.kind == "b" or found.wrong.sum() < 2:
        return None
    got, want = found.got[found.wrong].astype(np.float64), found.want.value[found.wrong].astype(np.float64)
    eqns = [eqn for call in found.walk.calls for eqn in jaxprs.equations(call.kernel)]
    names = {eqn.primitive.name.removeprefix("reduce_") for eqn in eqns}
    for word, name, far, beyond in (
        ("maximum", "max", "smaller", want < got),
        ("minimum", "min", "larger", want > got),
    ):
        if name in names and (got == got[0]).all() and beyond.all() and _is_literal(got[0], eqns):
            number, neutral = show(found.got[found.first]), "-inf" if name == "max" else "inf"
            return Complaint(
                f"Each wrong element is {number}, and the right values there are {far}. A {word} in the kernel takes "
                f"in {number}: as its initial value, where a mask hides an element, or as a limit.",
                f"start the {word} at {neutral}, put {neutral} where a mask hides an element, and leave out other "
                "limits.",
            )
    return None


def _is_literal(number: float, eqns: list) -> bool:
    """Whether a number stands in the code, apart from its rounding to float32."""
    literals = [atom.val for eqn in eqns for atom in eqn.invars if not jaxprs.is_variable(atom)]
    return any(np.ndim(val) == 0 and np.float32(val) == np.float32(number) for val in literals)


@confirmed
def scaled(found: Finding) -> Complaint | None:
    """Report wrong elements that are all the same multiple of the right ones, or off by the same amount."""
    if found.got.dtype.kind in "b" or found.wrong.sum() < 4:
        return None
    got, want = found.got[found.wrong].astype(np.float64), found.want.value[found.wrong].astype(np.float64)
    if not np.isfinite(got).all() or not np.isfinite(want).all():
        return None
    if not got.any():
        return Complaint(
            "Each wrong element is 0.",
            "check whether zeros are written there last, after the values, or whether no values are written at all.",
        )
    same = 16 * 2.0 ** -_bits(found.got.dtype)  # equal up to the rounding of both
    if np.abs(want).min() > 0 and np.ptp(ratio := got / want) <= same * abs(ratio.mean()) < 0.1 * abs(ratio.mean() - 1):
        return _times(ratio.mean())
    if said := _multiple(found, got, want):
        return said
    off = got - want
    if np.ptp(off) <= same * np.abs(want).max() < 0.1 * abs(off.mean()) and np.ptp(want):
        way, one_off = "large" if off.mean() > 0 else "small", found.got.dtype.kind in "iu" and abs(off.mean()) == 1
        return Complaint(
            f"Each wrong element is too {way} by {abs(off.mean()):.4g}.",
            _ONE_OFF[way] if one_off else "check for a term that is added twice or left out.",
        )
    return None


def _multiple(found: Finding, got: np.ndarray, want: np.ndarray) -> Complaint | None:
    """Report an output that divided by one number is right, apart from rounding."""
    by = float(got @ want) / float(want @ want) if want.any() else 1.0
    if by == 0 or abs(by - 1) < 0.1 or not _matches(found, found.got.astype(np.float64) / by):
        return None
    return _times(by)


def _times(by: float) -> Complaint:
    if abs(by + 1) < 1e-3:
        return Complaint(
            "Each wrong element is the negative of the right one.", "check for a difference whose operands are swapped."
        )
    if (part := round(1 / by)) > 2 and abs(by * part - 1) < 1e-3:
        return Complaint(
            f"Each wrong element is 1/{part} of the right one.",
            f"check for a mean over {part} where a sum is needed, or for a value that is divided by {part} twice.",
        )
    return Complaint(
        f"Each wrong element is {by:.4g} times the right one.",
        "check for a factor that is missing or applied twice, or for steps that are added more than once.",
    )


def swallowed_nan(found: Finding) -> Complaint | None:
    """Report a number where the right answer is NaN or infinity."""
    if np.isfinite(found.want.value[found.first].astype(np.float64)) or unwritten(found.got)[found.first]:
        return None
    return Complaint(
        "The right answer there is not finite, but the kernel's is.",
        "NaN and infinity must propagate: do not replace them, and mask by position, not by value.",
    )


def _bits(dtype) -> int:
    """Return how many bits of a number the dtype keeps."""
    return int(jnp.finfo(dtype).nmant) if jnp.issubdtype(dtype, jnp.floating) else 30


def _within_blocks(array: np.ndarray, block: tuple[int, ...]) -> np.ndarray | None:
    """Transpose each square block of the array; None if the blocks are not square, or do not fill it."""
    *_, rows, columns = array.shape
    *_, b, c = block
    if b != c or b == 1 or rows % b or columns % b:
        return None
    parts = array.reshape(*array.shape[:-2], rows // b, b, columns // b, b)
    return np.swapaxes(parts, -3, -1).reshape(array.shape)


def _matches(found: Finding, changed: np.ndarray) -> bool:
    """Whether ``changed`` is what was expected, apart from rolled-in edges and ties."""
    fits = right(changed, found.want)
    return bool(fits.mean() > 0.9 and fits[found.wrong].mean() > 0.8)
