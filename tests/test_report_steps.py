"""What a Report says of a grid step, of bytes that take longer than the cycles, and of XLA's own code; and where the
model and the compiler disagree."""

import jax
import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from test_roofline import matmul as blocked
from viz_samples import add, bare, matmul

from course_lib import compiler, roofline
from course_lib.compiler.report import Op
from course_lib.viz.report import report_words

X = jax.ShapeDtypeStruct((1024, 1024), jnp.float32)
VECTOR = jax.ShapeDtypeStruct((1 << 16,), jnp.float32)
STEPS = matmul(steps=32, time_split={"issue": 16_000, "MXU": 3_200, "scalar": 1_600, "DMA wait": 3_200}, cycles=24_000)


def flat(report: object) -> str:
    return " ".join(str(report).split())


def test_a_step_is_work_scalar_code_and_waiting():
    assert STEPS.step == {"work": 600, "scalar code": 50, "waiting for copies": 100}
    says = (
        "750 cycles on average of 32: 600 work, 50 scalar code, 100 waiting for copies that an earlier step asked for"
    )
    assert f"a step {says}" in flat(STEPS)
    assert report_words.of_a_step(STEPS) == f"A step takes {says}."


@pytest.mark.parametrize("steps, helps", [(32, True), (8, True), (7, False)])
def test_steps_that_wait_for_copies_are_told_what_helps(steps, helps):
    report = matmul(steps=steps, time_split={"issue": 5_000, "DMA wait": 19_000}, cycles=24_000)
    assert ("asked for. Fewer, larger blocks would help, or more buffers" in flat(report)) == helps
    assert ("Fewer, larger blocks would help, or more buffers." in report_words.of_a_step(report)) == helps


@pytest.mark.parametrize("report", [matmul(), matmul(steps=32, time_split={}), bare()])
def test_where_there_are_no_steps_nothing_is_said_of_them(report):
    assert report.step == {} and "a step" not in flat(report) and report_words.of_a_step(report) == ""


def test_cycles_and_a_longer_time_are_both_right():
    """528,049 cycles and 982 us: the simulator lets all copies run at once."""
    report = bare(cycles=528_049, hbm_bytes=805_306_368, seconds=982e-6)
    says = (
        "the cycles take 351 us; but the simulator lets all copies run at once, each at full speed. The bytes take "
        "982 us at 820 GB/s, which is a lower bound on the time"
    )
    assert says in flat(report)
    assert report_words.floor(report) == f"T{says[1:]}."
    assert "all copies run at once" in flat(add())


@pytest.mark.parametrize("report", [matmul(), bare(), bare(cycles=5), matmul(chip="v6e", seconds=None)])
def test_where_the_time_is_that_of_the_cycles_nothing_is_explained(report):
    assert "run at once" not in flat(report) and report_words.floor(report) == ""


@needs_libtpu
@pytest.mark.parametrize(
    "fn, says", [(lambda x: jax.nn.softmax(x), True), (jnp.exp, True), (lambda x: jax.nn.relu(x @ x), False)]
)
def test_of_xlas_own_code_that_is_no_product_the_report_is_not_sure(fn, says):
    report = compiler.compile_tpu(fn, X)
    assert any("much of this is XLA's own code" in note for note in report.notes) == says
    assert report.steps is None and report.step == {}


@needs_libtpu
def test_of_a_kernel_alone_it_is_as_sure_as_ever():
    fn, args = blocked(512, 512, 512, 128, 128, 128)
    report = compiler.compile_tpu(fn, *args)
    assert report.steps == 64 and report.notes == ()
    assert sum(report.step.values()) == pytest.approx(report.cycles / 64)
    assert report.step["waiting for copies"] > report.step["work"] > report.step["scalar code"] > 0


# Where the model and the compiler disagree


def two(model: dict, report: compiler.Report) -> roofline.Opinions:
    facts = dict(
        chip="v5e", seconds=1e-5, compute_s=1e-6, memory_s=1e-6, steps_s=1e-6, overhead_s=0.0, flops=1, steps=1
    )
    return roofline.Opinions(model=roofline.Prediction(**facts | dict(hbm_bytes=1000) | model), compiler=report)


