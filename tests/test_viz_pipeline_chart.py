"""The pipeline chart's figures beside the rule and beside roofline, its words, and its still picture.

What it does in a browser, and that it computes the same there, is tested in tests/browser.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from sample_kernels import VECTOR, add, array, by_rows, gathered, matmul, pipelined_matmul
from shapes import words_on_words
from viz_samples import overflowing, parsed, words

from course_lib import compiler, roofline, viz
from course_lib.viz.common.draw import stride
from course_lib.viz.pipeline_chart import pipeline_data, pipeline_lanes, pipeline_words
from course_lib.viz.pipeline_chart.pipeline_lanes import PLAYED, Settings

TALL = array((256 * 64, 128))


def added_up(x, buffers=2, rows=64):
    """The sum of all blocks of so many rows."""

    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def zero():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((rows, 128), x.dtype),
        grid=(x.shape[0] // rows,),
        in_specs=[pl.BlockSpec((rows, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(buffers))],
        out_specs=pl.BlockSpec((rows, 128), lambda i: (0, 0)),
    )(x)


def with_a_row_alone(x, y):
    """A row with one buffer that changes in every fourth step, beside blocks with two."""

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    row = pl.BlockSpec((8, 128), lambda i: (i // 4, 0), pipeline_mode=pl.Buffered(1))
    return pl.pallas_call(kernel, out_shape=x, grid=(x.shape[0] // 8,), in_specs=[block, row], out_specs=block)(x, y)


def by_hand(x, turns=4):
    """Copies of its own, each waited for at once, without a loop."""

    def kernel(x_hbm, o_ref, buffer_ref, sem):
        for i in range(turns):
            copy = pltpu.make_async_copy(x_hbm.at[pl.ds(8 * i, 8)], buffer_ref, sem)
            copy.start()
            copy.wait()
            o_ref[...] = buffer_ref[...]

    return pl.pallas_call(
        kernel,
        out_shape=array((8, 128)),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32), pltpu.SemaphoreType.DMA],
    )(x)


# ``work`` is given, or else each would be compiled.
CHARTS = {
    "plain": lambda: viz.pipeline_chart(),
    "plain, much work": lambda: viz.pipeline_chart(work=1300),
    "plain, many buffers": lambda: viz.pipeline_chart(buffers=8, chip="v5p", latency="timings", shown=12),
    "plain, large blocks": lambda: viz.pipeline_chart(block=4 << 20, chip="v6e"),
    "one buffer": lambda: kernel_chart(functools.partial(added_up, buffers=1), TALL),
    "short": lambda: kernel_chart(functools.partial(by_rows, jnp.exp), array((48, 128)), shown=20),
    "one step": lambda: kernel_chart(functools.partial(by_rows, jnp.exp), array((8, 128))),
    "matmul": lambda: kernel_chart(
        functools.partial(matmul, blocks=(256, 256, 256)), array((1024, 1024)), array((1024, 512))
    ),
    "emit_pipeline": lambda: kernel_chart(
        functools.partial(pipelined_matmul, buffers=3), array((512, 512)), array((512, 512)), chip="v4"
    ),
    "a row alone": lambda: kernel_chart(with_a_row_alone, array((128, 128)), array((32, 128))),
    "by hand": lambda: kernel_chart(by_hand, array((32, 128))),
}


def kernel_chart(fn, *args, chip="v5e", shown=8):
    """With the model's work: nothing is compiled."""
    without = pytest.MonkeyPatch()
    with without.context() as patch:
        patch.setattr(pipeline_data, "_compiled", lambda *_: None)
        return viz.pipeline_chart(fn, *args, chip=chip, shown=shown)


def settings(**given) -> Settings:
    return Settings(**{"work": 250.0} | given)


@pytest.mark.parametrize("buffers", [1, 2, 4, 8])
@pytest.mark.parametrize("work", [20.0, 600.0, 3000.0])
def test_a_step_takes_the_longest_of_its_parts(buffers, work):
    data = pipeline_data.of_plain("v5e", 32 << 10, work) | {"writes": [0] * PLAYED}
    found = pipeline_lanes.played(data, settings(buffers=buffers, work=work))
    latency, _ = roofline.LATENCY_CYCLES["v5e"]
    read = (32 << 10) * data["clock"] / data["bandwidth"]
    assert found.parts == pytest.approx(
        {"work": work, "bytes": read, "read": (latency + read + work) / buffers, "write": None}
    )
    assert found.step == pytest.approx(max(found.parts["work"], found.parts["read"]), rel=1e-6)
    assert found.bound == ("compute" if work > found.parts["read"] else "grid steps")


