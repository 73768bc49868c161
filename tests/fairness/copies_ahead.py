"""Double buffering by hand: the next copy is on its way while the kernel works on this one."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from fairness import Right
from fairness.inputs import counted

IN_HBM = pl.BlockSpec(memory_space=pl.ANY)
CHUNK, CHUNKS = 16, 4
X = counted((CHUNK * CHUNKS, 128))
TWO_BUFFERS = pltpu.VMEM((2, CHUNK, 128), jnp.float32)
TWO_SEMAPHORES = pltpu.SemaphoreType.DMA((2,))
BLOCK = pl.BlockSpec((CHUNK, 128), lambda i: (i, 0))


def doubled(x):
    return 2 * x


def part(ref, number):
    return ref.at[pl.ds(CHUNK * number, CHUNK)]


def over_a_grid(kernel, x, in_spec, out_spec, scratch):
    return pl.pallas_call(
        kernel, out_shape=x, grid=(CHUNKS,), in_specs=[in_spec], out_specs=out_spec, scratch_shapes=scratch
    )(x)


def double_buffered(x):
    """A loop that fetches the next chunk while it works on this one, and sends the one before home meanwhile."""

    def kernel(x_hbm, o_hbm, x_buffers, o_buffers, x_sems, o_sems):
        def fetch(n):
            return pltpu.make_async_copy(part(x_hbm, n), x_buffers.at[n % 2], x_sems.at[n % 2])

        def send(n):
            return pltpu.make_async_copy(o_buffers.at[n % 2], part(o_hbm, n), o_sems.at[n % 2])

        fetch(0).start()

        @pl.loop(0, CHUNKS)
        def turn(n):
            @pl.when(n + 1 < CHUNKS)
            def ahead():
                fetch(n + 1).start()

            fetch(n).wait()

            @pl.when(n >= 2)
            def free_the_buffer():
                send(n - 2).wait()

            o_buffers[n % 2] = 2 * x_buffers[n % 2]
            send(n).start()

        send(CHUNKS - 2).wait()
        send(CHUNKS - 1).wait()

    scratch = [TWO_BUFFERS, TWO_BUFFERS, TWO_SEMAPHORES, TWO_SEMAPHORES]
    return pl.pallas_call(kernel, out_shape=x, in_specs=[IN_HBM], out_specs=IN_HBM, scratch_shapes=scratch)(x)


def ahead_over_grid_steps(x):
    """Each grid step starts the copy that the next one waits for: the buffers live on between steps."""

    def kernel(x_hbm, o_ref, buffers, sems):
        step = pl.program_id(0)

        def fetch(n):
            return pltpu.make_async_copy(part(x_hbm, n), buffers.at[n % 2], sems.at[n % 2])

        @pl.when(step == 0)
        def first():
            fetch(0).start()

        @pl.when(step + 1 < pl.num_programs(0))
        def ahead():
            fetch(step + 1).start()

        fetch(step).wait()
        o_ref[...] = 2 * buffers[step % 2]

    return over_a_grid(kernel, x, IN_HBM, BLOCK, [TWO_BUFFERS, TWO_SEMAPHORES])


def slot_in_smem(x):
    """Which buffer is whose is not counted from the step: one step leaves the number for the next."""

    def kernel(x_hbm, o_ref, buffers, slot_ref, sems):
        step = pl.program_id(0)

        def fetch(n, slot):
            return pltpu.make_async_copy(part(x_hbm, n), buffers.at[slot], sems.at[slot])

        @pl.when(step == 0)
        def first():
            slot_ref[0] = 0
            fetch(0, 0).start()

        slot = slot_ref[0]

        @pl.when(step + 1 < pl.num_programs(0))
        def ahead():
            fetch(step + 1, 1 - slot).start()

        fetch(step, slot).wait()
        o_ref[...] = 2 * buffers[slot]
        slot_ref[0] = 1 - slot

    return over_a_grid(kernel, x, IN_HBM, BLOCK, [TWO_BUFFERS, pltpu.SMEM((1,), jnp.int32), TWO_SEMAPHORES])


def slot_in_the_carry(x):
    """A fori_loop carries the slot."""

    def kernel(x_hbm, o_ref, buffers, sems):
        def fetch(n, slot):
            return pltpu.make_async_copy(part(x_hbm, n), buffers.at[slot], sems.at[slot])

        def turn(n, slot):
            @pl.when(n + 1 < CHUNKS)
            def ahead():
                fetch(n + 1, 1 - slot).start()

            fetch(n, slot).wait()
            part(o_ref, n)[...] = 2 * buffers[slot]
            return 1 - slot

        fetch(0, 0).start()
        jax.lax.fori_loop(0, CHUNKS, turn, jnp.int32(0))

    return pl.pallas_call(
        kernel,
        out_shape=x,
        in_specs=[IN_HBM],
        out_specs=pl.BlockSpec(memory_space=pltpu.VMEM),
        scratch_shapes=[TWO_BUFFERS, TWO_SEMAPHORES],
    )(x)


def sent_home_later(x):
    """Each step sends its result home by a copy that is waited for two steps later, when the buffer is needed."""

    def kernel(x_ref, o_hbm, buffers, sems):
        step = pl.program_id(0)

        def send(n):
            return pltpu.make_async_copy(buffers.at[n % 2], part(o_hbm, n), sems.at[n % 2])

        @pl.when(step >= 2)
        def free_the_buffer():
            send(step - 2).wait()

        buffers[step % 2] = 2 * x_ref[...]
        send(step).start()

        @pl.when(step == pl.num_programs(0) - 1)
        def finish():
            send(step - 1).wait()
            send(step).wait()

    return over_a_grid(kernel, x, BLOCK, IN_HBM, [TWO_BUFFERS, TWO_SEMAPHORES])


RIGHT = (
    Right("double buffering by hand, in and out", double_buffered, doubled, (X,)),
    Right("copies started a grid step ahead", ahead_over_grid_steps, doubled, (X,)),
    Right("the slot kept in SMEM", slot_in_smem, doubled, (X,)),
    Right("the slot carried by a loop", slot_in_the_carry, doubled, (X,)),
    Right("results sent home two steps later", sent_home_later, doubled, (X,)),
)
