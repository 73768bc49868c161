"""Semaphores: what is signalled has to be waited for, and no more; the simulator's counts tell, by name."""

import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import compiler, judges

X = jnp.arange(32 * 128.0).reshape(32, 128)
REGULAR, DMA = pltpu.SemaphoreType.REGULAR, pltpu.SemaphoreType.DMA
HBM = pl.BlockSpec(memory_space=pl.ANY)


def doubled(x):
    return 2 * x


def by_steps(signals, semaphores=REGULAR, steps=4):
    """Double x in four steps, each of which calls ``signals`` with the semaphores."""

    def tick(x_ref, o_ref, sem):
        signals(sem)
        o_ref[...] = 2 * x_ref[...]

    block = pl.BlockSpec((32 // steps, 128), lambda i: (i, 0))
    return pl.pallas_call(
        tick, grid=(steps,), in_specs=[block], out_specs=block, out_shape=X, scratch_shapes=[semaphores]
    )


def two_and_one(sem):
    pl.semaphore_signal(sem, 2)
    pl.semaphore_wait(sem, 1)


def the_second(sem):
    for n in range(2):
        pl.semaphore_signal(sem.at[n], 1 + n)
        pl.semaphore_wait(sem.at[n], 1)


def of_a_square(sem):
    pl.semaphore_signal(sem.at[1, 0], 1)


def in_a_loop(sem):
    @pl.loop(0, 3)
    def turn(n):
        pl.semaphore_signal(sem, 1)

    pl.semaphore_wait(sem, 2)


def but_the_last(sem):
    pl.semaphore_signal(sem, 1)

    @pl.when(pl.program_id(0) < 3)
    def wait():
        pl.semaphore_wait(sem, 1)


def of_the_body(sem):
    pl.run_scoped(lambda own, other: two_and_one(other), REGULAR, REGULAR)


def too_much(sem):
    pl.semaphore_signal(sem, 1)
    pl.semaphore_wait(sem, 2)


def too_early(sem):
    pl.semaphore_wait(sem, 1)
    pl.semaphore_signal(sem, 1)


def twice_one(sem):
    pl.semaphore_signal(sem, 2)
    pl.semaphore_wait(sem, 1)
    pl.semaphore_wait(sem, 1)


def carried(sem):
    """Each step waits for the signal of the one before it, and the last one for its own, too."""

    @pl.when(pl.program_id(0) > 0)
    def wait():
        pl.semaphore_wait(sem, 1)

    pl.semaphore_signal(sem, 1)

    @pl.when(pl.program_id(0) == 3)
    def wait_for_the_last():
        pl.semaphore_wait(sem, 1)


def copied(after, x=X):
    """Copy x in and double it; ``after`` gets the copy and the first number, after one start and one wait."""

    def kernel(x_hbm, o_ref, buf_ref, sem):
        copy = pltpu.make_async_copy(x_hbm, buf_ref, sem)
        copy.start()
        copy.wait()
        found = buf_ref[...]
        after(copy, found[0, 0])
        o_ref[...] = 2 * found

    return pl.pallas_call(kernel, out_shape=x, in_specs=[HBM], scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), DMA])


def started_where_data_say_so(copy, first):
    @pl.when(first < 1)
    def again():
        copy.start()


def waited_where_data_say_so(copy, first):
    @pl.when(first < 1)
    def again():
        copy.wait()


def both_where_data_say_so(copy, first):
    @pl.when(first < 1)
    def again():
        copy.start()
        copy.wait()


LEFT = {
    "2 and 1": (
        by_steps(two_and_one, steps=1),
        ("sem is signalled 2 times and waited for 1 time, so sem is left at 1", "A chip halts there if the"),
    ),
    "2 and 1 at each step": (
        by_steps(two_and_one),
        ("8 times", "(2 and 1 at each of 4 steps)", "is left at 4 when tick"),
    ),
    "the second of two": (by_steps(the_second, REGULAR((2,))), ("sem[1] is signalled 8 times", "sem[1] is left at 4")),
    "one of a square": (
        by_steps(of_a_square, REGULAR((2, 2))),
        ("sem[1, 0] is signalled 4 times and waited for 0 times",),
    ),
    "in a loop": (by_steps(in_a_loop), ("12 times and waited for 8 times (3 and 2 at each",)),
    "at the last step": (by_steps(but_the_last), ("signalled 4 times and waited for 3 times, so",)),
    "of the body": (by_steps(of_the_body), ("other is signalled 2 times and waited for 1 time",)),
    "a copy": (copied(started_where_data_say_so), ("A copy on sem is never waited for", "when kernel ends")),
}
ENDLESS = {
    "more than is signalled": (
        by_steps(too_much),
        ("tick waits for 2 on sem, which holds 1", "the signal never comes"),
    ),
    "before the signal": (by_steps(too_early), ("tick waits for 1 on sem, which holds 0", "is signalled 0 times")),
    "a second time for a copy": (
        copied(waited_where_data_say_so),
        ("waits for 16,384 bytes on sem", "would never end"),
    ),
}
BALANCED = {
    "two waits of one": by_steps(twice_one),
    "carried from step to step": by_steps(carried),
    "a copy where data say so": copied(both_where_data_say_so),
    "two kernels": lambda x: by_steps(twice_one)(by_steps(carried)(x)) / 2,
}


