"""Exercises for several chips, checked in a notebook's way and in the grader's: test_checks_chips runs it as a process.

It prints for each answer a line: [name, what the check says, what the judge of the box says, its score], as JSON.
"""

import json

import jax
import jax.numpy as jnp
import numpy as np
from checked import in_the_box
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec as P

from course_lib import checks, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds import RESULTS, golf

PERMUTE = """
def permute_kernel(x_ref, o_ref, send_sem, recv_sem):
    n, me = lax.axis_size("d"), lax.axis_index("d")
    right, left = lax.rem(me + 1, n), lax.rem(me + n - 1, n)
    barrier = pltpu.get_barrier_semaphore()
    for device in (left, right):
        pl.semaphore_signal(barrier, 1, device_id={"d": device})
    pl.semaphore_wait(barrier, 2)
    copy = pltpu.make_async_remote_copy(x_ref, o_ref, send_sem, recv_sem, device_id={"d": right})
    copy.start()
    copy.wait()

def permute(x):
    hbm = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        permute_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[hbm], out_specs=hbm,
        scratch_shapes=[pltpu.SemaphoreType.DMA] * 2, compiler_params=pltpu.CompilerParams(collective_id=0),
    )(x)
"""
BESIDE = """
def copy_kernel(x_ref, o_ref, sem):
    copy = pltpu.make_async_copy(x_ref, o_ref, sem)
    copy.start()
    copy.wait()

def permute(x):
    me, hbm = lax.axis_index("d"), pl.BlockSpec(memory_space=pl.ANY)
    y = lax.psum(jnp.zeros((4, *x.shape), x.dtype).at[lax.rem(me + 1, 4)].set(x), "d")[me]
    steps = jnp.int32(1) + jnp.int32(0 * x[0, 0])  # which nobody can know in advance
    return pl.pallas_call(
        copy_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(steps,), in_specs=[hbm], out_specs=hbm,
        scratch_shapes=[pltpu.SemaphoreType.DMA],
    )(y)
"""
STORING = """
def permute_kernel(x_ref, o_ref, sent_ref, send_sem, recv_sem):
    n, me = lax.axis_size("d"), lax.axis_index("d")
    right, left = lax.rem(me + 1, n), lax.rem(me + n - 1, n)
    sent_ref[...] = x_ref[...]
    barrier = pltpu.get_barrier_semaphore()
    for device in (left, right):
        pl.semaphore_signal(barrier, 1, device_id={"d": device})
    pl.semaphore_wait(barrier, 2)
    copy = pltpu.make_async_remote_copy(sent_ref, o_ref, send_sem, recv_sem, device_id={"d": right})
    copy.start()
    copy.wait()

def permute(x):
    return pl.pallas_call(
        permute_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        out_specs=pl.BlockSpec(memory_space=pl.ANY), compiler_params=pltpu.CompilerParams(collective_id=0),
        scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA],
    )(x)
"""
ANSWERS = {
    "right": PERMUTE,
    "no wait for what is sent": PERMUTE.replace("copy.wait()", "copy.wait_recv()"),
    "to the left": PERMUTE.replace('device_id={"d": right}', 'device_id={"d": left}'),
    "doubled outside": PERMUTE.replace("    )(x)", "    )(2 * x) / 2"),
    "XLA's": 'def permute(x):\n    return lax.ppermute(x, "d", [(n, (n + 1) % 4) for n in range(4)])',
    "XLA's, beside a kernel that cannot be read": BESIDE,
    "empty": "def permute(x):\n    pass",
    "a number": "permute = 3",
    "it raises": "def permute(x):\n    return nowhere",
}
NAMES = {"jax": jax, "jnp": jnp, "lax": lax, "pl": pl, "pltpu": pltpu}


def declared(**more):
    def cases():
        return [(jnp.asarray(np.random.default_rng(n).normal(size=(64 - 32 * n, 128)), jnp.float32),) for n in (0, 1)]

    return Exercise(
        id="16.2", title="To the right", kind="golf" if more else "write", defines="permute", hints=("a", "b", "c"),
        points=1, cases=cases, reference=lambda x: jnp.roll(x, x.shape[0] // 4, axis=0),
        mesh=judges.Mesh(in_specs=(P("d"),), out_specs=P("d")), **more,
    )  # fmt: skip


def main():
    checks.start()
    golf.ours = lambda id: None  # there is no build of this lesson
    scored = {"4 MiB below par": 200_000, "4 MiB above par": 90_000}
    tasks = {name: (declared(), source) for name, source in ANSWERS.items()}
    for name, par in scored.items():
        tasks[name] = declared(golf=golf.Golf(unit="ns", par=par, scale=512.0)), PERMUTE
    a_millisecond = golf.Golf(
        unit="ns", par=2_000_000, work=lambda event: 1e-3 * (event.kind == "write") * event.in_kernel
    )
    tasks["a store takes a millisecond"] = declared(golf=a_millisecond), STORING
    for name, (task, source) in tasks.items():
        exec(source, names := dict(NAMES))
        checked = str(RESULTS[task.kind](task, names["permute"]))
        print(json.dumps([name, checked, *in_the_box(task, source, NAMES)]), flush=True)


if __name__ == "__main__":
    main()
