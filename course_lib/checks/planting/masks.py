"""Mistakes at an edge: a mask off by one, a mask that is not applied, a place counted from the wrong end."""

from __future__ import annotations

from collections.abc import Iterator

import jax.numpy as jnp
from jax import lax

from course_lib.checks.planting.kernel import Kernel
from course_lib.checks.planting.mistake import Change
from course_lib.checks.planting.rewriting import replaced

_OTHER = {"lt": lax.le_p, "le": lax.lt_p, "gt": lax.ge_p, "ge": lax.gt_p}
_WIDER = ("lt", "gt")  # their other one lets one more element through
_EDGES = "use a size that is no multiple of the block, and a boundary inside a block."


def off_by_one(kernel: Kernel) -> Iterator[Change]:
    """Yield the kernels whose mask lets one element too many through, or one too few."""
    for eqn, _ in kernel.named(*_OTHER):
        if not _is_of_places(kernel, eqn):
            continue
        how = "many" if eqn.primitive.name in _WIDER else "few"
        yield Change(
            "mask off by one",
            f"a mask that compares positions lets one position too {how} through",
            _EDGES,
            eqn,
            lambda eqn=eqn: kernel.with_body(
                replaced(kernel.body, eqn, [eqn.replace(primitive=_OTHER[eqn.primitive.name])])
            ),
        )


def not_applied(kernel: Kernel) -> Iterator[Change]:
    """Yield the kernels that take the masked values everywhere."""
    for eqn, _ in kernel.named("select_n"):
        which, *cases = eqn.invars
        made = kernel.origin(which)
        if len(cases) != 2 or "iota" not in kernel.sources(which).operations:
            continue
        varying = [n for n, case in enumerate(cases) if not kernel.is_constant(case)]
        if len(varying) != 1 or made is None:
            continue
        yield Change(
            "mask left out",
            "a mask is computed, but is not applied",
            _EDGES,
            eqn,
            lambda eqn=eqn, case=cases[varying[0]]: kernel.with_body(
                replaced(kernel.body, eqn, instead={eqn.outvars[0]: case})
            ),
        )


def counted_from_the_block(kernel: Kernel) -> Iterator[Change]:
    """Yield the kernels that leave out where their block begins, so that a position is one in the block."""
    for eqn, _ in kernel.named("add"):
        for place, offset in (eqn.invars, eqn.invars[::-1]):
            inside, begins = kernel.sources(place), kernel.sources(offset)
            if "iota" not in inside.operations or inside.axes or not begins.axes or "iota" in begins.operations:
                continue
            if getattr(place.aval, "shape", None) != eqn.outvars[0].aval.shape:
                continue
            yield Change(
                "position in the block",
                "positions are counted from the beginning of the block, not of the array",
                "use sizes that need several blocks, and a boundary that is not in the first.",
                eqn,
                lambda eqn=eqn, place=place: kernel.with_body(
                    replaced(kernel.body, eqn, instead={eqn.outvars[0]: place})
                ),
            )


def ties(kernel: Kernel) -> Iterator[Change]:
    """Yield the kernels that decide otherwise where two values are equal."""
    for eqn, _ in kernel.named(*_OTHER):
        if not eqn.outvars[0].aval.shape or not jnp.issubdtype(eqn.invars[0].aval.dtype, jnp.floating):
            continue
        yield Change(
            "ties",
            "a comparison decides otherwise for two equal values",
            "use values that are equal to each other, or to the limit that they are compared with.",
            eqn,
            lambda eqn=eqn: kernel.with_body(
                replaced(kernel.body, eqn, [eqn.replace(primitive=_OTHER[eqn.primitive.name])])
            ),
        )


def _is_of_places(kernel: Kernel, eqn) -> bool:
    """Whether an array of integers that count positions is compared with something."""
    if not eqn.outvars[0].aval.shape or not jnp.issubdtype(eqn.invars[0].aval.dtype, jnp.integer):
        return False
    return "iota" in kernel.sources(*eqn.invars).operations
