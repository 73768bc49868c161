"""The grid player's data, its words and its still picture. What it does in a browser is tested in tests/browser."""

import collections
import json
import re
import xml.etree.ElementTree as ElementTree
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from player_samples import SAMPLES, by_hand, copied, in_order, square
from sample_kernels import TENSOR_CORE, array
from test_grid import matmul
from test_grid_following import WB, XB, small_pipeline

from course_lib import cost, grid, viz
from course_lib.viz.grid_player import grid_step

SVG = "{http://www.w3.org/2000/svg}"


def kernel_of(name: str) -> dict:
    fn, args = SAMPLES[name]
    return viz.grid_player(fn, *args).kernels[0]


def by_operand(rows) -> dict:
    """(copies, bytes) per name and direction; a pipeline may have several buffers for one array."""
    found = collections.Counter()
    for name, direction, copies, size in rows:
        found[name, direction, "copies"] += copies
        found[name, direction, "bytes"] += size
    return dict(found)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_ledger_ends_where_the_traffic_is(name):
    fn, args = SAMPLES[name]
    kernel = kernel_of(name)
    at_the_end = grid_step.ledger(kernel, kernel["steps"] - 1)
    assert all((row["copies"], row["bytes"]) == (row["of"], row["of_bytes"]) for row in at_the_end)
    counted = by_operand((row["name"], row["direction"], row["copies"], row["bytes"]) for row in at_the_end)
    traffic = cost.traffic(grid.walk(fn, *args))
    assert counted == by_operand((row.name, row.direction, row.copies, row.bytes) for row in traffic)


@pytest.mark.parametrize("name", [name for name in SAMPLES if name != "pipeline"])
def test_the_frames_are_the_walk(name):
    fn, args = SAMPLES[name]
    (call,) = grid.walk(fn, *args).calls
    kernel = kernel_of(name)
    assert kernel["grid"] == list(call.grid)
    for shown, operand in zip(kernel["operands"], call.operands, strict=True):
        at_each_step = np.repeat(shown["visits"], shown["lengths"])
        np.testing.assert_array_equal(shown["indices"][at_each_step], operand.indices)
        np.testing.assert_array_equal(shown["starts"][at_each_step], operand.starts)
        np.testing.assert_array_equal(shown["bytes"][at_each_step], operand.block_bytes)
        assert np.flatnonzero(shown["outside"][at_each_step]).tolist() == operand.outside().tolist()
        visits, first = shown["visits"], np.flatnonzero(operand.changes)
        again = np.flatnonzero(shown["since"])
        assert [(visits[r], visits[r - shown["since"][r]]) for r in again] == [(visits[r], visits[r]) for r in again]
        assert [(first[r - shown["since"][r] + 1] - 1, first[r]) for r in again] == [
            (again.before.last, again.visit.first) for again in grid.returns(operand)
        ]


@pytest.mark.parametrize("step", range(0, 64, 7))
def test_the_ledger_counts_up_to_a_step(step):
    (call,) = grid.walk(*[SAMPLES["matmul"][0], *SAMPLES["matmul"][1]]).calls
    rows = grid_step.ledger(kernel_of("matmul"), step)
    for row, operand in zip(rows, call.operands, strict=True):
        moved = (operand.fetched | operand.written)[: step + 1]
        assert (row["copies"], row["bytes"]) == (moved.sum(), operand.block_bytes[: step + 1][moved].sum())


def test_the_words_of_a_step():
    kernel = kernel_of("matmul")
    assert grid_step.caption(kernel, 38) == (
        "Step 39 of 64, grid index (2, 1, 2). x_ref block (2, 2): copied in. y_ref block (2, 1): copied in. "
        "o_ref block (2, 1): stays, no copy. In o_ref: 3 of 4 parts. HBM traffic so far: 2,850,816 bytes."
    )
    assert "o_ref block (2, 1): written back after this step" in grid_step.caption(kernel, 39)
    assert "order_ref: in SMEM from the start. x_ref block (2, 0): same block, no copy." in grid_step.caption(
        kernel_of("prefetch"), 1
    )
    assert "x_hbm: 2 copies by the kernel itself." in grid_step.caption(kernel_of("by hand"), 0)
    assert "x_hbm: 1 copy by the kernel itself." in grid_step.caption(kernel_of("by hand"), 1)
    assert "x_ref window at element (-8, 0): copied in" in grid_step.caption(kernel_of("padded windows"), 0)
    assert grid_step.caption(kernel_of("no grid"), 0).startswith("Step 1 of 1, grid index (). a_ref block ():")