@pytest.mark.parametrize("name", LEFT | ENDLESS)
def test_semaphores_out_of_balance_are_refused_by_name(name):
    fn, words = (LEFT | ENDLESS)[name]
    verdicts = judges.judge(fn, doubled, X)
    assert [v.judge for v in verdicts if v.passed is False] == ["simulator"], verdicts[-1]
    assert all(word in verdicts[-1].message for word in words), verdicts[-1].message
    assert verdicts[-1].next


@pytest.mark.parametrize("name", BALANCED)
def test_semaphores_in_balance_are_accepted(name):
    verdict = judges.simulator_judge(BALANCED[name], doubled, X)
    assert verdict.passed, verdict


def test_of_two_kernels_the_one_that_leaves_something_is_named():
    def tock(x_ref, o_ref, own):
        two_and_one(own)
        o_ref[...] = x_ref[...]

    leaves = pl.pallas_call(tock, out_shape=X, scratch_shapes=[REGULAR])
    verdict = judges.simulator_judge(lambda x: leaves(by_steps(twice_one)(x)), doubled, X)
    assert "own is signalled 2 times and waited for 1 time, so own is left at 1 when tock ends" in verdict.message


def test_the_barrier_semaphore():
    def kernel(x_ref, o_ref):
        two_and_one(pltpu.get_barrier_semaphore())
        o_ref[...] = 2 * x_ref[...]

    fn = pl.pallas_call(kernel, out_shape=X, compiler_params=pltpu.CompilerParams(collective_id=0))
    said = judges.simulator_judge(fn, doubled, X)
    assert "the barrier semaphore is signalled 2 times and waited for 1 time" in said.message


def test_what_one_run_leaves_does_not_stand_in_the_next_ones_ledger():
    trial = judges.Trial(by_steps(two_and_one), doubled, (X,))
    for _ in range(2):
        trial.traced.run(pltpu.InterpretParams(), trial.args)
        assert [(one.signalled, one.waited, one.held) for one in trial.traced.ledger.left] == [(8, 4, 4)]


def leaves_scratch(x_ref, o_ref, sem):
    two_and_one(sem)
    o_ref[...] = 2 * x_ref[...]


def leaves_scoped(x_ref, o_ref, sem):
    pl.run_scoped(two_and_one, REGULAR)
    o_ref[...] = 2 * x_ref[...]


def leaves_the_barrier(x_ref, o_ref, sem):
    two_and_one(pltpu.get_barrier_semaphore())
    o_ref[...] = 2 * x_ref[...]


@needs_libtpu
@pytest.mark.parametrize("chip", ["v5e", "v5p", "v6e"])
def test_the_program_checks_the_semaphores_of_scratch_at_its_end_and_no_others(chip):
    """What a verdict says of a chip: as many checks, whatever else is left above zero, as there is scratch."""

    def checks(body, params=None, scratch=(REGULAR,)):
        fn = pl.pallas_call(body, out_shape=X, scratch_shapes=scratch, compiler_params=params)
        report = compiler.compile_tpu(fn, X, chip=chip, simulate=False)
        return sum("shalt.err" in line for bundle in report.listing for line in bundle.instructions)

    unchecked = checks(leaves_scratch, pltpu.CompilerParams(disable_semaphore_checks=True))
    assert checks(leaves_scratch) == unchecked + 1
    assert checks(leaves_scoped) == unchecked + 1
    assert checks(leaves_the_barrier, pltpu.CompilerParams(collective_id=0)) == unchecked + 1
