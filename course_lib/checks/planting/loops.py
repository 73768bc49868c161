"""Mistakes in where a kernel is: a loop that ends early, the wrong axis of the grid."""

from __future__ import annotations

from collections.abc import Iterator

from course_lib.checks.planting.kernel import Kernel
from course_lib.checks.planting.mistake import Change
from course_lib.checks.planting.rewriting import computed, fresh, replaced
from course_lib.grid.jaxprs import scan_parts

_LAST = "use values for which the last iteration matters, and compare every element."


def ending_early(kernel: Kernel) -> Iterator[Change]:
    """Yield the kernels with a loop that leaves out its last iteration."""
    for eqn, _ in kernel.named("scan", "while"):
        if eqn.primitive.name == "scan":
            _, carry, sliced = scan_parts(eqn, list(eqn.invars))
            stacked = len(eqn.outvars) > len(carry)
            if sliced or stacked or eqn.params["length"] < 2 or eqn.params["reverse"]:
                continue
            other = eqn.replace(params=eqn.params | {"length": eqn.params["length"] - 1, "unroll": 1})
            made = [other]
        elif (limit := _limit(eqn)) is not None:
            made = [eqn.replace(params=eqn.params | {"cond_jaxpr": limit})]
        else:
            continue
        yield Change(
            "loop",
            "a loop ends one iteration too early",
            _LAST,
            eqn,
            lambda eqn=eqn, made=made: kernel.with_body(replaced(kernel.body, eqn, made)),
        )


def _limit(eqn):
    """Return the condition of a while loop that counts up to a limit, with a limit that is 1 less; None if it is not.

    That is how JAX traces a fori_loop whose bounds are known only at run time.
    """
    condition = eqn.params["cond_jaxpr"]
    if len(condition.eqns) != 1 or condition.eqns[0].primitive.name != "lt":
        return None
    (compared,) = condition.eqns
    counter = compared.invars[0]
    later = fresh(counter.aval)
    add = computed(lambda i: i + 1, [counter], [later])
    return replaced(condition, compared, [*add, compared.replace(invars=[later, *compared.invars[1:]])])


def wrong_axis(kernel: Kernel) -> Iterator[Change]:
    """Yield the kernels that ask for their place along another axis of the grid."""
    long = [axis for axis, size in enumerate(kernel.grid) if size != 1]
    for eqn, _ in kernel.named("program_id"):
        for axis in long:
            if axis == eqn.params["axis"]:
                continue
            other = eqn.replace(params=eqn.params | {"axis": axis})
            yield Change(
                "axis",
                f"program_id({axis}) is asked for in the place of program_id({eqn.params['axis']})",
                "use a grid whose axes have different sizes, and several steps along each.",
                eqn,
                lambda eqn=eqn, other=other: kernel.with_body(replaced(kernel.body, eqn, [other])),
            )
