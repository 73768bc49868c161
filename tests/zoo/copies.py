"""Copies by hand: waited for never, twice or elsewhere, and buffers used while a copy is under way."""

from functools import partial

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from zoo.arrays import counted
from zoo.bug import Bug

ROWS = 8
HBM = pl.BlockSpec(memory_space=pl.ANY)
VMEM = pl.BlockSpec(memory_space=pltpu.VMEM)


def rows(i):
    return pl.ds(pl.multiple_of(ROWS * i, ROWS), ROWS)


def one_copy(x, waits=1, semaphore=0):
    """2 x through one copy; it is started on semaphore 0 and waited for ``waits`` times on ``semaphore``."""

    def copy_kernel(x_hbm, o_ref, buf_ref, copy_sem):
        pltpu.make_async_copy(x_hbm, buf_ref, copy_sem.at[0]).start()
        for _ in range(waits):
            pltpu.make_async_copy(x_hbm, buf_ref, copy_sem.at[semaphore]).wait()
        o_ref[...] = 2 * buf_ref[...]

    return pl.pallas_call(
        copy_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[HBM],
        out_specs=VMEM,
        scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA((2,))],
    )(x)


def double_buffered(x, filled=lambda slot: 1 - slot, last=3):
    """2 x, eight rows a turn, while the next eight are on their way into the other half of the buffer.

    ``filled`` is the half that the next copy fills while ``slot`` is worked on; at turn ``last`` no copy is started.
    """

    def double_kernel(x_hbm, o_ref, buf_ref, copy_sem):
        def copy(i, half, semaphore):
            return pltpu.make_async_copy(x_hbm.at[rows(i)], buf_ref.at[half], copy_sem.at[semaphore])

        copy(0, 0, 0).start()

        def turn(i, _):
            slot = i % 2

            @pl.when(i < last)
            def _next():
                copy(i + 1, filled(slot), 1 - slot).start()

            copy(i, slot, slot).wait()
            o_ref[rows(i)] = 2 * buf_ref[slot]

        jax.lax.fori_loop(0, 4, turn, None)

    return pl.pallas_call(
        double_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[HBM],
        out_specs=VMEM,
        scratch_shapes=[pltpu.VMEM((2, ROWS, 128), x.dtype), pltpu.SemaphoreType.DMA((2,))],
    )(x)


def output_never_waited_for(x):
    """2 x, computed into a buffer that is sent to HBM; the kernel ends while it is on its way."""

    def send_kernel(x_ref, o_hbm, buf_ref, copy_sem):
        buf_ref[...] = 2 * x_ref[...]
        pltpu.make_async_copy(buf_ref, o_hbm, copy_sem).start()

    return pl.pallas_call(
        send_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[VMEM],
        out_specs=HBM,
        scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA(())],
    )(x)


def overwritten_on_its_way_out(x):
    """2 x, eight rows a turn, sent to HBM from one buffer that the next turn fills again before it waits."""

    def send_kernel(x_ref, o_hbm, buf_ref, copy_sem):
        def copy(i):
            return pltpu.make_async_copy(buf_ref, o_hbm.at[rows(i)], copy_sem)

        def turn(i, _):
            buf_ref[...] = 2 * x_ref[rows(i)]

            @pl.when(i > 0)
            def _before():
                copy(i - 1).wait()

            copy(i).start()

        jax.lax.fori_loop(0, 4, turn, None)
        copy(3).wait()

    return pl.pallas_call(
        send_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[VMEM],
        out_specs=HBM,
        scratch_shapes=[pltpu.VMEM((ROWS, 128), x.dtype), pltpu.SemaphoreType.DMA(())],
    )(x)


def twice(x):
    return 2 * x


FOUR_BLOCKS = (counted(4 * ROWS, 128),)

BUGS = tuple(
    Bug(kind="copies", name=name, fn=fn, reference=twice, args=FOUR_BLOCKS, caught_by=caught_by, says=says)
    for name, fn, caught_by, says in (
        (
            "never waited for",
            partial(one_copy, waits=0),
            "simulator",
            r"(?s)buf_ref.*before it has waited for the copy of x_hbm into it",
        ),
        (
            "waited for twice",
            partial(one_copy, waits=2),
            "simulator",
            r"waits twice on copy_sem\[0\] for one copy.*would never end",
        ),
        (
            "wait on another semaphore",
            partial(one_copy, semaphore=1),
            "simulator",
            r"(?s)waits on copy_sem\[1\].*signals copy_sem\[0\].*would never end",
        ),
        (
            "next copy into the half in use",
            partial(double_buffered, filled=lambda slot: slot),
            "numbers",
            r"copy into buf_ref\[0\] while another copy into it is under way",
        ),
        (
            "fetches one block past the end",
            partial(double_buffered, last=4),
            "simulator",
            r"(?s)x_hbm\[32:40\], but x_hbm has 32.*last iteration",
        ),
        (
            "output copy never waited for",
            output_never_waited_for,
            "simulator",
            r"copy of buf_ref into o_hbm is never waited for",
        ),
        (
            "buffer overwritten on its way out",
            overwritten_on_its_way_out,
            "simulator",
            r"(?s)writes to buf_ref.*while a copy of it into o_hbm is under way.*wait for the copy",
        ),
    )
)
