"""Slices of Refs in VMEM, and what the compiler says of them: cycles of a further one, or that it is refused."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import compiler, grid

F32, BF16, I8 = jnp.float32, jnp.bfloat16, jnp.int8
FREE, DEARER, REFUSED = "free", "dearer", "refused"
# name -> (the slice, the Ref's shape, the slice's, dtype)
SLICES: dict[str, tuple[Callable, tuple, tuple, type]] = {
    "A": (lambda x, i: x[5:13], (64, 128), (8, 128), F32),
    "B": (lambda x, i: x[:, 100:228], (8, 512), (8, 128), F32),
    "C": (lambda x, i: x[pl.ds(i, 16)], (64, 128), (16, 128), BF16),
    "D": (lambda x, i: x[:, pl.ds(128 * i, 128)], (8, 512), (8, 128), F32),
    "E": (lambda x, i: x[pl.ds(4 * i, 8)], (64, 256), (8, 256), F32),
    "F": (lambda x, i: x[8:40], (64, 128), (32, 128), I8),
}


def _kernel(name: str, count: int) -> Callable:
    """``count`` such slices of as many arrays, each stored; one of the results leaves, which one only a run tells."""
    take, shape, out, dtype = SLICES[name]

    def kernel(i_ref, o_hbm, x, o, sem):
        for number in range(count):
            o[number] = take(x.at[number], i_ref[0])
        copy = pltpu.make_async_copy(o.at[i_ref[0]], o_hbm, sem)
        copy.start()
        copy.wait()

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(out, dtype),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        scratch_shapes=[*(pltpu.VMEM((count, *s), dtype) for s in (shape, out)), pltpu.SemaphoreType.DMA],
    )


def verdict(name: str) -> str:
    """ "free": a cycle for each register; "dearer"; or "refused"."""
    place = jax.ShapeDtypeStruct((1,), jnp.int32)
    few, many = (compiler.compile_tpu(_kernel(name, count), place) for count in (16, 32))
    if not few.ok:
        return REFUSED
    registers = grid.registers(SLICES[name][2], SLICES[name][3])
    return FREE if (many.cycles - few.cycles) / 16 <= 1.05 * registers else DEARER
