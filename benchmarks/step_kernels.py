"""The step time by lesson 5's formula and by the compiler, for 30 kernels: ``make bench-model ARGS=--steps``.

    T = max(c, (L of a read + c) / B, (L of a write + c) / B)

L is the time of a copy by itself: a latency, plus its bytes at the rate of a single copy. c is how long the core is
busy in a step, as the simulator reports it; B is the number of copies in flight, which equals the number of buffers.
With one buffer a copy is added to the work. The compiler's T is a slope: the difference in cycles between many steps
and fewer.
"""

import dataclasses
import os
import statistics
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import compiler, roofline

RATE = 491  # bytes per cycle of a single copy, predicted (compiler): lesson 5 derives it from two kernels
FEW, MANY = 24, 48  # steps; multiples of the periods of two, three, four, six and eight buffers


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """A kernel of many equal steps. ``call(steps)`` returns a function and its arguments."""

    name: str
    call: Callable[[int], tuple]
    reads: int = 0  # bytes of the largest block that is read in a step
    writes: int = 0
    read_buffers: int = 2
    write_buffers: int = 2


def formula(step: Step, busy: float) -> float:
    """Return the cycles of a step whose core is busy for ``busy`` cycles."""
    read, write = roofline.LATENCY_CYCLES["v5e"]
    copies = [(read, step.reads, step.read_buffers), (write, step.writes, step.write_buffers)]
    moving = [(latency + size / RATE, buffers) for latency, size, buffers in copies if size]
    work = busy + sum(copy for copy, buffers in moving if buffers == 1)
    return max([work] + [(copy + work) / buffers for copy, buffers in moving if buffers > 1])


def by_compiler(step: Step) -> tuple[float, float]:
    """Return (cycles of an additional step, those in which the core is busy), predicted (compiler)."""
    (few, few_args), (many, many_args) = step.call(FEW), step.call(MANY)
    less, more = compiler.compile_tpu(few, *few_args), compiler.compile_tpu(many, *many_args)
    return (more.cycles - less.cycles) / (MANY - FEW), more.step["work"] + more.step["scalar code"]


def print_table() -> None:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    print(f"{'':46} {'compiler':>9} {'formula':>8} {'off':>7}   cycles a step of a v5e, predicted (compiler)")
    errors = []
    for step in steps():
        cycles, busy = by_compiler(step)
        errors.append(formula(step, busy) / cycles - 1)
        print(f"{step.name:46} {cycles:9,.0f} {formula(step, busy):8,.0f} {errors[-1]:+7.1%}")
    sizes = [abs(error) for error in errors]
    print(f"{len(sizes)} kernels: median {statistics.median(sizes):.1%}, worst {max(sizes):.1%}")


def steps() -> list[Step]:
    """Return thirty kernels that differ in what moves, in block size, work and number of buffers."""
    found = [_blocks(rows, reads=1, writes=0) for rows in (8, 64, 256, 1024)]
    found += [_blocks(rows, reads=1, writes=1) for rows in (8, 64, 256, 1024)]
    found += [_blocks(rows, reads=0, writes=1) for rows in (8, 256, 1024)]
    found += [_blocks(rows, reads=2, writes=1) for rows in (8, 256, 1024)]
    found += [_blocks(256, reads=1, writes=1, exps=exps) for exps in (8, 32, 64)]
    found += [_blocks(256, reads=1, writes=0, buffers=1), _blocks(256, reads=1, writes=1, buffers=1)]
    found += [_piped(rows, buffers) for rows, buffers in ((64, 3), (64, 4), (64, 6), (64, 8), (512, 3), (512, 4))]
    found += [_by_hand(buffers, exps) for buffers, exps in ((1, 0), (2, 32), (4, 8))]
    return [*found, _product(128), _product(256)]


