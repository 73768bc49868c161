"""The rule of an op: one letter for each axis of each operand and result, which says what may be cut among devices.

``"m k, k n -> m n +k"`` is a matmul. ``+k``: if k is cut, each device has a partial sum, and these are added. ``^k``:
the largest is taken. ``>n``: each part of n is increased by the last element of the parts before it; ``<n``: by the
first element of the parts after it. A capital letter is an axis that the kernel needs whole, as softmax needs its rows.

A caller's ``layout``, one PartitionSpec per operand, is stored by letter, so that it holds for the gradient too.
"""

from collections.abc import Sequence

from jax.sharding import PartitionSpec as P

from course_lib.arrays import Array
from course_lib.kernels.common import symbolic

SUMS, CARRIES = "+^", "><"  # before a letter of a result
Layout = P | tuple[P | None, ...] | None  # of the operands on Auto axes: of the first, or of each
Cuts = tuple[tuple[str, tuple[str, ...]], ...] | None  # the same by letter: ("m", ("data",)); None if not given


def letters(rank: int) -> str:
    """Return letters for the axes of an array, none of which is special."""
    return " ".join(f"r{axis}" for axis in range(rank))


def cuts(op: str, rule: str, operands: Sequence[Array], layout: Layout) -> Cuts:
    """Return ``layout`` by the letters of ``rule``. Raises ValueError, in the name of ``op``, if it does not fit."""
    if layout is None:
        return None
    specs = (layout,) if isinstance(layout, P) else layout
    if not isinstance(specs, tuple) or not all(map(_is_spec, specs)):
        raise ValueError(
            f"{op}: layout is {layout!r}; it must be a PartitionSpec, or a tuple of them, one for each operand. "
            'Try layout=jax.sharding.PartitionSpec("data").'
        )
    if len(specs) > len(operands):
        raise ValueError(f"{op}: layout has {len(specs)} PartitionSpecs, and there are {len(operands)} operands.")
    found: dict[str, tuple[str, ...]] = {}
    for number, (axes, operand, spec) in enumerate(zip(parts(rule)[0], operands, specs, strict=False)):
        if len(spec or ()) > operand.ndim:
            raise ValueError(f"{op}: layout has {spec} for operand {number}, of shape {operand.shape}: one axis each.")
        for letter, names in zip(axes, map(names_of, spec or ()), strict=False):
            if letter.isupper() and number:  # a vector that goes with the rows is gathered, however it was cut
                continue
            if names and found.setdefault(letter, names) != names:
                raise ValueError(
                    f"{op}: layout cuts one axis in two ways, {found[letter]} and in operand {number} {names}; "
                    "axes that meet must be cut alike."
                )
    return tuple(sorted(found.items()))


def _is_spec(spec) -> bool:
    """Whether ``spec`` is None or a PartitionSpec of names of mesh axes."""
    if spec is None:
        return True
    return isinstance(spec, P) and all(
        entry is None or all(isinstance(name, str) for name in (entry if isinstance(entry, tuple) else (entry,)))
        for entry in spec
    )


def parts(rule: str) -> tuple[list[list[str]], list[list[str]]]:
    """Return the letters of each operand, and of each result."""
    ins, outs = rule.split("->")
    return [axes.split() for axes in ins.split(",")], [axes.split() for axes in outs.split(",")]


def shapes_of_results(rule: str, shapes: Sequence[tuple], sizes: Sequence[tuple[str, int]] = ()) -> list[tuple]:
    """Return the shape of each result, from those of the operands; ``sizes``: those of letters that no operand has.

    Where operands give one letter two sizes, as few KV heads meet many of queries, the operand that shares most
    letters with the result decides; among equals the one with the fewest others, and then the first.
    """
    ins, outs = parts(rule)
    found = []
    for axes in outs:
        axes = [letter.lstrip(CARRIES) for letter in axes if letter[0] not in SUMS]
        known = dict(sizes)
        nearest = sorted(
            zip(ins, shapes, strict=True), key=lambda each: (-len({*each[0]} & {*axes}), len({*each[0]} - {*axes}))
        )
        for letters_, shape in nearest:
            known = dict(zip(letters_, shape, strict=True)) | known
        found.append(tuple(known[letter] for letter in axes))
    return found


def unknown(rule: str, shapes: Sequence[tuple], known: str = "") -> str:
    """Return the first symbolic size of an axis that is reduced, needed whole or in ``known``; "" if there is none."""
    ins, outs = parts(rule)
    meets = {letter[1:] for axes in outs for letter in axes if letter[0] in SUMS + CARRIES}
    for axes, shape in zip(ins, shapes, strict=True):
        for letter, size in zip(axes, shape, strict=True):
            if not symbolic.is_known(size) and (letter in meets or letter in known.split() or letter.isupper()):
                return str(size)
    return ""


def renamed(said: Cuts, was: str, now: str) -> Cuts:
    """Return ``said`` for another rule, whose letters ``now`` are the axes that this one calls ``was``."""
    names = dict(zip(was, now, strict=True))
    return said and tuple((names[letter], axes) for letter, axes in said if letter in names)


def names_of(axes) -> tuple[str, ...]:
    """Return an entry of a PartitionSpec (None, one name or several) as a tuple."""
    return () if axes is None else (axes,) if isinstance(axes, str) else tuple(axes)
