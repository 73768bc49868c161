"""The pipeline of a kernel's steps: beside the rule of two buffers, and beside the compiler's simulator."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import compiler, roofline
from course_lib.roofline import pipeline

NOTHING = 1e-15  # seconds of a copy without bytes; 0 would be no copy


def seconds(steps, work, *, read=NOTHING, write=0.0, alone=0.0, read_s=0.0, write_s=0.0, buffers=2) -> float:
    """Of equal steps."""
    same = [np.full(steps, float(of)) for of in (work, read, write, alone)]
    return pipeline.seconds(*same, read_s=read_s, write_s=write_s, buffers=buffers)


def a_step(*args, **kwargs) -> float:
    """Of a further step of a long grid."""
    return (seconds(1200, *args, **kwargs) - seconds(600, *args, **kwargs)) / 600


@pytest.mark.parametrize("buffers", [2, 3, 4, 6])
@pytest.mark.parametrize("work", [0.01, 0.3, 0.99, 1.5])
def test_so_many_buffers_so_many_copies_under_way(work, buffers):
    assert a_step(work, read_s=1.0, buffers=buffers) == pytest.approx(max(work, (1.0 + work) / buffers))
    assert a_step(work, write=NOTHING, read=0.0, write_s=1.0, buffers=buffers) == pytest.approx(
        max(work, (1.0 + work) / 2)
    ), "a result is waited for one step later, whatever the buffers of the inputs"


def test_copies_share_the_hbm():
    assert a_step(0.1, read=1.0, write=0.5) == pytest.approx(1.5), "one byte after another"
    assert a_step(0.1, read=1.0, write=0.5, read_s=9.0, buffers=64) == pytest.approx(1.5)
    assert a_step(2.0, read=1.0, write=0.5) == pytest.approx(2.0), "behind the work"


def test_a_block_with_one_buffer_is_waited_for():
    assert a_step(0.25, read=0.0, alone=1.0, read_s=0.5) == pytest.approx(0.25 + 1.0 + 0.5)


def test_one_step_hides_nothing():
    assert seconds(1, 3.0, read=1.0, write=2.0, read_s=0.5, write_s=0.25) == pytest.approx(1 + 0.5 + 3 + 2 + 0.25)
    assert seconds(2, 3.0, read=1.0, read_s=0.5, buffers=6) == pytest.approx(1 + 0.5 + 3 + 3), (
        "fewer steps than buffers"
    )


def test_what_goes_round_is_multiplied_and_nothing_else():
    """Runs of equal steps, and patterns that come again, beside every step one by one."""
    random = np.random.default_rng(0)
    for buffers, _ in itertools.product((2, 3, 4), range(5)):
        few = [random.choice([0.0, 0.2, 0.7], 7) for _ in range(4)]
        columns = [np.tile(np.repeat(of, random.integers(1, 40)), 30) for of in few]
        shortest = min(map(len, columns))
        columns = [of[:shortest] for of in columns]
        quick = pipeline.seconds(*columns, read_s=1.3, write_s=0.4, buffers=buffers)
        assert quick == pytest.approx(one_by_one(*columns, read_s=1.3, write_s=0.4, buffers=buffers))


def one_by_one(work, reads, writes, alone, read_s, write_s, buffers):
    """The loop as the compiler emits it, with a clock."""
    clock = free = 0.0
    arrives, gone = {}, {-1: 0.0}

    def ask(step):
        nonlocal free
        if step < len(work) and reads[step]:
            free = max(free, clock) + reads[step]
            arrives[step] = free + read_s

    for step in range(buffers - 1):
        ask(step)
    for step in range(len(work)):
        ask(step + buffers - 1)
        clock = max(clock, arrives.get(step, 0.0))
        if alone[step]:
            free = max(free, clock) + alone[step]
            clock = free + read_s
        clock += work[step]
        gone[step] = 0.0
        if writes[step]:
            free = max(free, clock) + writes[step]
            gone[step] = free + write_s
        clock = max(clock, gone[step - 1])
    return max(clock, gone[len(work) - 1])


def test_longer_never_ends_earlier():
    random = np.random.default_rng(1)
    for _ in range(20):
        work, reads, writes, alone = random.choice([0.0, 0.3, 1.0], (4, 50))
        facts = dict(read_s=1.0, write_s=0.5, buffers=int(random.integers(2, 5)))
        base = pipeline.seconds(work, reads, writes, alone, **facts)
        assert pipeline.seconds(work + 0.1, reads, writes, alone, **facts) >= base
        assert pipeline.seconds(work, 1.1 * reads, writes, alone, **facts) >= base
        assert pipeline.seconds(work, reads, writes, alone, **facts | {"read_s": 1.2}) >= base
        nothing = np.zeros(50)  # to read further ahead may delay a write: both share the HBM
        times = [pipeline.seconds(work, reads, nothing, nothing, read_s=1.0, write_s=0.5, buffers=n) for n in (2, 3, 5)]
        assert times == sorted(times, reverse=True)


# Beside the compiler's simulator, in its cycles: its latencies, and copies that share nothing.

RATE = 491  # bytes a cycle of one copy, predicted (compiler)
READ, WRITE = roofline.LATENCY_CYCLES["v5e"]


def copies_of(rows: int, steps: int, exps: int = 1):
    """A kernel that reads and writes a block of (rows, 128) float32 a step."""

    def kernel(x_ref, o_ref):
        x = x_ref[...]
        for _ in range(exps):
            x = jnp.exp(x)
        o_ref[...] = x

    block = pl.BlockSpec((rows, 128), lambda i: (i, 0))
    x = jax.ShapeDtypeStruct((rows * steps, 128), jnp.float32)
    return pl.pallas_call(kernel, out_shape=x, grid=(steps,), in_specs=[block], out_specs=block), x


def cycles(steps: int, work: float, size: int, *, write: bool = True, buffers: int = 2) -> float:
    """The model's, with the bytes of a copy in its latency: in the simulator no other copy slows it down."""
    return 1e6 * seconds(
        steps,
        work / 1e6,
        write=NOTHING * write,
        read_s=(READ + size / RATE) / 1e6,
        write_s=(WRITE + size / RATE) / 1e6,
        buffers=buffers,
    )