def test_what_is_carried_from_step_to_step():
    kernel = kernel_of("carried")
    assert [each["name"] for each in kernel["accumulators"]] == ["p_ref", "acc_ref"]
    said = [grid_step.caption(kernel, step).partition(" In p_ref: ")[2].partition(" HBM")[0] for step in (0, 3, 4)]
    assert said == [
        "garbage and 1 part. In acc_ref: garbage, zeroed, 1 of 4 parts.",
        "garbage and 4 parts. In acc_ref: 4 of 4 parts, stored to o_ref.",
        "garbage and 1 part. In acc_ref: old value, zeroed, 1 of 4 parts.",
    ]


@pytest.mark.parametrize("name", ["carried", "matmul", "large"])
def test_the_still_shows_a_sum_that_is_half_done(name):
    kernel = kernel_of(name)
    step = grid_step.telling_step(kernel)
    assert all(1 < each["parts"][step] < each["of"][step] for each in kernel["accumulators"])


def test_garbage_is_hatched_in_the_still():
    fn, args = SAMPLES["carried"]
    svg = viz.grid_player(fn, *args)._repr_mimebundle_()[0]["image/svg+xml"]
    assert len(re.findall('fill="#fbe3c0"', svg)) == 4 and 'fill="#d55e00" font-weight="600">garbage and 3 parts' in svg


def test_a_kernel_that_carries_nothing_says_nothing_of_it():
    for name in ("ragged", "revisits", "pipeline"):
        assert kernel_of(name)["accumulators"] == []
    fn, args = SAMPLES["ragged"]
    assert "Carried" not in viz.grid_player(fn, *args)._repr_mimebundle_()[0]["image/svg+xml"]


def test_an_illegal_revisit_is_told_where_it_happens():
    kernel = kernel_of("revisits")
    assert grid_step.problems(kernel, 15) == []
    assert grid_step.problems(kernel, 16) == [
        "o_ref block (0, 0) was written back after step 1 (0, 0, 0) and is visited again at step 17 (1, 0, 0): "
        "it is not copied in again."
    ]
    (call,) = grid.walk(in_order("kij"), square(512), square(512)).calls
    assert grid_step.problem_steps(kernel).tolist() == [again.visit.first for again in grid.returns(call.outputs[0])]
    assert len(grid_step.problem_steps(kernel_of("matmul"))) == 0, "inputs may be fetched again"
    assert len(grid_step.problem_steps(kernel_of("one output block"))) == 0, "a block that stays is not come back to"


def test_blocks_outside_of_the_array_are_told():
    kernel = kernel_of("outside")
    assert grid_step.problem_steps(kernel).tolist() == [3]
    assert grid_step.problems(kernel, 3)[1] == (
        "o_ref block (4, 0) at step 4 (3,) lies outside the array: float32[32, 1] has 4 x 1 blocks of (8, 1), "
        "counted from 0."
    )
    assert "o_ref: 1 of its 4 blocks are never visited, so nothing is written there." in kernel["notes"]


def test_the_pipeline_inside_a_pl_kernel_can_be_stepped_through():
    (kernel,) = viz.grid_player(small_pipeline, XB, WB).kernels
    assert kernel["grid"] == [2, 4, 3] and kernel["title"].endswith(", its pipeline")
    assert "x_hbm block (0, 2): copied in. y_hbm block (2, 1): copied in. o_hbm block (0, 1)" in grid_step.caption(
        kernel, 5
    )


def test_each_pipeline_of_a_pl_kernel_is_a_grid_of_its_own():
    def kernel(x_hbm, o_hbm):
        def body(x_ref, o_ref):
            o_ref[...] = x_ref[...]

        spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
        for _ in range(2):
            pltpu.emit_pipeline(body, grid=(4,), in_specs=[spec], out_specs=[spec])(x_hbm, o_hbm)

    x = array((32, 128))
    player = viz.grid_player(lambda x: pl.kernel(kernel, out_type=x, mesh=TENSOR_CORE)(x), x)
    assert [k["title"] for k in player.kernels] == ["kernel, pipeline 1 of 2", "kernel, pipeline 2 of 2"]
    for shown in player.kernels:
        assert [row["bytes"] for row in grid_step.ledger(shown, 3)] == [x.size * 4, x.size * 4]
        assert shown["notes"] == []


