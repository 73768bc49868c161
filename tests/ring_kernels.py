"""Kernels that copy round a ring of devices, and mistakes that can be planted in each: for test_judges_chips.

Every function is one device's view, called inside a shard_map over the axis "d" of n devices.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

HBM, VMEM = (pl.BlockSpec(memory_space=space) for space in (pl.ANY, pltpu.VMEM))


def neighbours(n):
    """Return the number of this device, and those of the devices to its right and left."""
    me = lax.axis_index("d")
    return me, lax.rem(me + 1, n), lax.rem(me + n - 1, n)


def to(device):
    return {"device_id": (device,), "device_id_type": pl.DeviceIdType.MESH}


def enter(n, mistake=""):
    """Wait until both neighbours have entered the kernel."""
    _, right, left = neighbours(n)
    barrier = pltpu.get_barrier_semaphore()
    for neighbour in (right, right) if mistake == "signals the same neighbour twice" else (left, right):
        pl.semaphore_signal(barrier, 1, **to(neighbour))
    pl.semaphore_wait(barrier, 1 if mistake == "waits for one of two" else 2)


def call(kernel, out, specs, out_spec, scratch, mistake="", own_barrier=True):
    skipped = mistake == "the compiler's barrier is skipped"
    params = pltpu.CompilerParams(
        collective_id=0 if own_barrier and not skipped else None, skip_device_barrier=skipped, has_side_effects=True
    )
    return pl.pallas_call(
        kernel, out_shape=out, in_specs=specs, out_specs=out_spec, scratch_shapes=scratch, compiler_params=params
    )


def permuted(x, n, mistake=""):
    """Return the x of the device to the left."""

    def permute_kernel(x_ref, o_ref, send_sem, recv_sem):
        _, right, _ = neighbours(n)
        enter(n, mistake)
        copy = pltpu.make_async_remote_copy(x_ref, o_ref, send_sem, recv_sem, **to(right))
        copy.start()
        copy.wait_send()
        if mistake != "does not wait for what arrives":
            copy.wait_recv()

    semaphores = [pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA]
    return call(permute_kernel, jax.ShapeDtypeStruct(x.shape, x.dtype), [HBM], HBM, semaphores)(x)


def gathered(x, n, mistake=""):
    """Return the x of all devices, [n, *x.shape]: n - 1 times each passes on what has come last."""
    no_barrier = mistake in ("no barrier", "the compiler's barrier is skipped", "left to the compiler's barrier")

    def gather_kernel(x_ref, o_ref, local_sem, send_sem, recv_sem):
        me, right, _ = neighbours(n)
        own = pltpu.make_async_copy(x_ref, o_ref.at[me], local_sem)
        own.start()
        if mistake != "its own part is not awaited":
            own.wait()
        if not no_barrier:
            enter(n, mistake)
        for i in range(n - 1):
            slot = lax.rem(me + (i if mistake == "the wrong part is passed on" else n - i), n)
            target = lax.rem(me + 2, n) if mistake == "to the device after next" else right
            arrives = recv_sem.at[0 if mistake == "one semaphore for all that arrive" else i]
            part = o_ref.at[slot]
            copy = pltpu.make_async_remote_copy(part, part, send_sem.at[i], arrives, **to(target))
            copy.start()
            if mistake != "does not wait for what it sends":
                copy.wait_send()
            if mistake != "does not wait for what arrives" or i == n - 2:
                copy.wait_recv()
            if mistake == "waits twice" and i == 0:
                copy.wait_recv()
        if mistake == "its own part is not awaited":
            own.wait()

    out = jax.ShapeDtypeStruct((n, *x.shape), x.dtype)
    semaphores = [pltpu.SemaphoreType.DMA, *[pltpu.SemaphoreType.DMA((n - 1,))] * 2]
    own_barrier = mistake not in ("the compiler's barrier is skipped", "left to the compiler's barrier")
    return call(gather_kernel, out, [HBM], HBM, semaphores, mistake, own_barrier)(x)


def gathered_both_ways(x, n, mistake=""):
    """Return the x of all devices; half of each travels to the right, half to the left."""

    def both_ways_kernel(x_ref, o_ref, local_sem, send_sem, recv_sem):
        me, right, left = neighbours(n)
        own = pltpu.make_async_copy(x_ref, o_ref.at[me], local_sem)
        own.start()
        own.wait()
        enter(n)
        half = x_ref.shape[0] // 2
        for i in range(n - 1):
            copies = []
            for way, target in enumerate((right, left)):
                slot = lax.rem(me - i + n, n) if way == 0 else lax.rem(me + i, n)
                part = o_ref.at[slot, pl.ds(0 if mistake == "both ways the same half" else way * half, half)]
                copies.append(
                    pltpu.make_async_remote_copy(part, part, send_sem.at[way, i], recv_sem.at[way, i], **to(target))
                )
            for copy in copies:
                copy.start()
            for copy in copies:
                copy.wait()

    out = jax.ShapeDtypeStruct((n, *x.shape), x.dtype)
    semaphores = [pltpu.SemaphoreType.DMA, *[pltpu.SemaphoreType.DMA((2, n - 1))] * 2]
    return call(both_ways_kernel, out, [HBM], HBM, semaphores)(x)


def reduced(x, n, mistake=""):
    """Return the sum over all devices of their x[me], of x [n, rows, columns]; two buffers receive in turn."""

    def reduce_kernel(x_ref, o_ref, sum_ref, in_ref, send_sem, recv_sem, room_sem):
        me, right, left = neighbours(n)
        enter(n)
        sum_ref[...] = x_ref[left]
        for i in range(n - 1):
            slot = i % 2
            if i >= 2 and mistake != "does not ask for room":
                pl.semaphore_wait(room_sem, 1)
            arrives = recv_sem.at[0 if mistake == "one semaphore for all that arrive" else slot]
            copy = pltpu.make_async_remote_copy(sum_ref, in_ref.at[slot], send_sem, arrives, **to(right))
            copy.start()
            copy.wait_recv()
            if mistake != "writes before it is sent":
                copy.wait_send()
            sum_ref[...] = in_ref[slot] + x_ref[lax.rem(me - 2 - i + 2 * n, n)]
            if mistake == "writes before it is sent":
                copy.wait_send()
            if i < n - (2 if mistake == "says once more that there is room" else 3):
                pl.semaphore_signal(room_sem, 1, **to(left))
        o_ref[...] = sum_ref[...]

    shape = x.shape[1:]
    scratch = [
        pltpu.VMEM(shape, x.dtype), pltpu.VMEM((2, *shape), x.dtype), pltpu.SemaphoreType.DMA,
        pltpu.SemaphoreType.DMA((2,)), pltpu.SemaphoreType.REGULAR,
    ]  # fmt: skip
    return call(reduce_kernel, jax.ShapeDtypeStruct(shape, x.dtype), [VMEM], VMEM, scratch)(x)


def multiplied(x, w, n, mistake=""):
    """Return the rows of all devices' x times this device's w: one part is multiplied while the next one travels."""

    def multiply_kernel(x_ref, w_ref, o_ref, part_ref, send_sem, recv_sem, room_sem):
        me, right, left = neighbours(n)
        enter(n)
        rows = x_ref.shape[0]
        part_ref[0] = x_ref[...]
        for i in range(n):
            now, next_one = i % 2, (i + 1) % 2
            if i < n - 1:
                if i >= 1 and mistake != "does not ask for room":
                    pl.semaphore_wait(room_sem, 1)
                copy = pltpu.make_async_remote_copy(
                    part_ref.at[now], part_ref.at[next_one], send_sem, recv_sem.at[next_one], **to(right)
                )
                copy.start()
            whose = lax.rem(me + i if mistake == "rows of the device to the right" else me - i + n, n)
            product = jnp.dot(part_ref[now], w_ref[...], precision="highest", preferred_element_type=jnp.float32)
            o_ref[pl.ds(whose * rows, rows), :] = product
            if i < n - 1:
                copy.wait()
            if i < n - 2:
                pl.semaphore_signal(room_sem, 1, **to(left))

    out = jax.ShapeDtypeStruct((n * x.shape[0], w.shape[1]), jnp.float32)
    scratch = [
        pltpu.VMEM((2, *x.shape), x.dtype), pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA((2,)),
        pltpu.SemaphoreType.REGULAR,
    ]  # fmt: skip
    return call(multiply_kernel, out, [VMEM, VMEM], VMEM, scratch)(x, w)


def sharded(fn, in_specs, out_specs):
    """Return a function of whole arrays that runs ``fn`` on each device of the mesh of its context."""
    return functools.partial(_sharded, fn, in_specs, out_specs)


def _sharded(fn, in_specs, out_specs, *args):
    return jax.shard_map(fn, in_specs=in_specs, out_specs=out_specs, check_vma=False)(*args)
