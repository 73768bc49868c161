"""Failures that only the simulator sees, each provoked for real, and what a learner reads."""

import jax
import jax.numpy as jnp
import provoke
import pytest
from fairness.pipelines import FACTORS, one_inside_the_other
from fairness.products import turned
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from provoke import Shape, V, call, copy, simulated

from course_lib import errors, grid
from course_lib.judges.running import watchdog


def kernel_reads_past_the_end(x_ref, o_ref):
    start = x_ref[0, 0].astype(jnp.int32)  # 1, known only when it runs
    o_ref[...] = x_ref[pl.ds(start, 256), :]


def kernel_writes_past_the_end(x_ref, o_ref):
    start = x_ref[0, 0].astype(jnp.int32)  # 1, known only when it runs
    o_ref[pl.ds(start, 256), :] = x_ref[...]


def column_sum(x):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 256), x.dtype),
        grid=(2, 2),
        in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((8, 128), lambda i, j: (0, j)),
    )(x)


def parallel_race(x):
    return pl.pallas_call(
        copy,
        out_shape=jax.ShapeDtypeStruct((8, 512), x.dtype),
        grid=(32,),
        in_specs=[pl.BlockSpec((8, 512), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 512), lambda i: (0, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x)


def kernel_waits_for_ever(x_ref, o_ref, sem):
    pl.semaphore_wait(sem, 1)
    o_ref[...] = x_ref[...]


def ended_by_the_watchdog():
    """What a simulation in which nothing happens any more raises, once the watchdog has ended it."""
    with pytest.MonkeyPatch.context() as patched, watchdog.watched():
        patched.setattr(watchdog, "IDLE_S", 1.0)
        return simulated(call(kernel_waits_for_ever, scratch_shapes=[pltpu.SemaphoreType.REGULAR]))()


def interpreted_plainly():
    """What the plain interpreter makes of a pipeline inside a pipeline."""
    args = jnp.ones((32, 128)), FACTORS
    try:
        grid.run(grid.trace(one_inside_the_other, *args), True, *args)
    except Exception as error:
        return errors.explain(error)


FAILURES = {
    "block-outside": (
        simulated(call(copy, block=(1024,), grid=(4,), index_map=lambda i: (i + 1,)), V),
        "At step (3,) the index map of x_ref asked for block (4,), which lies outside the array.",
    ),
    "read-outside": (
        simulated(call(kernel_reads_past_the_end)),
        "The kernel read outside a buffer: [1:257, 0:512] of a buffer of shape (256, 512).",
    ),
    "write-outside": (
        simulated(call(kernel_writes_past_the_end)),
        "The kernel wrote outside a buffer: to [1:257, 0:512] of a buffer of shape (256, 512).",
    ),
    "revisit": (
        simulated(column_sum, jax.ShapeDtypeStruct((16, 256), jnp.float32)),
        "The block [0:8, 0:128] of output 0 left VMEM after step (0, 0), and the grid came back to it at step (1, 0)",
    ),
    "race": (
        simulated(parallel_race, num_cores_or_threads=2, detect_races=True),
        "Two cores accessed the same memory",
    ),
    "stuck": (ended_by_the_watchdog, "it waits for a signal that never comes"),
    "interpreter-bug": (interpreted_plainly, "JAX's plain interpreter cannot run this kernel"),
    "cpu-lacks-it": (
        simulated(lambda x: turned(x, x[:128]), Shape((256, 128), jnp.bfloat16), num_cores_or_threads=2),
        "On the CPU, XLA does not support this matmul for two simulated cores: BF16 x BF16 = F32.",
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_is_explained(failure):
    provoke.assert_explained(failure, *FAILURES[failure])
