"""Mistakes in the arithmetic: a sign, a rounding, a limit or a factor left out."""

from __future__ import annotations

from collections.abc import Iterator

import jax.numpy as jnp
from jax import lax

from course_lib.checks.planting.kernel import Kernel
from course_lib.checks.planting.mistake import Change
from course_lib.checks.planting.rewriting import computed, fresh, literal, replaced

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


def without_operand(kernel: Kernel) -> Iterator[Change]:
    """Yield the kernels that leave out a factor or a term which they read from an input: a scale, a bias."""
    for eqn, _ in kernel.named("mul", "add", "sub"):
        for value, other in ((eqn.invars[0], eqn.invars[1]), (eqn.invars[1], eqn.invars[0])):
            read = _input_read(kernel, other)
            is_whole = getattr(value.aval, "shape", None) == eqn.outvars[0].aval.shape != ()
            if (
                read
                and is_whole
                and not _input_read(kernel, value)
                and (value is eqn.invars[0] or eqn.primitive.name != "sub")
            ):
                kind = "input factor" if eqn.primitive.name == "mul" else "input term"
                means = f"the {kind.removeprefix('input ')} from {read} is left out"
                yield _dropped(kernel, eqn, value, kind, means, f"use values of {read} that are neither 0 nor 1.")


def _input_read(kernel: Kernel, atom) -> str:
    """Return the name of the input whose elements a value is, apart from its dtype and its shape; "" if it is none."""
    made = kernel.origin(atom)
    if made is None or made.primitive.name != "get" or not made.outvars[0].aval.shape:
        return ""
    name = kernel.ref(made.invars[0])
    return name if name in kernel.inputs else ""


def without_sign(kernel: Kernel) -> Iterator[Change]:
    """Yield the kernels that shift integers to the right without regard to their sign, or with regard to none."""
    other = {"shift_right_arithmetic": lax.shift_right_logical_p, "shift_right_logical": lax.shift_right_arithmetic_p}
    for eqn, _ in kernel.named(*other):
        changed = eqn.replace(primitive=other[eqn.primitive.name])
        yield Change(
            "sign",
            "the sign is lost, or made up, where integers are shifted to the right",
            "use negative and positive integers.",
            eqn,
            lambda eqn=eqn, changed=changed: kernel.with_body(replaced(kernel.body, eqn, [changed])),
        )


def rounded_products(kernel: Kernel) -> Iterator[Change]:
    """Yield the kernels that round the result of a matmul to bfloat16 before they use it."""
    for eqn, _ in kernel.named("dot_general"):
        (out,) = eqn.outvars
        if out.aval.dtype != jnp.float32:
            continue

        def changed(eqn=eqn, out=out) -> dict:
            exact = fresh(out.aval)
            rounded = computed(lambda x: lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7), [exact], [out])
            return kernel.with_body(replaced(kernel.body, eqn, [eqn.replace(outvars=[exact]), *rounded]))

        yield Change(
            "rounded matmul",
            "the result of a matmul is rounded to bfloat16",
            "use random values, and compare to the accuracy of float32.",
            eqn,
            changed,
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
