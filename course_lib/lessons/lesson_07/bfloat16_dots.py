"""Checks that a kernel's matmuls have bfloat16 operands, as the matrix units multiply them."""

from collections.abc import Callable

from course_lib.checks.matmuls import dots


def other_operands(fn: Callable, *args) -> str:
    """Return a complaint about a matmul whose operands are not bfloat16; "" if there is none."""
    for eqn in dots(fn, *args):
        names = [str(v.aval.dtype) for v in eqn.invars]
        if names != ["bfloat16", "bfloat16"]:
            return (
                f"A matmul in it has operands of {' and '.join(names)}. On a chip, float32 operands are rounded inside "
                "the matrix unit unless a precision is requested."
            )
    return ""


def demanded(arguments: Callable[[], list[tuple]], next: str) -> Callable:
    """Return a demand, for ``Exercise.also``, that all matmuls take bfloat16. ``next`` says what to do instead."""

    def of_bfloat16_alone(fn):
        what = other_operands(fn, *arguments()[0])
        return (what, next) if what else None

    return of_bfloat16_alone
