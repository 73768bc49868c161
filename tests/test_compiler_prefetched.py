"""What kernels prefetch is told to the simulator, which takes it for 0; and grids that it crashes on get one axis."""

import contextlib
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from sample_kernels import array

from course_lib import chips, compiler, grid
from course_lib.compiler.child import service
from course_lib.compiler.simulating import answers, lookup, one_axis, prefetched
from course_lib.grid.following.follow import prefetched_reads
from course_lib.kernels import grouped

STEPS = 12
X, OUT = array((1024, 512)), array((64 * STEPS, 512))
RNG = np.random.default_rng(0)

NUMBERS = {
    "one number": [5],
    "the same everywhere": [7] * 20,
    "a line": [3 + 2 * i for i in range(40)],
    "a line with stops": np.cumsum(RNG.integers(0, 2, 64)).tolist(),
    "bits": RNG.integers(0, 2, 96).tolist(),
    "some negative": RNG.integers(-500, 500, 8).tolist(),
    "the ends of int32": [-(2**31), 2**31 - 1, 0],
    "few steps": [9] * 50 + [2] * 50,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_lookup_finds_every_number(name):
    numbers = np.array(NUMBERS[name], np.int64)
    places = np.arange(len(numbers)) + 3
    found = lookup.lookup(places, numbers)
    at = jax.jit(jax.vmap(found.at))(jnp.asarray(places, jnp.int32))
    assert at.tolist() == numbers.tolist()
    assert found.operations < 2 * len(numbers) + 2  # a comparison and a choice for each would do as well


def test_what_would_take_too_many_operations_is_no_lookup():
    assert lookup.lookup(np.arange(2000), RNG.integers(0, 200, 2000)) is None


def by_rows(rows, turns=None):
    """Copies x's row block ``rows(i, ref)`` to block i, through ``turns(i, ref)`` turns of a loop."""

    def kernel(list_ref, x_ref, o_ref):
        value = x_ref[...]
        if turns:
            value = jax.lax.fori_loop(0, turns(pl.program_id(0), list_ref), lambda _, v: jnp.tanh(v), value)
        o_ref[...] = value

    return lambda numbers, x: pl.pallas_call(
        kernel,
        out_shape=OUT,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(STEPS,),
            in_specs=[pl.BlockSpec((64, 512), lambda i, ref: (rows(i, ref), 0))],
            out_specs=pl.BlockSpec((64, 512), lambda i, ref: (i, 0)),
        ),
    )(numbers, x)


def cycles(fn, *args):
    report = compiler.compile_tpu(fn, *args)
    assert report.ok and report.extrapolation is None, report
    return report.cycles