def test_a_few_steps_are_averaged_over_whole_turns_of_the_buffers():
    """With two buffers every second step waits: three steps would count the wait once or twice."""
    data = pipeline_data.of_plain("v5e", 32 << 10, 60.0) | {
        "writes": [0] * 6,
        "reads": [32 << 10] * 6,
        "alone": [0] * 6,
    }
    found = pipeline_lanes.played(data, settings(work=60.0))
    assert found.step == pytest.approx(found.parts["read"])


def test_what_binds_is_said_in_the_vocabularys_words():
    def bound(**given):
        chart = viz.pipeline_chart(**given)
        return dict(pipeline_words.readout(chart.data, chart.settings, chart.played))["binds"]

    assert bound() == "grid steps" and bound(work=3000) == "compute" and bound(block=8 << 20) == "HBM"
    assert bound(block=1 << 20, work=2 * (1 << 20) / 486, buffers=8) == "both"


def test_the_steps_are_those_that_roofline_adds_up():
    chart = CHARTS["matmul"]()
    data, s = chart.data, Settings(buffers=2, work=chart.work, latency="timings")
    found = pipeline_lanes.played(data, s)
    (kernel,) = roofline.load(
        functools.partial(matmul, blocks=(256, 256, 256)), array((1024, 1024)), array((1024, 512))
    ).kernels
    fitted, pace = roofline.FITTED["v5e"], 1 / data["bandwidth"]
    whole = roofline.pipeline.seconds(
        kernel.mxu_s * 0 + found.work / roofline.CLOCK_HZ["v5e"],
        kernel.reads * pace,
        kernel.writes * pace,
        kernel.alone * pace,
        read_s=fitted.read_s,
        write_s=fitted.write_s,
    )
    assert data["ends"] and found.steps[-1].gone == pytest.approx(whole * data["clock"], rel=0.003), (
        "clocks differ a bit"
    )


@pytest.mark.parametrize("name", CHARTS)
def test_no_two_things_happen_in_one_buffer_at_a_time(name):
    chart = CHARTS[name]()
    found, s = chart.played, chart.settings
    drawn = pipeline_lanes.bars(found, s)
    lanes = pipeline_lanes.lanes(chart.data, s)
    assert {bar.lane for bar in drawn} <= set(lanes) and "core" in lanes
    for lane in lanes:
        inside = sorted((bar.start, bar.end) for bar in drawn if bar.lane == lane)
        assert all(end <= start + 1e-6 for (_, end), (start, _) in itertools.pairwise(inside)), lane
    core = [bar for bar in drawn if bar.lane == "core"]
    assert sum(bar.end - bar.start for bar in core) == pytest.approx(found.end, abs=3), "it works or waits"
    assert max(bar.end for bar in drawn) <= found.end


def test_bubbles_are_where_the_core_waits():
    busy, idle = CHARTS["plain, much work"](), CHARTS["plain"]()
    assert [step for step, _, _ in busy.played.bubbles] == [0], "only the prologue"
    rows = dict(pipeline_words.readout(idle.data, idle.settings, idle.played))
    assert rows["bubbles"] == f"{len(idle.played.bubbles)} in the 8 steps shown"
    assert rows["the core waits"] == f"{100 * (1 - 250 / idle.played.step):.0f} %"
    short = CHARTS["short"]()
    last, start, end = short.played.bubbles[-1]
    assert last == len(short.played.steps) == 6 and end == short.played.end > start, "the drain"


def test_each_copy_names_the_buffer_that_it_fills():
    chart = viz.pipeline_chart(buffers=3)
    bars = pipeline_lanes.bars(chart.played, chart.settings)
    assert {(bar.step, bar.lane) for bar in bars if bar.kind == "latency" and bar.step < 7} == {
        (n, f"buffer {n % 3}") for n in range(7)
    }


def test_blocks_take_work_and_bytes_with_them():
    data = pipeline_data.of_plain("v5e", 32 << 10, 100.0) | {"scalar": 30.0}
    one, four = (pipeline_lanes.played(data, settings(work=100.0, block=block)) for block in (1.0, 4.0))
    assert (one.work, four.work) == (130.0, 430.0) and four.parts["bytes"] == pytest.approx(4 * one.parts["bytes"])
    said = pipeline_words.hints(data | {"notes": []}, settings(work=100.0, block=4.0), four)
    assert any("Blocks × 4: bytes and work are assumed to grow" in hint for hint in said)


def test_a_kernel_all_of_whose_reads_have_one_buffer_opens_with_one():
    assert CHARTS["one buffer"]().buffers == 1
    assert CHARTS["emit_pipeline"]().buffers == 2, "the other operand has two, and is waited for as well"
    row = CHARTS["a row alone"]()
    assert row.buffers == 2 and any(row.data["alone"]) and "one buffer" in pipeline_lanes.lanes(row.data, row.settings)