ONE_US = dict(cycles=15_000, seconds=10e-6, hbm_bytes=1000)
WAITS = {"DMA wait": 9_000, "issue": 6_000}
XLA = (Op(name="fusion", kind="fusion", cycles=15_000, hbm_bytes=1000, seconds=10e-6),)


@pytest.mark.parametrize("seconds", [9.1e-6, 10e-6, 10.9e-6])
def test_within_a_tenth_nothing_is_remarked(seconds):
    found = two({"seconds": seconds}, bare(**ONE_US))
    assert found.remark == "" and "more" not in str(found)
    assert flat(found).endswith("predicted (model), 10 us predicted (compiler).")


@pytest.mark.parametrize(
    "model, report, says",
    [
        ({"seconds": 7e-6}, bare(**ONE_US, time_split=WAITS), "a copy takes 760 ns, however small it is"),
        ({"seconds": 7e-6}, bare(**ONE_US), "operations that wait for one another, spills, scalar code"),
        ({"seconds": 7e-6, "hbm_bytes": 500}, bare(**ONE_US, ops=XLA), "the program moves 1,000"),
        ({"seconds": 7e-6, "steps": 0}, bare(**ONE_US, ops=XLA), "have nothing to hide behind"),
        ({"seconds": 11.3e-6}, bare(**ONE_US | {"hbm_bytes": 8_200_000}), "copies reach 89 % of it"),
        ({"seconds": 15e-6}, bare(**ONE_US), "In the model, they share the HBM"),
    ],
)
def test_beyond_a_tenth_the_longer_one_is_named_and_why(model, report, says):
    found = two(model, report)
    longer = "The compiler says" if model["seconds"] < 10e-6 else "The model says"
    assert found.remark.startswith(longer) and says in found.remark
    assert flat(found).endswith(found.remark)


def test_without_a_time_of_the_compiler_there_is_nothing_to_compare():
    found = two({}, bare())
    assert found.ratio is None and found.remark == "" and "no time predicted (compiler)" in str(found)


@needs_libtpu
def test_of_small_blocks_both_say_something_else():
    fn, args = blocked(512, 512, 512, 128, 128, 128)
    small = roofline.opinions(fn, *args)
    assert small.ratio < 0.8 and "With small blocks, trust the model" in small.remark
    assert small.model.bound == "grid steps" and small.compiler.bound == "waiting for copies"


@needs_libtpu
def test_larger_blocks_and_more_buffers_help_a_kernel_that_waits():
    """What a report advises, tried: 64 steps of 1024 numbers, then 8 of 8192; and four buffers in place of two."""
    few, many = (compiler.compile_tpu(add_in_blocks(size), VECTOR, VECTOR) for size in (8192, 1024))
    assert many.bound == "waiting for copies" and "larger blocks would help" in flat(many)
    assert few.cycles < many.cycles / 4
    two, four = (compiler.compile_tpu(piped(buffers), VECTOR) for buffers in (2, 4))
    assert two.bound == "waiting for copies" and four.cycles < 0.7 * two.cycles


def add_in_blocks(size):
    def add_kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    block = pl.BlockSpec((size,), lambda i: (i,))
    return pl.pallas_call(
        add_kernel, out_shape=VECTOR, grid=(VECTOR.size // size,), in_specs=[block, block], out_specs=block
    )


def piped(buffers):
    """The sum of blocks of 1024 numbers, read ``buffers - 1`` steps ahead."""

    def sum_kernel(x_hbm, o_ref):
        o_ref[...] = jnp.zeros_like(o_ref)

        def add(x_ref):
            o_ref[...] += x_ref[...]

        spec = pl.BlockSpec((1024,), lambda i: (i,), pipeline_mode=pl.Buffered(buffers))
        pltpu.emit_pipeline(add, grid=(64,), in_specs=[spec])(x_hbm)

    return pl.pallas_call(
        sum_kernel,
        out_shape=jax.ShapeDtypeStruct((1024,), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
    )