def in_a_loop(waits_for_all=True):
    """One step; x is copied to VMEM by hand in a loop, o by its BlockSpec."""

    def kernel(x_hbm, o_ref, buffer, sems):
        def copy(n, half):
            return pltpu.make_async_copy(x_hbm.at[pl.ds(8 * n, 8)], buffer.at[half], sems.at[half])

        copy(0, 0).start()

        def turn(n, carry):
            @pl.when(n < (3 if waits_for_all else 4))
            def fetch_next():
                copy((n + 1) % 4, (n + 1) % 2).start()

            copy(n, n % 2).wait()
            o_ref[pl.ds(8 * n, 8)] = buffer[n % 2]
            return carry

        jax.lax.fori_loop(0, 4, turn, 0)

    x = array((32, 128))
    scratch = [pltpu.VMEM((2, 8, 128), jnp.float32), pltpu.SemaphoreType.DMA((2,))]
    specs = {"in_specs": [pl.BlockSpec(memory_space=pl.ANY)], "scratch_shapes": scratch}
    return pl.pallas_call(kernel, out_shape=x, **specs), (x,)


def test_what_lies_outside_of_a_pipeline_is_a_grid_too():
    fn, args = in_a_loop()
    loop, whole = viz.grid_player(fn, *args).kernels
    assert (loop["title"], whole["title"]) == ("kernel, its pipeline", "kernel, whole kernel")
    assert (
        "Outside its pipeline, the kernel moves 16,384 more bytes: choose the whole kernel to see them."
        in loop["notes"]
    )
    total = sum(row.bytes for row in cost.traffic(grid.walk(fn, *args)))
    assert sum(row["bytes"] for row in grid_step.ledger(whole, 0)) == total == 2 * 32 * 128 * 4


def test_a_loop_that_is_no_pipeline_is_shown_as_one_step():
    fn, args = in_a_loop(waits_for_all=False)
    (kernel,) = viz.grid_player(fn, *args).kernels
    assert kernel["notes"][0].startswith("Its loop is shown as one step: kernel does not wait once for each copy")
    total = sum(row.bytes for row in cost.traffic(grid.walk(fn, *args)))
    assert sum(row["bytes"] for row in grid_step.ledger(kernel, 0)) == total == (32 + 8 + 32) * 128 * 4


def test_one_of_several_kernels_is_chosen():
    def twice(x, y):
        return matmul(matmul(x, y), y, "jik")

    x = square(256)
    player = viz.grid_player(twice, x, x, call=1)
    assert (player.call, len(player.kernels)) == (1, 2)
    assert viz.grid_player(twice, x, x, call="kernel").call == 0
    for wrong in (2, "matmul"):
        with pytest.raises(ValueError, match=rf"call={wrong!r} is not a grid .* 0: 'kernel', 1: 'kernel'"):
            viz.grid_player(twice, x, x, call=wrong)


def test_what_is_counted_is_one_run():
    x = square(256)
    looped = viz.grid_player(lambda x: jax.lax.fori_loop(0, 3, lambda _, v: matmul(v, v), x), x)
    assert "runs this kernel 3 times; the counts here are those of one run" in looped.kernels[0]["notes"][0]
    open_ended = viz.grid_player(lambda x: jax.lax.while_loop(lambda v: v[0, 0] < 9, lambda v: matmul(v, v), x), x)
    assert "How often the function runs this kernel depends on data" in open_ended.kernels[0]["notes"][0]


def test_copies_that_depend_on_data_are_not_counted_and_that_is_said():
    fn, args = by_hand(depends_on_data=True)
    (kernel,) = viz.grid_player(fn, *args).kernels
    assert kernel["uncounted"]
    assert "The copies that kernel makes by hand are not counted" in kernel["notes"][-1]
    assert [lane["name"] for lane in kernel["lanes"]] == ["o_ref"]


def test_what_it_cannot_show_is_said():
    with pytest.raises(grid.UnreadableCall, match="no pallas_call"):
        viz.grid_player(jnp.sin, array((8, 128)))
    fn, args = copied((8, 128), (8, 128), (0,), lambda i: (0, 0))
    with pytest.raises(grid.UnreadableCall, match=r"kernel has the grid \(0,\): it has no step"):
        viz.grid_player(fn, *args)
    fn, args = copied((8, 128), (8, 128), (1001, 1000), lambda i, j: (0, 0))
    with pytest.raises(grid.UnreadableCall, match="1,001,000 steps; the player takes up to 1,000,000"):
        viz.grid_player(fn, *args)


