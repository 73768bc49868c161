"""Slices of refs in VMEM, and the compiler's verdict on them: free, expensive, or refused."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from course_lib import compiler

F32, BF16, I8 = jnp.float32, jnp.bfloat16, jnp.int8
FREE, EXPENSIVE, REFUSED = "free", "expensive", "refused"
# name -> (the slice, the ref's shape, the slice's shape, dtype)
SLICES: dict[str, tuple[Callable, tuple, tuple, type]] = {
    "A": (lambda x, i: x[5:13], (64, 128), (8, 128), F32),
    "B": (lambda x, i: x[:, 100:228], (8, 512), (8, 128), F32),
    "C": (lambda x, i: x[pl.ds(i, 16)], (64, 128), (16, 128), BF16),
    "D": (lambda x, i: x[:, pl.ds(128 * i, 128)], (8, 512), (8, 128), F32),
    "E": (lambda x, i: x[pl.ds(4 * i, 8)], (64, 256), (8, 256), F32),
    "F": (lambda x, i: x[3:35], (64, 128), (32, 128), I8),
}


def verdict(name: str) -> str:
    """Return "free" if each register takes a cycle, "expensive" if it takes more, or "refused"."""
    take, whole, part, dtype = SLICES[name]
    price = compiler.slice_cost(take, *(jax.ShapeDtypeStruct(shape, dtype) for shape in (whole, part)))
    if price.why:
        return REFUSED
    return FREE if price.of_a_register <= 1.05 else EXPENSIVE
