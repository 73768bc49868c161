"""Large grids: two small simulations and a straight line, against the simulation of the whole."""

import contextlib
import functools

import jax
import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from sample_kernels import array, by_rows, matmul, pipelined_matmul, softmax
from sweeps import daily

from course_lib import chips, compiler, grid
from course_lib.compiler import progress
from course_lib.compiler.simulating import answers, columns, estimate, extrapolate, rewrite, shorten
from course_lib.cost.flops import kernel_flops

V5E = chips.chip("v5e")


def bf16(*shape):
    return array(shape, jnp.bfloat16)


def causal(x):
    """Each step does as much as its number says: no two are alike."""

    def kernel(x_ref, o_ref):
        o_ref[...] = jax.lax.fori_loop(0, pl.program_id(0) * 8, lambda i, v: jnp.tanh(v), x_ref[...])

    spec = pl.BlockSpec((256, 128), lambda i: (i, 0))
    return pl.pallas_call(kernel, out_shape=x, grid=(x.shape[0] // 256,), in_specs=[spec], out_specs=spec)(x)


def heads(q):
    """Attention of the plainest kind: K and V of a head, here q again, stay for all of its steps."""

    def kernel(q_ref, k_ref, o_ref):
        s = jnp.dot(q_ref[0], k_ref[0].T, preferred_element_type=jnp.float32)
        p = jnp.exp(s - s.max(axis=1, keepdims=True))
        o_ref[0] = jnp.dot(p.astype(q.dtype), k_ref[0], preferred_element_type=jnp.float32).astype(q.dtype)

    rows, whole = (
        pl.BlockSpec((1, 256, 128), lambda h, i: (h, i, 0)),
        pl.BlockSpec((1, 2048, 128), lambda h, i: (h, 0, 0)),
    )
    grid = (q.shape[0], q.shape[1] // 256)
    return pl.pallas_call(kernel, out_shape=q, grid=grid, in_specs=[rows, whole], out_specs=rows)(q, q)


# name -> (function, arguments); all of them take 150,000 to 400,000 cycles
LARGE = {
    "matmul, outer axes cut": (functools.partial(matmul, blocks=(256, 256, 256)), [bf16(2048, 1024), bf16(1024, 2048)]),
    "matmul, the axis of k cut": (
        functools.partial(matmul, blocks=(256, 256, 256)),
        [bf16(256, 65536), bf16(65536, 256)],
    ),
    "softmax, bound by copies": (functools.partial(by_rows, softmax, rows=256), [array((16384, 2048))]),
    "tanh, small blocks": (functools.partial(by_rows, jnp.tanh, rows=8), [array((8192, 1024))]),
    "heads, of which one alone is another program": (heads, [bf16(7, 2048, 128)]),
    "emit_pipeline": (functools.partial(pipelined_matmul, block=256), [bf16(2048, 1024), bf16(1024, 2048)]),
}


@needs_libtpu
# Every day a cut outer axis, a cut reduction, and a kernel bound by its steps.
@pytest.mark.parametrize(
    "name", daily("matmul, outer axes cut", "matmul, the axis of k cut", "tanh, small blocks", of=LARGE)
)
def test_extrapolated_cycles_are_those_of_the_whole(name, monkeypatch):
    fn, args = LARGE[name]
    report = compiler.compile_tpu(fn, *args)
    line = report.extrapolation
    assert line is not None, report.notes
    assert line.small[0] < line.large[0] and line.small[0] + line.large[0] < line.steps
    monkeypatch.setattr(extrapolate, "WHOLE_BUNDLES", 10**9)
    whole = compiler.compile_tpu(fn, *args, time_limit_s=120)
    assert whole.extrapolation is None and whole.cycles > 100_000
    assert report.cycles == line.cycles == pytest.approx(whole.cycles, rel=0.01)
    assert sum(report.time_split.values()) == report.cycles
    for unit, cycles in whole.time_split.items():
        assert report.time_split.get(unit, 0) == pytest.approx(cycles, abs=0.03 * whole.cycles), unit
    same = ("hbm_bytes", "vmem", "bundles", "slots", "spills", "fills", "listing", "flops", "code_bytes")
    for field in same:
        assert getattr(report, field) == getattr(whole, field), f"{field} must be of the whole program"
    assert f"{line.small[0]:,} and {line.large[0]:,} of the {line.steps:,} steps" in " ".join(str(report).split())


@needs_libtpu
def test_a_grid_of_24_million_cycles_in_seconds():
    report = compiler.compile_tpu(functools.partial(matmul, blocks=(128, 128, 128)), bf16(4096, 4096), bf16(4096, 4096))
    assert report.extrapolation.steps == 32**3
    # Small blocks wait for copies: some 750 cycles a step, on both supported libtpu lines (742 when written).
    assert 600 < report.cycles / 32**3 < 900
    assert max(report.time_split, key=report.time_split.get) == "DMA wait"


@needs_libtpu
def test_two_kernels_each_with_its_own_line():
    tile = functools.partial(matmul, blocks=(256, 256, 256))
    args = bf16(2048, 1024), bf16(1024, 1024)
    report = compiler.compile_tpu(lambda x, y: tile(tile(x, y), y), *args)
    first, second = (op for op in report.ops if op.kind == "kernel")
    alone = compiler.compile_tpu(tile, *args)
    assert report.extrapolation is not None
    assert first.cycles == pytest.approx(alone.cycles, rel=0.1)
    assert second.cycles == pytest.approx(alone.cycles, rel=0.1)


@needs_libtpu
def test_the_two_cores_of_a_v5p_share_a_parallel_axis():
    tile = functools.partial(matmul, blocks=(256, 256, 256))
    args = bf16(4096, 1024), bf16(1024, 2048)
    alone = compiler.compile_tpu(tile, *args, chip="v5p")
    shared = compiler.compile_tpu(
        functools.partial(tile, semantics=("parallel", "parallel", "arbitrary")), *args, chip="v5p"
    )
    assert alone.extrapolation and shared.extrapolation
    assert shared.cycles == pytest.approx(alone.cycles / 2, rel=0.05)


def test_uneven_steps_are_not_extrapolated():
    jaxpr = rewrite.numbered(grid.trace(causal, array((64 * 256, 128))))
    walk = grid.walk_traced(jaxpr)
    plan = extrapolate.plan(jaxpr, (), walk, V5E)
    assert not plan.calls and "the operations it performs differ between the steps of kernel" in plan.why


@needs_libtpu
def test_what_is_too_long_is_not_simulated_and_that_is_said(monkeypatch):
    monkeypatch.setattr(answers, "MAX_BUNDLES", 100_000)
    report = compiler.compile_tpu(causal, array((64 * 256, 128)))
    assert report.ok and report.cycles is None and report.bundles
    (note,) = [note for note in report.notes if note.startswith("no cycles:")]
    assert "differ between the steps of kernel" in note and "bundles" in note


@needs_libtpu
def test_what_is_too_long_is_simulated_for_a_caller_who_allows_for_it(monkeypatch, nothing_kept):
    monkeypatch.setattr(answers, "MAX_BUNDLES", 10_000)
    report = compiler.compile_tpu(causal, array((36 * 256, 128)), time_limit_s=200, memory_bytes=4 << 30)
    assert report.cycles
    short = compiler.compile_tpu(causal, array((36 * 256, 128)), time_limit_s=0.5, memory_bytes=4 << 30)
    assert short.cycles is None


def test_loops_around_kernels_are_simulated_once():
    def loop(length):
        def steps(x):
            return jax.lax.scan(lambda carry, _: (carry @ x, None), x, None, length=length)[0]

        jaxpr = grid.trace(steps, bf16(1024, 1024))
        return estimate.other_bundles(grid.walk_traced(jaxpr), V5E)

    assert loop(1000) == loop(1) == pytest.approx(2 * 1024**3 / 131072, rel=0.01)


@needs_libtpu
def test_progress_is_told_what_takes_long(monkeypatch):
    monkeypatch.setattr(extrapolate, "WHOLE_BUNDLES", 500)
    heard = []

    @contextlib.contextmanager
    def shown(what):
        heard.append(what)
        yield heard.append

    monkeypatch.setattr(progress, "shown", shown)
    compiler.compile_tpu(jnp.dot, bf16(512, 512), bf16(512, 512))
    assert heard[0] == "compiling dot for v5e"
    assert len(heard) == 2 and heard[1].startswith("simulating about")


def test_a_shorter_grid_does_the_work_of_its_steps():
    """The first and last step of k zero the accumulator and write the result, in the smaller grid as in the whole."""
    args = bf16(512, 65536), bf16(65536, 512)
    jaxpr = grid.trace(functools.partial(matmul, blocks=(256, 256, 256)), *args)
    (call,) = grid.walk_traced(jaxpr).calls
    cut = shorten.Cut(axis=2, period=1, units=4 * 256, longest=255)
    small = rewrite.kernels(jaxpr, lambda _, eqn: shorten.shortened(eqn, cut, 5))
    (less,) = grid.walk_traced(small).calls
    assert call.grid == (2, 2, 256) and less.grid == (1, 1, 5)
    one = 2 * 256**3
    assert kernel_flops(less).mxu == 5 * one
    # An add for each step, and one conversion of the result; a result not written would leave it out.
    written = [eqn for eqn, times in grid.body(less).runs if eqn.primitive.name == "swap"]
    assert len(written) == 3, "zero, accumulate, finish"


@pytest.mark.parametrize("n, shorter", [(0, 0), (1, 1), (3, -1), (6, -1), (7, 3)])
def test_steps_that_are_kept(n, shorter):
    assert shorten._step_kept(n, 8, 4) == shorter


@needs_libtpu
@pytest.mark.sweep  # every day the next test says which functions are narrowed
def test_xla_product_from_a_few_columns(monkeypatch):
    """XLA walks a grid too; a few of its columns tell about all, where it cuts them into the same windows."""
    args = bf16(2048, 2048), bf16(2048, 2048)
    whole = compiler.compile_tpu(jnp.dot, *args)
    assert whole.extrapolation is None
    monkeypatch.setattr(answers, "WORTH_NARROWING", 50_000)
    report = compiler.compile_tpu(jnp.dot, *args)
    assert report.cycles == pytest.approx(whole.cycles, rel=0.01) and report.extrapolation is not None
    assert any("columns of argument 1" in note for note in report.notes)
    assert (report.hbm_bytes, report.bundles, report.vmem_bytes) == (
        whole.hbm_bytes,
        whole.bundles,
        whole.vmem_bytes,
    )


@pytest.mark.parametrize(
    "fn, narrows",
    [
        (jnp.dot, True),
        (lambda x, y: jax.nn.gelu(x @ y), True),
        (jax.jit(lambda x, y: jnp.tanh(x @ y)), True),
        (lambda x, y: x @ y + x, False),
        (lambda x, y: (x @ y) @ y, False),
        (lambda x, y: jax.nn.softmax(x @ y), False),
        (lambda x, y: x + y, False),
        (lambda x, y: x @ x, False),
    ],
)
def test_which_functions_are_one_product(fn, narrows):
    assert (columns.product(grid.trace(fn, bf16(256, 256), bf16(256, 256))) is not None) == narrows