def test_a_kernel_that_cannot_be_shown_does_not_hide_the_others():
    empty, _ = copied((8, 128), (8, 128), (0,), lambda i: (0, 0))
    whole, args = copied((8, 128), (8, 128), (1,), lambda i: (0, 0))
    player = viz.grid_player(lambda x: empty(whole(x)), *args)
    assert len(player.kernels) == 1
    (said,) = player.data["unreadable"]
    assert "it has no step" in said


@pytest.mark.parametrize("name", SAMPLES)
def test_the_browser_gets_the_same_arrays(name):
    fn, args = SAMPLES[name]
    player = viz.grid_player(fn, *args)
    raw = zlib.decompress(player.frames)
    json.dumps(player.data)  # words and numbers only

    def compare(words, arrays):
        if isinstance(arrays, np.ndarray):
            found = np.frombuffer(raw, words["type"], words["count"], words["at"])
            if found.dtype.kind != "f":
                found = np.cumsum(found.reshape(max(1, words["columns"]), -1), axis=1, dtype=found.dtype).T
            np.testing.assert_array_equal(found, arrays.reshape(found.shape))
            assert words["at"] % 8 == 0
        elif isinstance(arrays, dict):
            assert words.keys() == arrays.keys()
            for key in arrays:
                compare(words[key], arrays[key])
        elif isinstance(arrays, list):
            for one, other in zip(words, arrays, strict=True):
                compare(one, other)
        else:
            assert words == arrays

    compare(player.data["kernels"], player.kernels)


def test_ten_thousand_steps_take_little_room():
    fn, args = copied((8 * 100, 128 * 100), (8, 128), (100, 100), lambda i, j: (i, j), lambda i, j: (j, i))
    player = viz.grid_player(fn, *args)
    assert player.kernels[0]["steps"] == 10_000
    sent = len(player.frames) + len(json.dumps(player.data))
    assert sent < 20_000, f"{sent:,} bytes"


@pytest.mark.parametrize("name", SAMPLES)
def test_the_still_picture(name):
    fn, args = SAMPLES[name]
    player = viz.grid_player(fn, *args)
    bundle = player._repr_mimebundle_()[0]
    svg = bundle["image/svg+xml"]
    assert len(svg.encode()) <= 15_000
    words = [text.text for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert "HBM" in words and "VMEM" in words
    for operand in player.kernels[0]["operands"]:
        assert operand["name"] in words
    title = ElementTree.fromstring(svg).find(f"{SVG}desc").text
    assert title == bundle["text/plain"]


def test_the_still_picture_shows_the_step_that_is_set():
    fn, args = SAMPLES["matmul"]
    player = viz.grid_player(fn, *args)
    player.step = 38
    bundle = player._repr_mimebundle_()[0]
    assert bundle["text/plain"].startswith("Step 39 of 64, grid index (2, 1, 2).")
    words = [text.text for text in ElementTree.fromstring(bundle["image/svg+xml"]).iter(f"{SVG}text")]
    assert words.count("copied in, 32 KiB") == 2 and "stays: no copy" in words
    assert words.count("block (128, 128)") == 3
    assert "In VMEM, the blue buffer is in use." in bundle["image/svg+xml"], "the other one shows a block, too"
    blue = re.findall(r'<rect [^>]*fill="#0072b2"', bundle["image/svg+xml"])
    assert len(blue) == 3 + 3 + 1 + 1, "a block and a buffer of each operand, the part that is added, and the legend"
    assert "3 of 4 parts" in words


def test_the_still_picture_shows_what_goes_wrong():
    fn, args = SAMPLES["revisits"]
    bundle = viz.grid_player(fn, *args)._repr_mimebundle_()[0]
    assert bundle["text/plain"].startswith("Step 17 of 64") and "it is not copied in again" in bundle["text/plain"]


def test_a_kernel_under_vmap_is_shown():
    batched = viz.grid_player(jax.vmap(matmul), *[jax.ShapeDtypeStruct((5, 256, 256), jnp.float32)] * 2)
    assert batched.kernels[0]["grid"] == [5, 2, 2, 2]
    assert [len(o["shape"]) for o in batched.kernels[0]["operands"]] == [3, 3, 3]


def test_an_array_of_rank_5_is_shown():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    x = array((2, 3, 2, 16, 128))
    spec = pl.BlockSpec((1, 1, 2, 8, 128), lambda a, b, i: (a, b, 0, i, 0))
    player = viz.grid_player(pl.pallas_call(kernel, out_shape=x, grid=(2, 3, 2), in_specs=[spec], out_specs=spec), x)
    player.step = 7
    assert "slice [1, 0, 0:2] of [2, 3, 2]" in player._repr_mimebundle_()[0]["image/svg+xml"]
