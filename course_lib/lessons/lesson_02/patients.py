"""One kernel in three settings that are slow for different reasons, and four cures."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import compiler, vocabulary


def shares(x, block, rows, cheap=False):
    """Divide each element by the sum of its row, ``block`` rows per grid step and ``rows`` per loop iteration."""

    def kernel(x_ref, o_ref):
        def turn(i, carry):
            here = pl.ds(pl.multiple_of(i * rows, rows), rows)
            v = x_ref[here, :].astype(jnp.float32)
            total = jnp.sum(v, axis=1, keepdims=True)
            share = v * pltpu.reciprocal(total, approx=True) if cheap else v / total
            o_ref[here, :] = share.astype(o_ref.dtype)
            return carry

        jax.lax.fori_loop(0, block // rows, turn, 0)

    spec = pl.BlockSpec((block, x.shape[1]), lambda i: (i, 0))
    grid = (x.shape[0] // block,)
    return pl.pallas_call(kernel, out_shape=x, grid=grid, in_specs=[spec], out_specs=spec)(x)


# name -> (shape, rows per block, rows per iteration)
PATIENTS = {"A": ((8192, 512), 512, 128), "B": ((2048, 128), 16, 16), "C": ((8192, 128), 1024, 16)}
CURES = ("larger blocks", "fewer bytes", "more rows per iteration", "a cheaper operation")


def setting(patient: str, cure: str = "") -> tuple[Callable, jax.ShapeDtypeStruct]:
    """Return a patient's kernel, with one change if a cure is named, and the type of its argument."""
    shape, block, rows = PATIENTS[patient]
    if cure == "larger blocks":
        block *= 8 if patient == "B" else 2
    if cure == "more rows per iteration":
        rows = min(8 * rows, block)
    dtype = jnp.bfloat16 if cure == "fewer bytes" else jnp.float32
    fn = functools.partial(shares, block=block, rows=rows, cheap=cure == "a cheaper operation")
    return fn, jax.ShapeDtypeStruct(shape, dtype)


def report(patient: str, cure: str = "") -> compiler.Report:
    fn, x = setting(patient, cure)
    return compiler.compile_tpu(fn, x)


def binds(patient: str) -> str:
    """Return what a patient waits for, according to its report."""
    said = report(patient)
    if said.bound == vocabulary.HBM:
        return "the bandwidth of HBM"
    waits = {"DMA wait": "the latency of copies", "XLU": "the latency of the XLU", "issue": "instructions"}
    return waits[max(said.time_split, key=said.time_split.get)]


def best_cure(patient: str) -> str:
    """Return the cure that leads to the shortest time."""
    return min(CURES, key=lambda cure: report(patient, cure).seconds)
