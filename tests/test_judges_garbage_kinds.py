"""Planted garbage of every kind of memory behind every kind of comparison, and right kernels that stand close by."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from sweeps import daily

from course_lib import judges
from course_lib.judges.running import garbage

ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))
STILL = pl.BlockSpec((8, 128), lambda i: (0, 0))
HBM = pl.BlockSpec(memory_space=pl.ANY)
VMEM = pltpu.VMEM((8, 128), jnp.float32)
X = jax.random.normal(jax.random.key(0), (32, 128))
RAGGED = X[:20]
INTEGERS = jax.random.randint(jax.random.key(1), (32, 128), -9, 9)


def larger(a, b):
    return jnp.where(a > b, a, b)


def smaller(a, b):
    return jnp.where(a < b, a, b)


def by_steps(kernel, *scratch, dtype=jnp.float32):
    """Run a kernel over blocks of 8 rows, all with one output block."""
    out = jax.ShapeDtypeStruct((8, 128), dtype)
    return lambda x: pl.pallas_call(
        kernel, grid=(len(x) // 8,), in_specs=[ROWS], out_specs=STILL, out_shape=out, scratch_shapes=scratch
    )(x)


def in_output(keep, begun=None):
    """A running value in an output block; ``begun``: what it starts with, None for nothing."""

    def kernel(x_ref, o_ref):
        if begun is not None:

            @pl.when(pl.program_id(0) == 0)
            def begin():
                o_ref[...] = jnp.full_like(o_ref, begun)

        o_ref[...] = keep(o_ref[...], x_ref[...]).astype(o_ref.dtype)

    return lambda x: by_steps(kernel, dtype=x.dtype)(x)


def in_scratch(keep, begun=None, of=lambda x: x, dtype=None):
    """The same in scratch of ``dtype``, over ``of`` the blocks."""

    def kernel(x_ref, o_ref, kept_ref):
        if begun is not None:

            @pl.when(pl.program_id(0) == 0)
            def begin():
                kept_ref[...] = jnp.full_like(kept_ref, begun)

        kept_ref[...] = keep(kept_ref[...], of(x_ref[...])).astype(kept_ref.dtype)
        o_ref[...] = kept_ref[...].astype(o_ref.dtype)

    def fn(x):
        kept = jnp.dtype(dtype or x.dtype)
        out = jnp.int32 if kept == jnp.bool_ else kept
        return by_steps(kernel, pltpu.VMEM((8, 128), kept), dtype=out)(x)

    return fn


def in_smem(begun=None):
    """A running maximum of all elements in one scalar."""

    def kernel(x_ref, o_ref, most_ref):
        if begun is not None:

            @pl.when(pl.program_id(0) == 0)
            def begin():
                most_ref[0] = begun

        most_ref[0] = larger(most_ref[0], jnp.max(x_ref[...]))
        o_ref[...] = jnp.full((8, 128), most_ref[0])

    return by_steps(kernel, pltpu.SMEM((1,), jnp.float32))


def after(set_first):
    """A running maximum by comparison, after ``set_first`` has set some of its scratch at the first step."""

    def kernel(x_ref, o_ref, most_ref):
        @pl.when(pl.program_id(0) == 0)
        def begin():
            set_first(x_ref, most_ref)

        most_ref[...] = larger(most_ref[...], x_ref[...])
        o_ref[...] = most_ref[...]

    return by_steps(kernel, VMEM)


def some_lanes(x_ref, most_ref):
    most_ref[:, 0:64] = jnp.full((8, 64), -jnp.inf)


def both_halves(x_ref, most_ref):
    some_lanes(x_ref, most_ref)
    most_ref[:, 64:128] = jnp.full((8, 64), -jnp.inf)


def some_rows(x_ref, most_ref):
    most_ref[0:4, :] = jnp.full((4, 128), -jnp.inf)


def where_the_data_say_so(x_ref, most_ref):
    @pl.when(x_ref[0, 0] > 1e3)
    def begin():
        most_ref[...] = jnp.full((8, 128), -jnp.inf)


def whatever_the_data_say(x_ref, most_ref):
    where_the_data_say_so(x_ref, most_ref)

    @pl.when(x_ref[0, 0] <= 1e3)
    def begin():
        most_ref[...] = x_ref[...]


def in_a_loop(begun=None):
    """A running maximum in memory that the body allocates for itself."""

    def kernel(x_ref, o_ref):
        def body(most_ref):
            if begun is not None:
                most_ref[...] = jnp.full((8, 128), begun)

            @pl.loop(0, 4)
            def turn(n):
                most_ref[...] = larger(most_ref[...], x_ref[pl.ds(8 * n, 8), :])

            o_ref[...] = most_ref[...]

        pl.run_scoped(body, VMEM)

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))


def in_hbm(begin):
    """A running maximum that is copied out of the output in HBM and back."""

    def kernel(x_hbm, o_hbm, most_ref, block_ref, sem):
        if begin:
            pltpu.sync_copy(x_hbm.at[pl.ds(0, 8)], o_hbm.at[pl.ds(0, 8)])
        for n in range(4):
            pltpu.sync_copy(o_hbm.at[pl.ds(0, 8)], most_ref)
            pltpu.sync_copy(x_hbm.at[pl.ds(8 * n, 8)], block_ref)
            most_ref[...] = larger(most_ref[...], block_ref[...])
            pltpu.sync_copy(most_ref, o_hbm.at[pl.ds(0, 8)])

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        in_specs=[HBM],
        out_specs=HBM,
        scratch_shapes=[VMEM, VMEM, pltpu.SemaphoreType.DMA],
    )


def least_bits(a, b):
    """The one whose bits are smaller as an integer."""
    a, b = (pltpu.bitcast(value, jnp.int32) for value in (a, b))
    return pltpu.bitcast(smaller(a, b), jnp.float32)


def inside(x, axis=0):
    """Whether a block's row lies in an array of 20 rows."""
    row = jax.lax.broadcasted_iota(jnp.int32, x.shape, axis)
    return 8 * pl.program_id(0) + row < 20


