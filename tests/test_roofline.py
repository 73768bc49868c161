"""The roofline: what it says of kernels and of XLA's operations, and how far off it is on published timings."""

import collections
import dataclasses
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from sweeps import daily

from course_lib import chips, grid, roofline
from course_lib.roofline import xla
from course_lib.roofline.constants import LATENCY_CYCLES, latency
from course_lib.viz.roof_plot import blocked_product
from course_lib.viz.roof_plot.roof_plot import readout

ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import bench_model  # noqa: E402
import published_kernels  # noqa: E402

V5E = roofline.FITTED["v5e"]
BANDWIDTH = 820e9 * V5E.hbm  # bytes/s


def array(*shape, dtype=jnp.bfloat16):
    return jax.ShapeDtypeStruct(shape, dtype)


def matmul(m, k, n, bm, bk, bn, dtype=jnp.bfloat16, precision=None, mode=None):
    def kernel(x_ref, y_ref, o_ref):
        @pl.when(pl.program_id(2) == 0)
        def start():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += jnp.dot(x_ref[...], y_ref[...], precision=precision, preferred_element_type=jnp.float32)

    call = pl.pallas_call(
        kernel,
        out_shape=array(m, n, dtype=jnp.float32),
        grid=(m // bm, n // bn, k // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, r: (i, r), pipeline_mode=mode),
            pl.BlockSpec((bk, bn), lambda i, j, r: (r, j), pipeline_mode=mode),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, r: (i, j)),
    )
    return call, (array(m, k, dtype=dtype), array(k, n, dtype=dtype))


