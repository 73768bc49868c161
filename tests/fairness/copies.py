"""Copies made by the kernel: many on their way together, semaphores shared, waits that say less than the starts."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from fairness import Right
from fairness.inputs import counted

IN_HBM = pl.BlockSpec(memory_space=pl.ANY)
CHUNK, CHUNKS = 16, 4
X = counted((CHUNK * CHUNKS, 128))


def doubled(x):
    return 2 * x


def part(ref, number):
    return ref.at[pl.ds(CHUNK * number, CHUNK)]


def in_one_step(kernel, x, *semaphores, out_spec=None):
    """A kernel that gets x in HBM, a buffer of its size in VMEM and semaphores."""
    return pl.pallas_call(
        kernel,
        out_shape=x,
        in_specs=[IN_HBM],
        out_specs=out_spec or pl.BlockSpec(x.shape),
        scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), *semaphores],
    )(x)


def all_at_once(x):
    """Four copies on their way together, each with a semaphore of its own, waited for from the last to the first."""

    def kernel(x_hbm, o_ref, buffer, sems):
        copies = [pltpu.make_async_copy(part(x_hbm, n), part(buffer, n), sems.at[n]) for n in range(CHUNKS)]
        for copy in copies:
            copy.start()
        for copy in reversed(copies):
            copy.wait()
        o_ref[...] = 2 * buffer[...]

    return in_one_step(kernel, x, pltpu.SemaphoreType.DMA((CHUNKS,)))


def one_semaphore(x):
    """Four copies of one size share a semaphore; nothing is read before all four have been waited for."""

    def kernel(x_hbm, o_ref, buffer, sem):
        copies = [pltpu.make_async_copy(part(x_hbm, n), part(buffer, n), sem) for n in range(CHUNKS)]
        for copy in copies:
            copy.start()
        for copy in copies:
            copy.wait()
        o_ref[...] = 2 * buffer[...]

    return in_one_step(kernel, x, pltpu.SemaphoreType.DMA)


def one_wait(x):
    """Four copies, and one wait for as many bytes as they have together."""

    def kernel(x_hbm, o_ref, buffer, sem):
        for n in range(CHUNKS):
            pltpu.make_async_copy(part(x_hbm, n), part(buffer, n), sem).start()
        pltpu.make_async_copy(x_hbm, buffer, sem).wait()
        o_ref[...] = 2 * buffer[...]

    return in_one_step(kernel, x, pltpu.SemaphoreType.DMA)


def any_source_will_do(x):
    """A wait needs a semaphore and a size: the copy it is called on names the first chunk, whichever it waits for."""

    def kernel(x_hbm, o_ref, buffer, sems):
        for n in range(CHUNKS):
            pltpu.make_async_copy(part(x_hbm, n), part(buffer, n), sems.at[n]).start()

        @pl.loop(0, CHUNKS)
        def wait(n):
            pltpu.make_async_copy(part(x_hbm, 0), part(buffer, 0), sems.at[n]).wait()

        o_ref[...] = 2 * buffer[...]

    return in_one_step(kernel, x, pltpu.SemaphoreType.DMA((CHUNKS,)))


def straight_through_hbm(x):
    """Moves rows from one place in HBM to another; the buffer in VMEM is not used."""

    def kernel(x_hbm, o_hbm, buffer, sems):
        def copy(n):
            return pltpu.make_async_copy(part(x_hbm, n), part(o_hbm, CHUNKS - 1 - n), sems.at[n])

        for n in range(CHUNKS):
            copy(n).start()
        for n in range(CHUNKS):
            copy(n).wait()

    return in_one_step(kernel, x, pltpu.SemaphoreType.DMA((CHUNKS,)), out_spec=IN_HBM)


def chunks_reversed(x):
    return x.reshape(CHUNKS, CHUNK, 128)[::-1].reshape(x.shape)


def while_it_computes(x):
    """One half arrives through a BlockSpec, the other by a copy that runs during the work on the first."""

    def kernel(top_ref, x_hbm, o_ref, buffer, sem):
        copy = pltpu.make_async_copy(x_hbm.at[pl.ds(32, 32)], buffer, sem)
        copy.start()
        o_ref[:32] = 2 * top_ref[...]
        copy.wait()
        o_ref[32:] = 2 * buffer[...]

    return pl.pallas_call(
        kernel,
        out_shape=x,
        grid=(1,),
        in_specs=[pl.BlockSpec((32, 128), lambda i: (0, 0), pipeline_mode=pl.Buffered(1)), IN_HBM],
        out_specs=pl.BlockSpec(x.shape, lambda i: (0, 0), pipeline_mode=pl.Buffered(1)),
        scratch_shapes=[pltpu.VMEM((32, 128), jnp.float32), pltpu.SemaphoreType.DMA],
    )(x, x)


def parallel_steps(x):
    """Each step moves a chunk of its own, in and out; no two steps share anything."""

    def kernel(x_hbm, o_hbm, buffer):
        i = pl.program_id(0)
        pltpu.sync_copy(part(x_hbm, i), buffer)
        buffer[...] = 2 * buffer[...]
        pltpu.sync_copy(buffer, part(o_hbm, i))

    return pl.pallas_call(
        kernel,
        out_shape=x,
        grid=(CHUNKS,),
        in_specs=[IN_HBM],
        out_specs=IN_HBM,
        scratch_shapes=[pltpu.VMEM((CHUNK, 128), x.dtype)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x)


def one_of_two(which, x):
    """A number in SMEM says which half is copied."""

    def kernel(which_ref, x_hbm, o_ref):
        @pl.when(which_ref[0] > 0)
        def top():
            pltpu.sync_copy(x_hbm.at[pl.ds(0, 32)], o_ref)

        @pl.when(which_ref[0] <= 0)
        def bottom():
            pltpu.sync_copy(x_hbm.at[pl.ds(32, 32)], o_ref)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((32, 128), x.dtype),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), IN_HBM],
    )(which, x)


def half_that_is_asked(which, x):
    return jnp.where(which[0] > 0, x[:32], x[32:])


def a_semaphore_of_its_own(x):
    """Signals twice and waits for two: nothing hangs."""

    def kernel(x_ref, o_ref, sem):
        pl.semaphore_signal(sem, 2)
        o_ref[...] = 2 * x_ref[...]
        pl.semaphore_wait(sem, 2)

    return pl.pallas_call(kernel, out_shape=x, scratch_shapes=[pltpu.SemaphoreType.REGULAR])(x)


RIGHT = (
    Right("four copies at once, waited for backwards", all_at_once, doubled, (X,)),
    Right("four copies that share a semaphore", one_semaphore, doubled, (X,)),
    Right("one wait for four copies", one_wait, doubled, (X,)),
    Right("waits that name another source", any_source_will_do, doubled, (X,)),
    Right("from HBM to HBM", straight_through_hbm, chunks_reversed, (X,)),
    Right("half by BlockSpec, half by copy, one buffer each", while_it_computes, doubled, (X,)),
    Right("copies at parallel steps", parallel_steps, doubled, (X,)),
    Right("a number says which copy is made", one_of_two, half_that_is_asked, (jnp.array([1], jnp.int32), X)),
    Right("a semaphore signalled and waited for", a_semaphore_of_its_own, doubled, (X,)),
)