def count(holds, masked=False):
    """How many rows of a ragged array hold, column by column."""

    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def begin():
            o_ref[...] = jnp.zeros_like(o_ref)

        held = holds(x_ref[...]) & (inside(x_ref[...]) if masked else True)
        o_ref[...] += jnp.sum(held.astype(jnp.int32), axis=0, keepdims=True)

    return over_the_edge(kernel, 8)


def at_once(reduce, masked=None):
    """A reduction of one block of 24 rows, of which 20 lie in the array; ``masked``: what stands for the others."""

    def kernel(x_ref, o_ref):
        x = x_ref[...]
        if masked is not None:
            x = jnp.where(inside(x), x, masked)
        o_ref[...] = reduce(x, axis=0, keepdims=True).astype(jnp.int32)

    return over_the_edge(kernel, 24)


def over_the_edge(kernel, rows):
    return lambda x: pl.pallas_call(
        kernel,
        grid=(pl.cdiv(len(x), rows),),
        in_specs=[pl.BlockSpec((rows, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((1, 128), lambda i: (0, 0)),
        out_shape=jax.ShapeDtypeStruct((1, 128), jnp.int32),
    )(x)


def counted(holds):
    return lambda x: jnp.sum(holds(x), axis=0, keepdims=True, dtype=jnp.int32)


def reduced(reduce):
    return lambda x: reduce(x, axis=0, keepdims=True).astype(jnp.int32)


def of_blocks(reduce):
    return lambda x: reduce(x.reshape(4, 8, 128)).astype(x.dtype)


def every_block(x):
    return (x.reshape(4, 8, 128) > -2).all(0).astype(jnp.int32)


def every(x, **how):
    return jnp.all(~(x < -5), **how)


def some(x, **how):
    return jnp.any(x > 5, **how)


def narrow(x):
    return (x > 0.1) & (x < 0.5)


most, least = of_blocks(lambda x: x.max(0)), of_blocks(lambda x: x.min(0))
READ, EDGE, FIRST = "before anything has been written there", "past the end of the array that x_ref reads", "step (0,)"
OVER, BEFORE = "the block of x_ref reaches past the end of the array", "is read before anything has been written"
CHOSEN = {
    "maximum in an output": (in_output(larger), most, X, ("in o_ref", FIRST, READ)),
    "minimum in an output": (in_output(smaller), least, X, ("in o_ref", FIRST, READ)),
    "maximum in scratch": (in_scratch(larger), most, X, ("in kept_ref", FIRST, READ)),
    "minimum in scratch": (in_scratch(smaller), least, X, ("in kept_ref", FIRST, READ)),
    "maximum of positive numbers": (in_scratch(larger), most, abs(X) + 1, ("wrong with inf in kept_ref", READ)),
    "minimum of negative numbers": (in_scratch(smaller), least, -abs(X) - 1, ("wrong with -inf in kept_ref", READ)),
    "maximum by fmax": (in_scratch(jnp.fmax), most, X, ("tests for NaN", "in kept_ref", READ)),
    "maximum in SMEM": (in_smem(), lambda x: jnp.full((8, 128), x.max()), X, ("in most_ref", FIRST, READ)),
    "maximum in memory of the body": (in_a_loop(), most, X, ("in most_ref, which is read", READ)),
    "maximum in HBM": (in_hbm(begin=False), most, X, ("in o_hbm, which is read", READ)),
    "some lanes set": (after(some_lanes), most, X, ("in most_ref", FIRST, "before all of it has been written")),
    "some rows set": (after(some_rows), most, X, ("in most_ref", FIRST, "before all of it has been written")),
    "set where data say so": (after(where_the_data_say_so), most, X, ("in most_ref", "before all of it")),
    "compared as bits": (in_scratch(least_bits), lambda x: least_of_bits(x), X, ("in kept_ref", READ)),
    "< 0": (count(lambda x: x < 0), counted(lambda x: x < 0), RAGGED, (EDGE,)),
    "<= 0": (count(lambda x: x <= 0), counted(lambda x: x <= 0), RAGGED, (EDGE,)),
    "> 0": (count(lambda x: x > 0), counted(lambda x: x > 0), RAGGED, (EDGE,)),
    "== 0": (count(lambda x: x == 0), counted(lambda x: x == 0), RAGGED, ("wrong with 0 past", EDGE)),
    "in a narrow band": (count(narrow), counted(narrow), RAGGED, ("numbers like the arguments'", EDGE)),
    "integers in a band": (
        count(lambda x: (x > 1) & (x < 5)), counted(lambda x: (x > 1) & (x < 5)), INTEGERS[:20], ("integers like", EDGE)
    ),
    "all": (at_once(every), reduced(every), RAGGED, ("wrong with -inf past", EDGE)),
    "any": (at_once(some), reduced(some), RAGGED, ("wrong with inf past", EDGE)),
}  # fmt: skip
COUNTED = {
    "!= 0": (count(lambda x: x != 0), counted(lambda x: x != 0), RAGGED, (OVER, "step (2,)", "the result changes")),
    "not > 0": (count(lambda x: ~(x > 0)), counted(lambda x: ~(x > 0)), RAGGED, (OVER, "step (2,)")),
    "integers < 0": (count(lambda x: x < 0), counted(lambda x: x < 0), INTEGERS[:20], (OVER, "are garbage.")),
    "argmax": (at_once(jnp.argmax), reduced(jnp.argmax), RAGGED, (OVER,)),
    "argmin": (at_once(jnp.argmin), reduced(jnp.argmin), RAGGED, (OVER,)),
    "argmax of integers": (at_once(jnp.argmax), reduced(jnp.argmax), INTEGERS[:20], (OVER,)),
    "sum of integers": (at_once(jnp.sum), reduced(jnp.sum), INTEGERS[:20], (OVER, "the result changes")),
    "maximum of integers": (in_scratch(jnp.maximum), most, INTEGERS, ("step (0,) kept_ref", BEFORE)),
    "minimum of integers": (in_scratch(jnp.minimum), least, INTEGERS, ("step (0,) kept_ref", BEFORE)),
    "maximum by jnp.maximum": (in_output(jnp.maximum), most, X, ("step (0,) o_ref", BEFORE)),
    "all so far": (in_scratch(jnp.logical_and, of=lambda x: x > -2, dtype=bool), every_block, X, ("kept_ref", BEFORE)),
    "any so far": (
        in_scratch(jnp.logical_or, of=lambda x: x > 2, dtype=bool),
        lambda x: (x.reshape(4, 8, 128) > 2).any(0).astype(jnp.int32), X, ("kept_ref", BEFORE)
    ),
    "count so far": (
        in_scratch(jnp.add, of=lambda x: (x > 0).astype(jnp.int32), dtype=jnp.int32),
        lambda x: (x.reshape(4, 8, 128) > 0).sum(0, dtype=jnp.int32), X, ("kept_ref", BEFORE)
    ),
}  # fmt: skip
RIGHT = {
    "maximum begun in an output": (in_output(larger, -jnp.inf), most, X),
    "maximum begun in scratch": (in_scratch(larger, -jnp.inf), most, X),
    "minimum begun in scratch": (in_scratch(smaller, jnp.inf), least, X),
    "maximum begun, by fmax": (in_scratch(jnp.fmax, -jnp.inf), most, X),
    "maximum begun in SMEM": (in_smem(-1e30), lambda x: jnp.full((8, 128), x.max()), X),
    "maximum begun in the body": (in_a_loop(-jnp.inf), most, X),
    "maximum begun in HBM": (in_hbm(begin=True), most, X),
    "both halves set": (after(both_halves), most, X),
    "set whatever the data say": (after(whatever_the_data_say), most, X),
    "bits begun": (in_scratch(least_bits, jnp.inf), lambda x: least_of_bits(x), X),
    "integers begun": (in_scratch(jnp.minimum, 99), least, INTEGERS),
    "all so far, begun": (in_scratch(jnp.logical_and, True, lambda x: x > -2, bool), every_block, X),
    "< 0, masked": (count(lambda x: x < 0, masked=True), counted(lambda x: x < 0), RAGGED),
    "!= 0, masked": (count(lambda x: x != 0, masked=True), counted(lambda x: x != 0), RAGGED),
    "in a narrow band, masked": (count(narrow, masked=True), counted(narrow), RAGGED),
    "argmax, masked": (at_once(jnp.argmax, -jnp.inf), reduced(jnp.argmax), RAGGED),
    "argmin, masked": (at_once(jnp.argmin, jnp.inf), reduced(jnp.argmin), RAGGED),
    "sum of integers, masked": (at_once(jnp.sum, 0), reduced(jnp.sum), INTEGERS[:20]),
    "any, masked": (at_once(some, 0), reduced(some), RAGGED),
}


def least_of_bits(x):
    least = jax.lax.bitcast_convert_type(x, jnp.int32).reshape(4, 8, 128).min(0)
    return jax.lax.bitcast_convert_type(least, jnp.float32)


def said(fn, reference, x):
    """What the first two judges say, up to the first that refuses."""
    verdict = judges.numbers_judge(fn, reference, x)
    return verdict if verdict.passed is False else judges.simulator_judge(fn, reference, x)


# Every day one case of each kind of memory and of each kind of comparison; the others repeat them. More comparisons of
# floats over the edge are in test_judges_garbage.py.
SCRATCH = ("minimum in an output", "maximum by fmax", "maximum in SMEM", "maximum in HBM")
PARTLY = ("some lanes set", "set where data say so", "compared as bits", "maximum in memory of the body")
OVER_THE_EDGE = ("integers in a band", "any")
NEAR = ("maximum begun in HBM", "both halves set", "bits begun", "all so far, begun")
MASKED = ("in a narrow band, masked", "sum of integers, masked")


@pytest.mark.parametrize("name", daily(*SCRATCH, *PARTLY, *OVER_THE_EDGE, of=CHOSEN))
def test_garbage_that_nan_does_not_show(name):
    fn, reference, x, words = CHOSEN[name]
    verdict = said(fn, reference, x)
    assert verdict.judge == "simulator" and verdict.passed is False, verdict
    assert all(word in verdict.message for word in words), verdict.message


@pytest.mark.parametrize(
    "name", daily("!= 0", "argmax", "sum of integers", "minimum of integers", "all so far", of=COUNTED)
)
def test_garbage_that_looks_like_any_number_is_traced_to_its_memory(name):
    fn, reference, x, words = COUNTED[name]
    verdict = said(fn, reference, x)
    assert verdict.passed is False, verdict
    assert all(word in verdict.message for word in words), verdict.message


@pytest.mark.parametrize("name", daily(*NEAR, *MASKED, of=RIGHT))
def test_a_right_kernel_close_by_is_accepted(name):
    verdict = said(*RIGHT[name])
    assert verdict.passed, verdict


def test_a_kernel_that_reads_nothing_unwritten_is_simulated_once(monkeypatch):
    monkeypatch.setattr(
        garbage, "that_is", lambda filling, usual=garbage.that_is: asked.append(filling) or usual(filling)
    )
    for name, times in {"maximum begun in scratch": 1, "< 0, masked": None}.items():
        asked = []
        assert judges.simulator_judge(*RIGHT[name]).passed
        assert asked[0] == (None if times else garbage.Filling())
        assert len(asked) == times or not times and len(asked) > 5


def test_numbers_to_draw_from_have_both_signs_and_lie_around_the_constants():
    walk = judges.Trial(count(narrow), counted(narrow), (RAGGED,)).walk
    drawn = garbage.suspicion(walk, (RAGGED,)).fillings[-1].floats
    assert set(np.asarray(RAGGED, np.float64).ravel()) <= set(drawn) and (-drawn).min() == drawn.min()
    assert ((drawn > 0.1) & (drawn < 0.5)).sum() > 100
