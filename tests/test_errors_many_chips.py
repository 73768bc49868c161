"""The barrier semaphore and its id, each mistake provoked for real, and what a learner reads."""

import jax.numpy as jnp
import provoke
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec as P
from provoke import X, compiled

from course_lib import judges


def met_alone(x, collective_id, meets=True):
    """A kernel whose only device signals itself."""

    def kernel(x_ref, o_ref):
        if meets:
            barrier = pltpu.get_barrier_semaphore()
            pl.semaphore_signal(barrier, 1)
            pl.semaphore_wait(barrier, 1)
        o_ref[...] = x_ref[...]

    params = pltpu.CompilerParams(collective_id=collective_id)
    return pl.pallas_call(kernel, out_shape=x, compiler_params=params)(x)


def signalled(x, kind):
    """A kernel that signals a semaphore of this kind."""

    def kernel(x_ref, o_ref, sem):
        pl.semaphore_signal(sem, 1)
        if kind == pltpu.SemaphoreType.REGULAR:
            pl.semaphore_wait(sem, 1)
        o_ref[...] = x_ref[...]

    return pl.pallas_call(kernel, out_shape=x, scratch_shapes=[kind])(x)


FAILURES = {
    "barrier-without-id": (
        compiled(lambda x: met_alone(x, None), X),
        "The kernel uses the barrier semaphore, but its pallas_call has no collective_id",
    ),
    "id-without-barrier": (
        compiled(lambda x: met_alone(x, 0, meets=False), X),
        "the kernel does not use the barrier semaphore.",
    ),
    "signal-of-a-copy-s-semaphore": (
        compiled(lambda x: signalled(x, pltpu.SemaphoreType.DMA), X),
        "calls pl.semaphore_signal on a DMA semaphore",
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_is_explained(failure):
    provoke.assert_explained(failure, *FAILURES[failure])


def test_no_row_speaks_of_what_is_right():
    for right in (
        compiled(lambda x: met_alone(x, 0), X),
        compiled(lambda x: met_alone(x, None, meets=False), X),
        compiled(lambda x: signalled(x, pltpu.SemaphoreType.REGULAR), X),
    ):
        report = right()
        assert report is None or getattr(report, "error", None) is None


def test_the_protocol_judge_says_so_before_the_simulator_stops():
    mesh = judges.Mesh(in_specs=(P("d"),), out_specs=P("d"), shape=(1,), topology="v5e:1x1")
    fn = mesh.sharded(lambda x: met_alone(x, None))
    (verdict,) = judges.judge_chips(fn, lambda x: x, jnp.ones((8, 128)), mesh=(1,), in_specs=mesh.in_specs)
    assert verdict.judge == "protocol" and "no collective_id" in verdict.message and "CompilerParams" in verdict.next
