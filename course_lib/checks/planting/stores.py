"""Mistakes in what a kernel stores: nothing at first, nothing for the next step, too little, or rounded."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
from jax import lax

from course_lib.checks.planting.kernel import Kernel, Site
from course_lib.checks.planting.mistake import Change
from course_lib.checks.planting.rewriting import computed, fresh, replaced

_ACCUMULATED = ("add", "add_any", "max", "min", "or", "and")
_BF16 = {"exponent_bits": 8, "mantissa_bits": 7}


def initialization(kernel: Kernel) -> Iterator[Change]:
    """Yield the kernels that leave out a first value, or write it in fewer steps than they should."""
    for site in kernel.named("swap"):
        ref, value = kernel.ref(site.eqn.invars[0]), site.eqn.invars[1]
        if not ref or not kernel.is_constant(value) or not kernel.read.get(ref) or kernel.is_used(site.eqn.outvars[0]):
            continue
        yield Change(
            "initialization",
            f"the initialization of {ref} is left out",
            f"compare every element: what {ref} holds before the first step is garbage.",
            site.eqn,
            lambda site=site: kernel.with_body(replaced(kernel.body, site.eqn)),
        )
        yield from _only_at_first(kernel, site, ref)


def _only_at_first(kernel: Kernel, site: Site, ref: str) -> Iterator[Change]:
    """Yield a first value that is written only where an outer axis of the grid is at 0, too."""
    asks = next((s.eqn for s in kernel.sites if s.eqn.primitive.name == "program_id"), None)
    if not site.conditions or asks is None:
        return
    condition = site.conditions[-1]
    asked = kernel.sources(condition.invars[0]).axes
    for axis, size in enumerate(kernel.grid):
        if not asked or axis in asked or size == 1:
            continue

        def changed(axis=axis) -> dict:
            place, index = fresh(asks.outvars[0].aval), fresh(condition.invars[0].aval)
            where = asks.replace(outvars=[place], params=asks.params | {"axis": axis})
            only = computed(_where_zero, [condition.invars[0], place], [index])
            again = condition.replace(invars=[index, *condition.invars[1:]])
            return kernel.with_body(replaced(kernel.body, condition, [where, *only, again]))

        yield Change(
            "initialization at the first block only",
            f"{ref} is initialized only while program_id({axis}) is 0, and keeps its old contents later",
            f"use arrays that need several blocks along axis {axis} of the grid.",
            condition,
            changed,
        )


def _where_zero(index: jax.Array, place: jax.Array) -> jax.Array:
    return index * (place == 0).astype(index.dtype)


def overwriting(kernel: Kernel) -> Iterator[Change]:
    """Yield the kernels that replace what they should add to."""
    for site in kernel.named("swap"):
        eqn, ref = site.eqn, kernel.ref(site.eqn.invars[0])
        made = kernel.origin(eqn.invars[1])
        if not ref or made is None or made.primitive.name not in _ACCUMULATED or len(made.invars) != 2:
            continue
        old = [n for n, atom in enumerate(made.invars) if ref in kernel.sources(atom).refs]
        if len(old) != 1:
            continue
        new = made.invars[1 - old[0]]
        if getattr(new.aval, "shape", None) != made.outvars[0].aval.shape:
            continue
        yield Change(
            "overwriting",
            f"{ref} is overwritten by each step's own part, and keeps nothing of the parts before",
            f"use sizes for which several steps contribute to {ref}.",
            eqn,
            lambda made=made, new=new: kernel.with_body(replaced(kernel.body, made, instead={made.outvars[0]: new})),
        )
        yield from _unscaled(kernel, made.invars[old[0]], ref)


def _unscaled(kernel: Kernel, old, ref: str) -> Iterator[Change]:
    """Yield the old contents of an accumulator without the factor that they need."""
    product = kernel.origin(old)
    if product is None or product.primitive.name != "mul":
        return
    held = [n for n, atom in enumerate(product.invars) if _is_read(kernel, atom, ref)]
    if len(held) != 1 or product.invars[held[0]].aval.shape != product.outvars[0].aval.shape:
        return
    kept = product.invars[held[0]]
    yield Change(
        "scaling",
        f"the old contents of {ref} are not multiplied by their factor before a part is added",
        "use values that change that factor from step to step, and several steps.",
        product,
        lambda: kernel.with_body(replaced(kernel.body, product, instead={product.outvars[0]: kept})),
    )


def _is_read(kernel: Kernel, atom, ref: str) -> bool:
    made = kernel.origin(atom)
    return made is not None and made.primitive.name == "get" and kernel.ref(made.invars[0]) == ref


def forgetting(kernel: Kernel) -> Iterator[Change]:
    """Yield the kernels that do not keep in scratch what a later step needs."""
    for site in kernel.named("swap"):
        eqn, ref = site.eqn, kernel.ref(site.eqn.invars[0])
        if ref not in kernel.scratch or not kernel.read.get(ref) or kernel.is_used(eqn.outvars[0]):
            continue
        if kernel.is_constant(eqn.invars[1]):
            continue
        yield Change(
            "forgetting",
            f"what {ref} should hold for later is not stored",
            "use sizes that need more than one step.",
            eqn,
            lambda eqn=eqn: kernel.with_body(replaced(kernel.body, eqn)),
        )


def rounding(kernel: Kernel) -> Iterator[Change]:
    """Yield the kernels that round a float32 accumulator to bfloat16 in every step."""
    for site in kernel.named("swap"):
        eqn, ref = site.eqn, kernel.ref(site.eqn.invars[0])
        value = eqn.invars[1]
        if not ref or ref not in kernel.sources(value).refs or value.aval.dtype != jnp.float32:
            continue

        def changed(eqn=eqn, value=value) -> dict:
            rounded = fresh(value.aval)
            first = computed(lambda x: lax.reduce_precision(x, **_BF16), [value], [rounded])
            store = eqn.replace(invars=[eqn.invars[0], rounded, *eqn.invars[2:]])
            return kernel.with_body(replaced(kernel.body, eqn, [*first, store]))

        yield Change(
            "rounding",
            f"{ref} is rounded to bfloat16 after every step",
            "use random values and a long sum, and compare to the accuracy of float32.",
            eqn,
            changed,
        )


def early_write(kernel: Kernel) -> Iterator[Change]:
    """Yield the kernels that write their result one step too early, before the last part has been added."""
    for condition in kernel.named("cond"):
        stored = [s.eqn for s in kernel.sites if condition.eqn in s.conditions and s.eqn.primitive.name == "swap"]
        compared = kernel.origin(condition.eqn.invars[0])
        if compared is None or compared.primitive.name != "eq" or not stored:
            continue
        if all(kernel.is_constant(eqn.invars[1]) for eqn in stored):
            continue  # that is an initialization
        counted = [n for n, atom in enumerate(compared.invars) if kernel.sources(atom).axes]
        if len(counted) != 1 or getattr(compared.invars[1 - counted[0]], "val", None) == 0:
            continue
        ref = kernel.ref(stored[0].invars[0])

        def changed(compared=compared, place=counted[0]) -> dict:
            atoms = list(compared.invars)
            later = fresh(atoms[place].aval)
            add = computed(lambda x: x + 1, [atoms[place]], [later])
            atoms[place] = later
            return kernel.with_body(replaced(kernel.body, compared, [*add, compared.replace(invars=atoms)]))

        yield Change(
            "early write",
            f"{ref} is written one step too early",
            "use sizes for which the last step contributes something.",
            condition.eqn,
            changed,
        )