def _blocks(rows: int, *, reads: int, writes: int, exps: int = 0, buffers: int = 2) -> Step:
    """Return a step on blocks of (rows, 128) float32: ``reads`` moving inputs, an output that moves or stays."""
    size = rows * 128 * 4

    def kernel(*refs):
        value = sum(ref[...] for ref in refs[:-1])
        for _ in range(exps):
            value = jnp.exp(value)
        refs[-1][...] = value

    def call(steps: int) -> tuple:
        still = pl.BlockSpec((rows, 128), lambda i: (0, 0))
        moving = pl.BlockSpec((rows, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(buffers))
        tall, one = (jax.ShapeDtypeStruct((rows * n, 128), jnp.float32) for n in (steps, 1))
        fn = pl.pallas_call(
            kernel,
            out_shape=tall if writes else one,
            grid=(steps,),
            in_specs=[moving] * reads or [still],
            out_specs=moving if writes else still,
        )
        return fn, [tall if reads else one] * max(reads, 1)

    return Step(
        name=f"{reads} in, {writes} out, blocks of {size // 1024} KiB, {exps} exp, {buffers} buffers",
        call=call,
        reads=size if reads else 0,
        writes=size if writes else 0,
        read_buffers=buffers,
        write_buffers=buffers,
    )


def _add(x_ref, o_ref):
    @pl.when(pl.program_id(0) == 0)
    def zero():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...]


ANYWHERE = pl.BlockSpec(memory_space=pl.ANY)


def _piped(rows: int, buffers: int) -> Step:
    """Return the sum of the blocks of x by emit_pipeline."""

    def call(steps: int) -> tuple:
        def kernel(x_hbm, o_hbm):
            block = pl.BlockSpec((rows, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(buffers))
            pltpu.emit_pipeline(
                _add, grid=(steps,), in_specs=[block], out_specs=[pl.BlockSpec((rows, 128), lambda i: (0, 0))]
            )(x_hbm, o_hbm)

        out = jax.ShapeDtypeStruct((rows, 128), jnp.float32)
        x = jax.ShapeDtypeStruct((rows * steps, 128), jnp.float32)
        return pl.pallas_call(kernel, out_shape=out, in_specs=[ANYWHERE], out_specs=ANYWHERE), [x]

    size = rows * 128 * 4
    name = f"emit_pipeline, sum of blocks of {size // 1024} KiB, {buffers} buffers"
    return Step(name=name, call=call, reads=size, read_buffers=buffers)


def _by_hand(buffers: int, exps: int, rows: int = 64) -> Step:
    """Return the same sum with manual copies."""

    def call(steps: int) -> tuple:
        def kernel(x_hbm, o_ref, in_ref, in_sem):
            def fetch(i):
                b = jax.lax.rem(i, buffers)
                return pltpu.make_async_copy(x_hbm.at[pl.ds(rows * i, rows)], in_ref.at[b], in_sem.at[b])

            o_ref[...] = jnp.zeros_like(o_ref)
            for i in range(buffers - 1):
                fetch(i).start()

            @pl.loop(0, steps)
            def turn(i):
                @pl.when(i + buffers - 1 < steps)
                def ahead():
                    fetch(i + buffers - 1).start()

                fetch(i).wait()
                value = in_ref[jax.lax.rem(i, buffers)]
                for _ in range(exps):
                    value = jnp.exp(value)
                o_ref[...] += value

        fn = pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((rows, 128), jnp.float32),
            in_specs=[ANYWHERE],
            scratch_shapes=[pltpu.VMEM((buffers, rows, 128), jnp.float32), pltpu.SemaphoreType.DMA((buffers,))],
        )
        return fn, [jax.ShapeDtypeStruct((rows * steps, 128), jnp.float32)]

    size = rows * 128 * 4
    name = f"by hand, sum of blocks of {size // 1024} KiB, {exps} exp, {buffers} buffers"
    return Step(name=name, call=call, reads=size, read_buffers=buffers)


def _product(size: int) -> Step:
    """Return one output block of a bfloat16 matmul, stepping along k in blocks of size x size."""

    def kernel(x_ref, y_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def zero():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    def call(steps: int) -> tuple:
        wide, tall = ((size, size * steps), (size * steps, size))
        fn = pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((size, size), jnp.float32),
            grid=(steps,),
            in_specs=[pl.BlockSpec((size, size), lambda k: (0, k)), pl.BlockSpec((size, size), lambda k: (k, 0))],
            out_specs=pl.BlockSpec((size, size), lambda k: (0, 0)),
        )
        return fn, [jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in (wide, tall)]

    return Step(name=f"product, blocks of {size} x {size}, bfloat16", call=call, reads=2 * size * size)
