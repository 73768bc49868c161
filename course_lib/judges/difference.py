"""The comparison of a function's outputs with what its reference expects."""

import itertools
from collections.abc import Callable

import jax
import numpy as np

from course_lib import grid
from course_lib.judges.block_map import block_map
from course_lib.judges.rules import reasons as rules
from course_lib.judges.tolerance.expected import Expected, right
from course_lib.judges.verdict import Complaint
from course_lib.judges.wrong_outputs.finding import Finding, show


def other_structure(walk: grid.Walk, expected) -> Complaint | None:
    """Report a list in place of an array, or the like; a list and a tuple of the same are no difference."""
    got, want = (jax.tree.structure(_as_tuples(result)) for result in (walk.result, expected))
    if got == want or got.num_leaves != want.num_leaves:  # ``difference`` reports another number of arrays
        return None
    what = f"It returns {_described(walk.result)}; it should return {_described(expected)}."
    return Complaint(what, "look at the return line.")


def _as_tuples(result):
    """Return the result with tuples for its lists; JAX and its functions return now the one, now the other."""
    if isinstance(result, (list, tuple)):
        return tuple(map(_as_tuples, result))
    return {key: _as_tuples(value) for key, value in result.items()} if isinstance(result, dict) else result


def difference(
    got: list[np.ndarray],
    want: list[Expected],
    walk: grid.Walk,
    reference: Callable,
    args: tuple,
    names: tuple[tuple[str, str], ...] = (),
    **more,
) -> Complaint | None:
    """Say what is wrong, where, and what to try; None if every output is right.

    ``names``: (name, description) of each output that has a name. ``more``: further fields of Finding that help to
    explain the difference: ``run``, ``probes``, ``slips``, ``in_order`` ...
    """
    if len(got) != len(want):
        arrays = "1 array" if len(got) == 1 else f"{len(got)} arrays"
        return Complaint(f"It returns {arrays}; it should return {len(want)}.", "look at out_shape.")
    if complaint := _exchanged(got, want, names):
        return complaint
    for number, (g, w) in enumerate(zip(got, want, strict=True)):
        name, is_called = names[number] if names else ("The output" if len(want) == 1 else f"Output {number}", "")
        if g.shape != w.value.shape:
            return Complaint(f"{name} has shape {g.shape}; it should be {w.value.shape}.", "look at out_shape.")
        if g.dtype != w.value.dtype:
            next = "a gradient has the dtype of its argument: .astype at the end." if names else ""
            what = f"{name} is {g.dtype}; it should be {w.value.dtype}."
            return Complaint(what, next or "look at the dtype in out_shape.")
        if (wrong := ~right(g, w)).any():
            known = {"walk": walk, "reference": reference, "args": args, "is_called": is_called} | more
            return _complaint(Finding(name=name, number=number, got=g, want=w, wrong=wrong, **known))
    return None


def _exchanged(got: list[np.ndarray], want: list[Expected], names: tuple = ()) -> Complaint | None:
    """Report two outputs that are exchanged."""
    for first, second in itertools.combinations(range(len(got)), 2):
        pairs = [(got[first], want[second]), (got[second], want[first])]
        if all(_is(g, w) for g, w in pairs) and not _is(got[first], want[first]):
            one, other = (names[first][0], names[second][0]) if names else (f"Output {first}", f"output {second}")
            what = f"{one} and {other} are swapped: each is what the other should be."
            return Complaint(what, "return them in the other order.")
    return None


def _is(got: np.ndarray, want: Expected) -> bool:
    """Whether an output is right in shape, dtype and every element."""
    return (got.shape, got.dtype) == (want.value.shape, want.value.dtype) and bool(right(got, want).all())


def _complaint(found: Finding) -> Complaint:
    because = rules.because(found)
    which = _block(found)
    parts = (which, _value(found, said=bool(which)), because.what, _how_many(found), _guess(found))
    where = " ".join(part for part in parts if part)
    block = found.laid_out_by[1].block_shape if found.laid_out_by else None
    return Complaint(where, because.next, block_map(found.name, found.wrong, found.unwritten, block))


def _block(found: Finding) -> str:
    """Describe the block of the first wrong element and the steps that write it, if there are several blocks."""
    if found.laid_out_by is None or (found.laid_out_by[0].steps == 1 and len(found.steps)):
        return ""
    call, output = found.laid_out_by
    if not len(found.steps):
        block = tuple(e // b for e, b in zip(found.first, output.block_shape, strict=True))
        return f"No grid step writes {_named(found, 'output block', block)}."
    block = tuple(output.indices[found.steps[-1]].tolist())
    how = "written at step" if len(found.steps) == 1 else f"computed at steps {call.step(int(found.steps[0]))} to"
    return f"{_named(found, 'Output block', block)}, {how} {call.step(int(found.steps[-1]))}, is wrong."


def _named(found: Finding, kind: str, block: tuple[int, ...]) -> str:
    """Return "Output block (1, 0)", or "Block (1, 0) of dw, the gradient of w" if the output has a name."""
    if not found.is_called:
        return f"{kind} {block}"
    return f"{'Block' if kind[0] == 'O' else 'block'} {block} of {found.name}, {found.is_called}"


def _value(found: Finding, said: bool) -> str:
    """Describe the first wrong element. ``said``: the output's description has been given already."""
    first = found.first
    at = f" at [{', '.join(map(str, first))}]" if first else ""
    is_called = f", {found.is_called}," if found.is_called and not said else ""
    return f"{found.name}{is_called}{at} is {show(found.got[first])}; it should be {show(found.want.value[first])}."


def _how_many(found: Finding) -> str:
    if found.wrong.size == 1:
        return ""
    number = int(found.wrong.sum())
    return f"{number:,} of {found.wrong.size:,} elements {'is' if number == 1 else 'are'} wrong."


def _guess(found: Finding) -> str:
    """Say that the bound is a guess, and because of which operation."""
    if not found.want.guessed:
        return ""
    ops = ", ".join(f"`{name}`" for name in found.want.guessed)
    return f"The judge has no error bound for {ops}, so it guesses: a few rounding errors are allowed here."


def _described(result) -> str:
    if isinstance(result, dict):
        return f"a dict of {', '.join(map(repr, result))}"
    if isinstance(result, (list, tuple)):
        return f"a {type(result).__name__} of {len(result)}"
    return "an array"