@needs_libtpu
def test_blocks_that_are_looked_up_are_copied_where_they_change(monkeypatch):
    looked_up = by_rows(lambda i, ref: ref[i])
    slow, fast = (jnp.array([i // often for i in range(STEPS)], jnp.int32) for often in (1, 4))
    written_out = {often: cycles(by_rows(lambda i, _, n=often: i // n), slow, X) for often in (1, 4)}
    assert written_out[4] < 0.95 * written_out[1]
    assert cycles(looked_up, slow, X) == pytest.approx(written_out[1], rel=0.02)
    assert cycles(looked_up, fast, X) == pytest.approx(written_out[4], rel=0.02)
    monkeypatch.setattr(prefetched, "matters", lambda jaxpr: False)  # as the simulator is by itself
    assert cycles(looked_up, slow, X) < 0.95 * written_out[4]


@needs_libtpu
@pytest.mark.parametrize(
    "turns",
    [[40] * STEPS, [0, 100, 3, 0, 0, 60, 60, 200, 1, 0, 7, 9]],
    ids=["equal", "ragged"],
)
def test_a_loop_has_the_turns_that_were_prefetched(turns):
    def of_step(i, _):
        return sum(jnp.where(i == n, count, 0) for n, count in enumerate(turns))

    looked_up = by_rows(lambda i, ref: i, lambda i, ref: ref[i])
    written_out = by_rows(lambda i, ref: i, of_step)
    numbers = jnp.array(turns, jnp.int32)
    assert cycles(looked_up, numbers, X) == pytest.approx(cycles(written_out, numbers, X), rel=0.02)


@needs_libtpu
@pytest.mark.parametrize("shape", [(1,), (1, 1), (2,)])
def test_an_array_of_one_number_is_told_too(shape):
    def kernel(count_ref, x_ref, o_ref):
        @pl.when(pl.program_id(0) < count_ref[(0,) * len(shape)])
        def _work():
            o_ref[...] = jax.lax.fori_loop(0, 50, lambda _, v: jnp.tanh(v), x_ref[...])

    block = pl.BlockSpec((64, 512), lambda i, ref: (i, 0))
    spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(STEPS,), in_specs=[block], out_specs=block)
    fn = pl.pallas_call(kernel, out_shape=OUT, grid_spec=spec)
    of = {n: cycles(fn, jnp.full(shape, n, jnp.int32), X) for n in (0, 6, 12)}
    assert of[6] == pytest.approx((of[0] + of[12]) / 2, rel=0.05) and of[0] < 0.5 * of[12]


W = jnp.zeros((4, 512, 512), jnp.bfloat16)
ROWS = jnp.zeros((512, 512), jnp.bfloat16)
BLOCKS = grouped.Blocks(bm=128, bn=256)


@needs_libtpu
def test_a_list_that_is_made_beside_the_kernel_is_told():
    fn = functools.partial(grouped.grouped_matmul, blocks=BLOCKS)
    whole, cut = (compiler.compile_tpu(fn, ROWS, W, jnp.array(n, jnp.int32)) for n in ([128] * 4, [100, 200, 0, 150]))
    assert whole.cycles and whole.cycles < cut.cycles  # 4 visits for each panel, and 7
    assert any("leave out" in note and "prefetch" in note for note in whole.notes), whole.notes
    assert [op.name for op in whole.ops if op.cycles] == ["grouped_matmul"]


@needs_libtpu
def test_numbers_that_are_not_known_give_no_cycles():
    report = compiler.compile_tpu(grouped.grouped_matmul, ROWS, W, jax.ShapeDtypeStruct((4,), jnp.int32))
    assert report.ok and report.cycles is None
    (note,) = [note for note in report.notes if note.startswith("no cycles")]
    assert "which the simulator does not see" in note and "Pass the array itself." in note


@needs_libtpu
def test_too_many_numbers_give_no_cycles(monkeypatch):
    monkeypatch.setattr(lookup, "MOST_OPERATIONS", 3)
    report = compiler.compile_tpu(by_rows(lambda i, ref: ref[i]), jnp.array(RNG.integers(0, 9, STEPS), jnp.int32), X)
    assert report.ok and report.cycles is None
    assert any("list_ref holds too many" in note for note in report.notes), report.notes


def test_a_number_that_only_says_where_something_lies_decides_nothing():
    def kernel(list_ref, x_ref, o_ref):
        o_ref[...] = x_ref[pl.ds(pl.multiple_of(list_ref[pl.program_id(0)] * 64, 64), 64), :]

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(STEPS,),
        in_specs=[pl.BlockSpec((1024, 512), lambda i, ref: (0, 0))],
        out_specs=pl.BlockSpec((64, 512), lambda i, ref: (i, 0)),
    )
    fn, numbers = pl.pallas_call(kernel, out_shape=OUT, grid_spec=spec), jnp.arange(STEPS, dtype=jnp.int32)
    assert not prefetched.matters(grid.trace(fn, numbers, X))
    assert prefetched.matters(grid.trace(by_rows(lambda i, ref: ref[i]), numbers, X))
    assert prefetched.matters(grid.trace(by_rows(lambda i, ref: i, lambda i, ref: ref[i]), numbers, X))


def test_which_numbers_a_body_reads_is_known():
    fn = by_rows(lambda i, ref: i, lambda i, ref: ref[2 * (i // 4)])
    (call,) = grid.walk(fn, jnp.arange(8, dtype=jnp.int32), X).calls
    (read,) = prefetched_reads(call)
    assert np.flatnonzero(read).tolist() == [0, 2, 4]


def clamped(flat):
    """A product whose blocks stay where they are after the fourth step, on a grid of (2, 8) steps, or of 16."""

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], y_ref[0], preferred_element_type=jnp.float32)

    def at(index_map):
        return (lambda s: index_map(s // 8, s % 8)) if flat else index_map

    return pl.pallas_call(
        kernel,
        grid=(16,) if flat else (2, 8),
        in_specs=[
            pl.BlockSpec((128, 256), at(lambda j, v: (jnp.minimum(v, 3), 0))),
            pl.BlockSpec((1, 256, 256), at(lambda j, v: (jnp.minimum(v, 3), 0, j))),
        ],
        out_specs=pl.BlockSpec((128, 256), at(lambda j, v: (jnp.minimum(v, 3), j))),
        out_shape=array((512, 512)),
    )


@needs_libtpu
def test_a_grid_that_the_simulator_crashes_on_is_simulated_on_one_axis(monkeypatch):
    args = array((512, 256)), array((4, 256, 512))
    report = compiler.compile_tpu(clamped(flat=False), *args)
    assert any("on one axis" in note for note in report.notes), report.notes
    assert report.cycles == pytest.approx(cycles(clamped(flat=True), *args), rel=0.02)
    monkeypatch.setattr(one_axis, "flattened", lambda jaxpr: None)
    crashed = compiler.compile_tpu(clamped(flat=False), *args)
    assert crashed.ok and crashed.cycles is None and any("SIGABRT" in note for note in crashed.notes)


def test_the_same_is_done_on_one_axis():
    def kernel(x_ref, o_ref):
        @pl.when((pl.program_id(1) == pl.num_programs(1) - 1) & (pl.program_id(0) > 0))
        def _last():
            o_ref[...] = x_ref[...]

    block = pl.BlockSpec((8, 128), lambda i, j, k: (i + k, j))
    fn = pl.pallas_call(kernel, grid=(3, 4, 2), in_specs=[block], out_specs=block, out_shape=array((32, 512)))
    jaxpr = grid.trace(fn, array((32, 512)))
    (before,), (after,) = (grid.walk_traced(one).calls for one in (jaxpr, one_axis.flattened(jaxpr)))
    assert after.grid == (24,)
    for one, other in zip(before.operands, after.operands, strict=True):
        assert one.indices.tolist() == other.indices.tolist()
    assert [times for _, times in grid.body(before).runs] == [times for _, times in grid.body(after).runs] == [4, 4]
    assert one_axis.flattened(one_axis.flattened(jaxpr)) is None


def test_two_cores_keep_their_axes():
    jaxpr = grid.trace(clamped(flat=False), array((512, 256)), array((4, 256, 512)))
    assert answers._on_one_axis(answers._Seen(jaxpr=jaxpr, args=())) is not None
    assert answers._on_one_axis(answers._Seen(jaxpr=jaxpr, args=(), cores=2)) is None


@pytest.mark.parametrize(
    ("ending", "given", "simulate", "asked"),
    [
        ("SIGSEGV", None, True, [2, 4]),
        ("SIGABRT", None, True, [2]),
        ("SIGSEGV", 3, True, [3]),
        ("SIGSEGV", None, False, [2]),
    ],
)
def test_a_simulator_without_memory_gets_more_once(monkeypatch, ending, given, simulate, asked):
    """SIGSEGV is how it ends without; any other end is not for want of memory, and a caller's limit holds."""
    found = []

    def compiled(*_, simulate, memory_bytes, time_limit_s):
        found.append(memory_bytes >> 30)
        if len(found) == 1:
            raise service.WorkerDied(f"the compiler's process was ended by {ending}")
        return {"ok": True}

    monkeypatch.setattr(service, "compile_module", compiled)
    limits = answers.Limits(memory_bytes=given and given << 30)
    ask = answers.asking(chips.chip("v5e"), lambda *_: b"", limits)
    with contextlib.nullcontext() if len(asked) == 2 else pytest.raises(service.WorkerDied):
        ask(None, simulate=simulate, bundles=1000)
    assert found == asked