def test_it_says_which_blocks_move():
    assert CHARTS["a row alone"]().data["notes"][-1] == (
        "Blocks: x_ref in: 4 KiB, each step; y_ref in: 4 KiB, 4 of 16 steps; o_ref out: 4 KiB, each step."
    )
    assert "o_ref out: 32 KiB, stays" in CHARTS["one buffer"]().data["notes"][-1]
    assert "It copies by hand" in CHARTS["by hand"]().data["notes"][-1]
    assert "256 KiB, each step" in CHARTS["emit_pipeline"]().data["notes"][-1]


@needs_libtpu
def test_work_is_the_compilers_and_t_is_near_what_it_predicts():
    for buffers, name in ((1, "one buffer"), (2, "two")):
        fn = functools.partial(added_up, buffers=buffers)
        chart, report = viz.pipeline_chart(fn, TALL), compiler.compile_tpu(fn, TALL)
        assert chart.work == report.step["work"] and chart.data["scalar"] == report.step["scalar code"], name
        assert chart.played.step == pytest.approx(report.cycles / 256, rel=0.02), name
        rows = dict(pipeline_words.readout(chart.data, chart.settings, chart.played))
        assert rows["predicted (compiler)"].startswith(f"{report.cycles / 256:,.0f} cycles a step")
        chart.buffers = 4
        assert "predicted (compiler)" not in dict(pipeline_words.readout(chart.data, chart.settings, chart.played))


def test_without_a_compiler_the_models_work_is_taken_and_said():
    chart = CHARTS["matmul"]()
    assert "Work and scalar code: predicted (model)." in chart.data["notes"]
    assert chart.data["scalar"] == pytest.approx(0.10e-6 * chart.data["clock"])
    assert chart.data["compiled"] is None


@pytest.mark.parametrize("name", CHARTS)
def test_the_still_picture_holds_lanes_and_words(name):
    chart = CHARTS[name]()
    bundle = chart._repr_mimebundle_()[0]
    svg, said = bundle["image/svg+xml"], bundle["text/plain"]
    shown = words(svg)
    assert set(pipeline_lanes.lanes(chart.data, chart.settings)) <= set(shown)
    assert {"cycles", "us", "step"} <= set(shown)
    assert overflowing(svg) == [] and words_on_words(svg) == []
    assert not any(line.endswith("…") for line in shown)
    assert "predicted (model)" in said and said.splitlines()[1].startswith("  work, c: ")
    assert len(svg) < 60_000
    assert parsed(svg) is not None


def test_the_still_picture_follows_the_settings():
    chart = viz.pipeline_chart()
    chart.buffers, chart.shown, chart.work = 4, 5, 20
    svg = chart._repr_mimebundle_()[0]["image/svg+xml"]
    assert "buffer 3" in words(svg) and "4 buffers" in " ".join(words(svg))
    assert "work, c: 20 cycles" in chart._repr_mimebundle_()[0]["text/plain"]
    assert "in the 5 steps shown" in chart._repr_mimebundle_()[0]["text/plain"]


def test_ticks_are_round_and_few():
    for end in (0.3, 7, 80, 1234, 5e6):
        every = stride(end, 8)
        assert 2 <= end / every <= 8 and float(f"{every:.0e}"[0]) in (1, 2, 5)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (dict(buffers=0), "buffers=0 is not valid: it must be a whole number from 1 to 8"),
        (dict(buffers=2.0), "buffers=2.0 is not valid"),
        (dict(shown=33), "shown=33 is not valid: it must be a whole number from 1 to 32"),
        (dict(block=0), "block=0 is not valid"),
        (dict(work=0), "work=0 is not a number of cycles"),
        (dict(work=float("nan")), "work=nan is not a number of cycles"),
        (dict(latency="mine"), "latency='mine' is not known. Choose 'compiler' or 'timings'"),
        (dict(chip="v3"), "chip='v3' is not known"),
        (dict(fn=added_up, block=4096), "block=4096 is only for the plain kernel"),
    ],
    ids=lambda value: value if isinstance(value, str) else ", ".join(value),
)
def test_bad_input_is_refused_in_words(wrong, says):
    with pytest.raises(ValueError, match=says):
        viz.pipeline_chart(**wrong)


def test_a_function_without_a_kernel_and_one_that_reads_values_are_refused():
    with pytest.raises(ValueError, match="no kernel to show"):
        viz.pipeline_chart(lambda x: x + 1, VECTOR)
    with pytest.raises(ValueError):
        viz.pipeline_chart(gathered, array((64, 128)), array((8,), jnp.int32))
    assert kernel_chart(add, VECTOR, VECTOR).data["ends"]