CASES = [(8, 1), (256, 64), (1024, 1)]  # rows, exps: bound by latency; by work; by latency and by bytes
WIDE = [(64, 4), (256, 1), (256, 16), (512, 8), (2048, 1), (8192, 1)]


@needs_libtpu
@pytest.mark.parametrize("rows, exps", [*CASES, *(pytest.param(*case, marks=pytest.mark.sweep) for case in WIDE)])
def test_it_is_the_simulators_pipeline(rows, exps):
    """Work is what a step has without waiting, by the simulator's own account."""
    fn, x = copies_of(rows, 12, exps)
    report = compiler.compile_tpu(fn, x)
    assert report.steps == 12 and sum(report.step.values()) == pytest.approx(report.cycles / 12)
    work = report.step["work"] + report.step["scalar code"]
    assert report.cycles == pytest.approx(cycles(12, work, rows * 128 * 4), rel=0.02)


@needs_libtpu
@pytest.mark.parametrize("buffers", [4, *(pytest.param(n, marks=pytest.mark.sweep) for n in (2, 3, 6))])
def test_more_buffers_hide_more_in_the_simulator_too(buffers):
    fn, x = summed(buffers)
    report = compiler.compile_tpu(fn, x)
    assert report.steps == 48
    work = report.step["work"] + report.step["scalar code"]
    assert report.cycles == pytest.approx(cycles(48, work, 4096, write=False, buffers=buffers), rel=0.06)
    (kernel,) = roofline.load(fn, x).kernels
    assert kernel.buffers == buffers


def summed(buffers: int, steps: int = 48):
    """The sum of the blocks of x, read so far ahead."""

    def add(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def zero():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    def kernel(x_hbm, o_hbm):
        pltpu.emit_pipeline(
            add,
            grid=(steps,),
            in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(buffers))],
            out_specs=[pl.BlockSpec((8, 128), lambda i: (0, 0))],
        )(x_hbm, o_hbm)

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    out = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    x = jax.ShapeDtypeStruct((8 * steps, 128), jnp.float32)
    return pl.pallas_call(kernel, out_shape=out, in_specs=[anywhere], out_specs=anywhere), x


@needs_libtpu
def test_the_core_of_a_small_product_issues_what_the_model_says():
    def kernel(x_ref, y_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    x = jax.ShapeDtypeStruct((512, 512), jnp.bfloat16)
    fn = pl.pallas_call(
        kernel,
        out_shape=x,
        grid=(4, 4, 4),
        in_specs=[
            pl.BlockSpec((128, 128), lambda i, j, k: (i, k)),
            pl.BlockSpec((128, 128), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((128, 128), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((128, 128), jnp.float32)],
    )
    report = compiler.compile_tpu(fn, x, x)
    issued = (report.time_split["issue"] + report.time_split["scalar"]) / report.steps
    assert issued == pytest.approx(roofline.ISSUE_CYCLES, rel=0.1)
    assert roofline.FITTED["v5e"].issue_s == pytest.approx(roofline.ISSUE_CYCLES / 1.5e9, rel=0.05)


def test_more_buffers_never_predict_more_time():
    times = [roofline.predict(*summed(buffers)) for buffers in (2, 3, 4, 8)]
    assert [p.seconds for p in times] == sorted([p.seconds for p in times], reverse=True)
    assert times[0].latency_s > times[-1].latency_s >= 0
    assert times[0].seconds > 1.5 * times[2].seconds


@functools.cache
def the_same_block():
    """Many steps, all on one block."""
    block = pl.BlockSpec((8, 128), lambda i: (0, 0))
    x = jax.ShapeDtypeStruct((8, 128), jnp.float32)

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    return pl.pallas_call(kernel, out_shape=x, grid=(1000,), in_specs=[block], out_specs=block), x


def test_steps_that_copy_nothing_do_not_wait():
    fitted = roofline.FITTED["v5e"]
    predicted = roofline.predict(*the_same_block())
    assert predicted.seconds == pytest.approx(1000 * fitted.issue_s, rel=0.01)
    assert predicted.steps_s < 1.01 * 1000 * fitted.issue_s < 1000 * fitted.step_s