def add(rows, block, operands=2):
    def kernel(*refs):
        *inputs, o_ref = refs
        o_ref[...] = inputs[0][...] + inputs[1][...]

    call = pl.pallas_call(
        kernel,
        out_shape=array(rows, 1024),
        grid=(rows // block,),
        in_specs=[pl.BlockSpec((block, 1024), lambda i: (i, 0))] * operands,
        out_specs=pl.BlockSpec((block, 1024), lambda i: (i, 0)),
    )
    return call, (array(rows, 1024),) * operands


def test_large_blocks_of_a_matmul_are_bound_by_compute():
    fn, args = matmul(8192, 8192, 8192, 512, 1024, 1024)
    predicted = roofline.predict(fn, *args)
    steps = 16 * 8 * 8
    assert predicted.bound == "compute"
    assert predicted.steps == steps
    assert predicted.compute_s == pytest.approx(2 * 8192**3 / 197e12)
    floor = predicted.compute_s / V5E.mxu + steps * V5E.issue_s
    assert floor < predicted.seconds < 1.05 * floor, "the arithmetic of a step hides the latency of its copies"


def test_the_first_copy_and_the_last_write_are_not_hidden():
    """One step: read, compute, write, one after the other."""
    predicted = roofline.predict(*flat(matmul(512, 512, 512, 512, 512, 512)))
    read, write = 2 * 512 * 512 * 2, 512 * 512 * 4
    core = 2 * 512**3 / 197e12 / V5E.mxu + V5E.issue_s
    assert predicted.seconds == pytest.approx((read + write) / BANDWIDTH + V5E.read_s + core + V5E.write_s)


def test_small_blocks_of_a_matmul_are_bound_by_the_steps():
    fn, args = matmul(4096, 4096, 4096, 128, 128, 128)
    predicted = roofline.predict(fn, *args)
    assert predicted.bound == "grid steps"
    assert predicted.steps == 32**3
    assert predicted.seconds > 32**3 * V5E.step_s > 10 * predicted.compute_s
    assert predicted.seconds == pytest.approx(max(predicted.compute_s, predicted.memory_s) + predicted.overhead_s)


def test_an_addition_is_bound_by_hbm():
    fn, args = add(65536, 1024)
    predicted = roofline.predict(fn, *args)
    moved = 3 * 65536 * 1024 * 2
    assert predicted.bound == "HBM"
    assert predicted.hbm_bytes == moved
    assert moved / BANDWIDTH <= predicted.seconds < 1.05 * moved / BANDWIDTH
    assert predicted.flops == 65536 * 1024


@pytest.mark.parametrize("block, bound", [(128, "grid steps"), (256, "grid steps"), (512, "compute")])
def test_what_binds_is_what_the_plot_says(block, bound):
    """At 256 the copies of all steps take longer than their arithmetic, but not longer than arithmetic and steps."""
    fn, args = matmul(8192, 8192, 8192, block, block, block)
    predicted = roofline.predict(fn, *args)
    assert predicted.bound == bound
    assert predicted.steps_s == pytest.approx(predicted.steps * V5E.step_s)
    product = blocked_product.Product(m=8192, k=8192, n=8192, blocks=(block,) * 3, dtype="bfloat16")
    assert dict(readout(product, blocked_product.rates(chip="v5e")))["binds"] == bound


@pytest.mark.parametrize("block", [8, 64, 512])
def test_more_bytes_never_predict_less_time(block):
    times = [roofline.predict(*flat(add(8192, block, operands))).seconds for operands in (2, 3, 4, 6)]
    assert times == sorted(times)


@pytest.mark.parametrize("chip", roofline.FITTED)
def test_more_bytes_never_predict_less_time_in_a_matmul(chip):
    """Wider operands, at random blocks: the arithmetic stays, the bytes double."""
    random = np.random.default_rng(0)
    for _ in range(10):
        blocks = 128 * 2 ** random.integers(0, 3, 3)
        narrow, wide = (
            roofline.predict(*flat(matmul(1024, 1024, 1024, *blocks.tolist(), dtype=dtype)), chip=chip)
            for dtype in (jnp.bfloat16, jnp.float32)
        )
        assert wide.hbm_bytes > narrow.hbm_bytes
        assert wide.seconds >= narrow.seconds
        assert wide.compute_s == pytest.approx(narrow.compute_s)


def flat(program):
    fn, args = program
    return fn, *args


def test_more_bandwidth_and_cheaper_steps_never_predict_more_time():
    load = roofline.load(*flat(matmul(2048, 2048, 2048, 256, 512, 256)))
    base = roofline.time_of(load, V5E).seconds
    for better in ({"hbm": 1.0}, {"issue_s": 0.0}, {"read_s": 0.0}, {"mxu": 1.0}):
        assert roofline.time_of(load, dataclasses.replace(V5E, **better)).seconds < base, better
    assert roofline.time_of(load, dataclasses.replace(V5E, write_s=0.0)).seconds <= base


def test_one_buffer_hides_nothing():
    two = roofline.predict(*flat(matmul(2048, 2048, 2048, 512, 512, 512)))
    one = roofline.predict(*flat(matmul(2048, 2048, 2048, 512, 512, 512, mode=pl.Buffered(1))))
    assert one.hbm_bytes == two.hbm_bytes
    assert one.seconds > one.compute_s + 0.7 * one.memory_s
    assert one.seconds > two.seconds


def test_float32_at_highest_precision_takes_six_passes():
    six = roofline.predict(*flat(matmul(512, 512, 512, 256, 256, 256, jnp.float32, jax.lax.Precision.HIGHEST)))
    one = roofline.predict(*flat(matmul(512, 512, 512, 256, 256, 256, jnp.float32)))
    assert six.compute_s == pytest.approx(6 * one.compute_s)


def test_an_mxu_is_filled_in_whole_squares():
    half = roofline.predict(lambda x, y: x @ y, array(1024, 64), array(64, 1024))
    full = roofline.predict(lambda x, y: x @ y, array(1024, 128), array(128, 1024))
    assert half.compute_s == pytest.approx(full.compute_s)
    assert half.flops == full.flops / 2


def test_bytes_multiply_faster_than_floats_where_the_chip_can():
    fn, args = jnp.matmul, (array(2048, 2048, dtype=jnp.int8),) * 2
    wide = (array(2048, 2048),) * 2
    assert roofline.predict(fn, *args).compute_s == pytest.approx(roofline.predict(fn, *wide).compute_s / 2)
    assert roofline.predict(fn, *args, chip="v4").compute_s == pytest.approx(
        roofline.predict(fn, *wide, chip="v4").compute_s
    )


def test_vector_work_counts():
    def kernel(x_ref, o_ref):
        x = x_ref[...]
        for _ in range(64):
            x = jnp.tanh(x)
        o_ref[...] = x

    block = pl.BlockSpec((256, 1024), lambda i: (i, 0))
    shape = array(4096, 1024, dtype=jnp.float32)
    fn = pl.pallas_call(kernel, out_shape=shape, grid=(16,), in_specs=[block], out_specs=block)
    predicted = roofline.predict(fn, shape)
    assert predicted.bound == "compute"
    assert predicted.compute_s == pytest.approx(64 * 4096 * 1024 / (8 * 128 * chips.chip("v5e").clock_hz))


def test_an_emit_pipeline_costs_what_its_pallas_call_costs():
    call, args = matmul(1024, 1024, 1024, 256, 256, 256)

    def inner(x_ref, y_ref, o_ref):
        @pl.when(pl.program_id(2) == 0)
        def start():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    def body(*refs):
        pltpu.emit_pipeline(
            inner,
            grid=(4, 4, 4),
            in_specs=[
                pl.BlockSpec((256, 256), lambda i, j, r: (i, r)),
                pl.BlockSpec((256, 256), lambda i, j, r: (r, j)),
            ],
            out_specs=[pl.BlockSpec((256, 256), lambda i, j, r: (i, j))],
        )(*refs)

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    fn = pl.pallas_call(
        body, out_shape=array(1024, 1024, dtype=jnp.float32), in_specs=[anywhere] * 2, out_specs=anywhere
    )
    by_hand, automatic = roofline.predict(fn, *args), roofline.predict(call, *args)
    assert by_hand.steps == automatic.steps == 64
    assert by_hand.hbm_bytes == automatic.hbm_bytes
    assert by_hand.seconds == pytest.approx(automatic.seconds, rel=1e-3)


def test_xla_fuses_elementwise_work_into_a_product():
    x, y = array(1024, 2048), array(2048, 512)
    predicted = roofline.predict(lambda x, y: jax.nn.relu(2 * x @ y) + 1, x, y)
    assert predicted.hbm_bytes == 2 * (1024 * 2048 + 2048 * 512 + 1024 * 512)
    assert predicted.steps == 0
    assert predicted.compute_s == pytest.approx(2 * 1024 * 2048 * 512 / 197e12 / V5E.mxu)


def test_what_one_product_makes_and_the_next_reads_passes_through_hbm():
    x = array(512, 512)
    one = 2 * 512 * 512  # read, written; read twice, written
    assert roofline.predict(lambda x: jax.nn.relu(x @ x) @ x, x).hbm_bytes == 2 * one + 3 * one
    assert roofline.predict(lambda x: x + 1, x).hbm_bytes == 2 * one


def test_a_result_returned_twice_is_copied():
    x = array(512, 512)
    once, twice = (roofline.predict(fn, x).hbm_bytes for fn in (lambda x: x @ x, lambda x: (x @ x,) * 2))
    assert twice - once == 2 * 2 * 512 * 512


def test_what_surrounds_a_kernel_counts():
    fn, args = add(8192, 512)
    alone = roofline.predict(fn, *args)
    with_more = roofline.predict(lambda x, y: fn(jnp.exp(x), y).astype(jnp.float32), *args)
    assert with_more.hbm_bytes == alone.hbm_bytes + 8192 * 1024 * (2 + 2) + 8192 * 1024 * (2 + 4)
    assert with_more.seconds > alone.seconds
    assert roofline.predict(lambda x, y: fn(x.reshape(8192, 1024), y), *args).seconds == alone.seconds


def test_a_loop_multiplies():
    def turns(n):
        return lambda x: jax.lax.scan(lambda c, _: (c @ c, None), x, length=n)[0]

    one, five = (roofline.predict(turns(n), array(512, 512)) for n in (1, 5))
    assert five.compute_s == pytest.approx(5 * one.compute_s)
    looped = roofline.predict(lambda x: jax.lax.while_loop(lambda c: c[0, 0] > 0, lambda c: c @ c, x), array(512, 512))
    assert "length of a loop" in looped.doubt and "Uncertain" in str(looped)


def test_a_kernel_in_a_loop_runs_every_turn():
    fn, (x, y) = add(4096, 512)
    looped = roofline.predict(lambda x, y: jax.lax.fori_loop(0, 3, lambda _, c: fn(c, y), x), x, y)
    assert looped.seconds == pytest.approx(3 * roofline.predict(fn, x, y).seconds)


def test_skipped_products_cost_a_step_and_nothing_else():
    rows = {row["id"]: row for row in published_kernels.rows()}
    ((fn, args),) = published_kernels.programs(rows["jax-masked-matmul-16384"])
    (kernel,) = roofline.load(fn, *args).kernels
    steps, busy = 32 * 32 * 16, 16 * (32 * 33 // 2)
    assert len(kernel.mxu_s) == steps
    assert np.count_nonzero(kernel.mxu_s) == busy
    assert kernel.mxu_s.sum() == pytest.approx(busy * 2 * 512 * 512 * 1024 / 197e12)


def test_elementwise_operations_know_their_fusion():
    walk = grid.walk(lambda x: jnp.sum(jax.nn.softmax(x @ x), axis=1), array(256, 256))
    (fusion,) = xla.fusions(walk.jaxpr, chips.chip("v5e"))
    assert fusion.mxu_s == pytest.approx(2 * 256**3 / chips.chip("v5e").bf16_flops)
    assert fusion.bytes == 2 * 256 * 256 + 2 * 256


@pytest.mark.parametrize(("fn", "word"), [(jnp.sort, "sort"), (jnp.fft.fft, "fft")])
def test_what_is_only_a_lower_bound_says_so(fn, word):
    predicted = roofline.predict(fn, array(256, 256, dtype=jnp.float32))
    assert f"only the bytes of `{word}` are counted" in predicted.doubt
    assert predicted.memory_s > 0


@pytest.mark.parametrize("chip", roofline.FITTED)
def test_a_latency_is_cycles_of_the_chips_clock(chip):
    read, write = LATENCY_CYCLES[chip]
    clock_hz = chips.chip(chip).clock_hz
    one, other = latency(1.0, chip=chip).values()
    assert one / other == pytest.approx(read / write)
    assert clock_hz is None or (one * clock_hz, other * clock_hz) == pytest.approx((read, write))


def test_ridge_points():
    assert roofline.ridge_point() == pytest.approx(197e12 / 820e9)
    assert roofline.ridge_point(dtype=jnp.int8) == pytest.approx(2 * roofline.ridge_point())
    assert roofline.ridge_point(chip="v6e") > roofline.ridge_point(chip="v5e")
    with pytest.raises(ValueError, match="dtype='int8' has no MXU rate on v4. Choose one of: bfloat16, float32."):
        roofline.ridge_point(chip="v4", dtype="int8")
    with pytest.raises(ValueError, match="dtype='float64'"):
        roofline.ridge_point(dtype="float64")


def test_intensity():
    x = array(1024, 1024)
    assert roofline.intensity(jnp.matmul, x, x) == pytest.approx(1024 / 3)
    assert roofline.intensity(lambda: None) == float("inf")


@pytest.mark.parametrize("function", [roofline.predict, roofline.intensity, roofline.load])
def test_an_unknown_chip_is_named(function):
    with pytest.raises(ValueError, match="chip='v9' is not known. Choose one of: v4, v5e"):
        function(jnp.sin, array(8, 128), chip="v9")


def test_a_chip_without_timings_says_so():
    predicted = roofline.predict(jnp.matmul, array(512, 512), array(512, 512), chip="v4")
    assert "No published timings of a v4" in str(predicted)


def test_a_prediction_prints_what_binds_and_how_far_to_trust_it():
    fn, args = matmul(4096, 4096, 4096, 128, 128, 128)
    predicted = roofline.predict(fn, *args)
    text = str(predicted)
    assert text.startswith("11.7 ms on a v5e, predicted (model), bound by grid steps.")
    unfolded = " ".join(text.split())
    assert "grid steps 9.73 ms (32,768), of which copy latency 6.45 ms." in unfolded
    assert "Fewer, larger blocks would help, or more buffers" in unfolded
    assert predicted.latency_s == pytest.approx(predicted.steps_s - 32_768 * V5E.issue_s)
    assert f"On {roofline.HELD_OUT['v5e'][0]} published timings" in text
    assert max(map(len, text.splitlines())) <= 94
    assert predicted.wall_s == predicted.seconds + roofline.DISPATCH_S


def in_blocks(kernel, n, semantics, inputs=2):
    """A kernel over 4 x 4 blocks of n x n arrays."""
    block = pl.BlockSpec((n // 4, n // 4), lambda i, j: (i, j))
    return lambda *arrays: pl.pallas_call(
        kernel, out_shape=arrays[0], grid=(4, 4), in_specs=[block] * inputs, out_specs=block,
        compiler_params=pltpu.CompilerParams(dimension_semantics=semantics),
    )(*arrays)  # fmt: skip


@pytest.mark.parametrize("semantics", [("parallel", "arbitrary"), ("arbitrary", "parallel")])
def test_two_cores_share_a_parallel_axis_and_the_memory(semantics):
    """Arithmetic is halved, and an addition, which waits for the HBM of both, gains next to nothing."""

    def squared(x_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], x_ref[...], preferred_element_type=jnp.float32)

    def add(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    x, alone = jax.ShapeDtypeStruct((4096, 4096), jnp.float32), ("arbitrary", "arbitrary")
    for chip, factor in (("v5p", 0.5), ("v5e", 1)):
        one, two = (roofline.predict(in_blocks(squared, 4096, how, 1), x, chip=chip) for how in (alone, semantics))
        assert two.compute_s == pytest.approx(factor * one.compute_s)
        assert two.hbm_bytes == one.hbm_bytes and two.steps == one.steps
        one, two = (roofline.predict(in_blocks(add, 4096, how), x, x, chip=chip) for how in (alone, semantics))
        assert two.memory_s == pytest.approx(one.memory_s)
        assert 0.9 * one.seconds < two.seconds <= one.seconds * 1.001


def test_what_travels_between_devices_is_not_counted_and_said():
    mesh = jax.sharding.AbstractMesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    spread = jax.shard_map(lambda x: 2 * x, mesh=mesh, in_specs=jax.P("d"), out_specs=jax.P("d"))
    x = jax.ShapeDtypeStruct((64, 128), jnp.float32)
    assert "between devices is not counted" in roofline.predict(spread, x).doubt
    assert not roofline.predict(lambda x: 2 * x, x).doubt


def test_a_prediction_needs_no_compiler():
    code = (
        "import sys, jax, jax.numpy as jnp; from course_lib import roofline; "
        "x = jax.ShapeDtypeStruct((512, 512), jnp.bfloat16); roofline.predict(jnp.matmul, x, x); "
        "assert not [m for m in sys.modules if 'libtpu' in m]"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_what_nobody_timed_is_not_trusted():
    x = jax.ShapeDtypeStruct((2048, 2048), jnp.float32)
    assert "published timings" in str(roofline.predict(jnp.matmul, x, x))
    said = str(roofline.predict(lambda x: jax.nn.softmax(x), x))
    assert "Most of this is not matmul" in said and "were off by" not in said


def test_nothing_left_over_is_nothing():
    x = jax.ShapeDtypeStruct((2048, 2048), jnp.float32)
    predicted = roofline.predict(jax.vmap(lambda row: jax.nn.softmax(row)), x)
    assert predicted.overhead_s == 0.0 and "HBM: 0 ns." in str(predicted)
    assert repr(predicted) == str(predicted)


def test_a_kernel_that_cannot_be_in_vmem_is_doubted():
    def copy(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    x = jax.ShapeDtypeStruct((8192, 8192), jnp.float32)
    predicted = roofline.predict(lambda x: pl.pallas_call(copy, out_shape=x)(x), x)
    assert "needs 512 MiB of VMEM and a v5e has 128 MiB, so it cannot run" in " ".join(str(predicted).split())


def test_a_grid_without_steps_takes_no_time():
    def copy(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    x = jax.ShapeDtypeStruct((64, 128), jnp.float32)
    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    none = pl.pallas_call(copy, out_shape=x, grid=(0,), in_specs=[spec], out_specs=spec)
    assert roofline.predict(none, x).seconds == 0


# The published timings.


def test_measured_rows_are_well_formed():
    rows = published_kernels.rows()
    assert len(rows) == len({row["id"] for row in rows})
    counted = collections.Counter(row["chip"] for row in rows)
    assert counted["v5e"] >= 25 and len(counted) >= 4
    for row in rows:
        assert row["source"].startswith("https://github.com/"), row["id"]
        assert row["licence"] == "Apache-2.0"
        assert chips.chip(row["chip"])
        assert row["implementation"] in ("pallas", "xla")
        assert row["split"] in ("fit", "held-out", "twin")
        assert 1e-6 < float(row["seconds"]) < 1
        assert row["timing"].startswith(("host clock", "device time"))
        assert (row["dispatches"] == "0") == row["timing"].startswith("device time")
        assert np.dtype(row["dtype"]) and np.dtype(row["out_dtype"])
        assert published_kernels.numbers(row["shape"])
        assert bool(row["blocks"]) == (row["implementation"] == "pallas")
        assert row["versions"] and row["family"]
        if row["groups"]:
            sizes = published_kernels.numbers(row["shape"])
            groups = published_kernels.group_sizes(row["groups"], sizes["m"])
            assert len(groups) == sizes["g"] and groups.sum() == sizes["m"]


def test_the_page_explains_every_column():
    page = (ROOT / "docs/measured.md").read_text()
    for column in published_kernels.rows()[0]:
        assert f"`{column}`" in page, column


def test_no_timing_beats_the_roofs():
    """Every published time is longer than its arithmetic at the chip's peak."""
    for row in published_kernels.rows():
        if row["implementation"] == "pallas" and not row["unpredicted"]:
            compute = sum(kernel.mxu_s.sum() for load in bench_model.loads_of(row) for kernel in load.kernels)
            assert float(row["seconds"]) > compute, row["id"]


def test_every_row_is_predicted_or_says_why_not():
    for row in published_kernels.rows():
        if not row["unpredicted"]:
            assert published_kernels.programs(row), row["id"]


@pytest.mark.parametrize("chip", daily("v5e", of=["v5e", "v5p", "v6e", "tpu7x"]))
def test_the_constants_are_what_the_fit_gives(chip):
    rows = [row for row in published_kernels.rows() if row["chip"] == chip]
    found = bench_model.fit(bench_model.timed(rows, "fit"), chip)
    shipped = bench_model.shipped(chip)
    for name, (unit, _, _) in bench_model.GRID.items():
        assert found[name] == pytest.approx(shipped[name], abs=1.01 * unit), name


@pytest.mark.parametrize(
    ("chip", "median", "worst"), [("v5e", 0.05, 0.15), ("v5p", 0.05, 0.15), ("v6e", 0.05, 0.25), ("tpu7x", 0.05, 0.12)]
)
def test_rows_left_out_of_the_fit_are_predicted(chip, median, worst):
    rows = [row for row in published_kernels.rows() if row["chip"] == chip]
    found = bench_model.errors(bench_model.timed(rows, "held-out"), bench_model.shipped(chip))
    assert found == pytest.approx(roofline.HELD_OUT[chip], abs=0.001)
    assert found[1] <= median and found[2] <= worst


def test_a_worse_model_would_be_noticed():
    """Without the latency of copies, or without the core's part of a step, the rows are predicted far worse."""
    rows = bench_model.timed([row for row in published_kernels.rows() if row["chip"] == "v5e"])
    shipped = bench_model.shipped("v5e")
    _, _, worst = bench_model.errors(rows, shipped)
    _, _, without = bench_model.errors(rows, shipped | {"latency": 0.0})
    assert without > 0.5 > 3 * worst
    _, _, neither = bench_model.errors(rows, shipped | {"latency": 0.0, "issue_s": 0.0})
    assert neither > without
