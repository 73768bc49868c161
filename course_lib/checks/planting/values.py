"""Mistakes in the arithmetic: a sign, a rounding, a limit or a factor left out."""

from __future__ import annotations

from collections.abc import Iterator

from course_lib.checks.planting.kernel import Kernel
from course_lib.checks.planting.mistake import Change
from course_lib.checks.planting.rewriting import literal, replaced

_LEFT_OUT = {
    "abs": ("absolute value", "the absolute value is left out", "use a row whose largest number is negative."),
    "round": ("round", "values are not rounded", "use values that lie between two integers."),
}
_BOUNDS = {"max": "lower", "min": "upper"}


def left_out(kernel: Kernel) -> Iterator[Change]:
    """Yield the kernels that leave out an operation which changes only some values."""
    for eqn, _ in kernel.named(*_LEFT_OUT):
        kind, means, shows = _LEFT_OUT[eqn.primitive.name]
        yield _dropped(kernel, eqn, eqn.invars[0], kind, means, shows)


def unlimited(kernel: Kernel) -> Iterator[Change]:
    """Yield the kernels that leave out a limit: the 0 of a ReLU, the largest value of a dtype."""
    for eqn, _ in kernel.named(*_BOUNDS):
        constant = [kernel.is_constant(atom) for atom in eqn.invars]
        if constant.count(True) != 1 or not eqn.outvars[0].aval.shape:
            continue
        value = eqn.invars[constant.index(False)]
        if getattr(value.aval, "shape", None) == eqn.outvars[0].aval.shape:
            means = f"values are not kept within their {_BOUNDS[eqn.primitive.name]} limit"
            yield _dropped(kernel, eqn, value, "limit", means, "use values on both sides of every limit.")


def shifted(kernel: Kernel) -> Iterator[Change]:
    """Yield the kernels that rotate an array by one element too many."""
    for eqn, _ in kernel.named("roll"):
        shift = eqn.invars[1] if len(eqn.invars) > 1 else None
        if getattr(shift, "val", None) is None:
            continue
        other = eqn.replace(invars=[eqn.invars[0], literal(int(shift.val) + 1, shift), *eqn.invars[2:]])
        yield Change(
            "neighbour",
            "a neighbour is taken one element too far away",
            "use values that differ from each of their neighbours.",
            eqn,
            lambda eqn=eqn, other=other: kernel.with_body(replaced(kernel.body, eqn, [other])),
        )


def without_factor(kernel: Kernel) -> Iterator[Change]:
    """Yield the kernels that leave out a factor, or a divisor, which is the same for all elements."""
    for eqn, _ in kernel.named("mul", "div"):
        first, second = eqn.invars
        constant = kernel.is_constant(second), kernel.is_constant(first) and eqn.primitive.name == "mul"
        if sum(constant) != 1 or not eqn.outvars[0].aval.shape:
            continue
        value = first if constant[0] else second
        if getattr(value.aval, "shape", None) == eqn.outvars[0].aval.shape:
            yield _dropped(kernel, eqn, value, "factor", "a constant factor is left out", "compare values, not signs.")


def _dropped(kernel: Kernel, eqn, value, kind: str, means: str, shows: str) -> Change:
    return Change(
        kind, means, shows, eqn, lambda: kernel.with_body(replaced(kernel.body, eqn, instead={eqn.outvars[0]: value}))
    )
