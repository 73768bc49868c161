"""The parts that judges are made of: copies, memory, order, budgets, maps, and the end of a simulation that hangs."""

import functools
import itertools
import json
import re
import resource
import sys
import threading
import time
import xml.etree.ElementTree as ET

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from sample_kernels import by_rows, matmul, softmax

from course_lib import chips, compiler, grid, judges
from course_lib.judges.block_map import block_map
from course_lib.judges.reading import copies, memory, order
from course_lib.judges.running import watchdog
from course_lib.judges.tpu import device

X = jnp.arange(32 * 128, dtype=jnp.float32).reshape(32, 128)


def doubled(x):
    return 2 * x


def copied_in_turns(start=lambda turn: turn + 1 < 4, wait=lambda turn: turn >= 0, semaphore=lambda turn: turn % 2):
    """2 * x, eight rows at a time through a double buffer; every argument is a way to be wrong."""

    def kernel(x_hbm, o_ref, buf, sems):
        def copy(turn):
            half = turn % 2
            return pltpu.make_async_copy(x_hbm.at[pl.ds(8 * turn, 8)], buf.at[half], sems.at[half])

        copy(0).start()

        @pl.loop(0, 4)
        def _turn(turn):
            @pl.when(start(turn))
            def _prefetch():
                copy(turn + 1).start()

            @pl.when(wait(turn))
            def _arrive():
                copy(turn).wait()

            o_ref[pl.ds(8 * turn, 8)] = 2 * buf[turn % 2]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[pltpu.VMEM((2, 8, 128), jnp.float32), pltpu.SemaphoreType.DMA((2,))],
    )


def waits_again(x_hbm, o_ref, buf, sem):
    copy = pltpu.make_async_copy(x_hbm, buf, sem)
    copy.start()
    copy.wait()
    copy.wait()
    o_ref[...] = 2 * buf[...]


def waits_for_nothing(x_hbm, o_ref, buf, sem):
    pltpu.make_async_copy(x_hbm, buf, sem).wait()
    o_ref[...] = 2 * buf[...]


def once(kernel):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[pltpu.VMEM(X.shape, jnp.float32), pltpu.SemaphoreType.DMA],
    )


LEDGER = {
    "right": (copied_in_turns(), None),
    "no wait in turn 2": (
        copied_in_turns(wait=lambda turn: turn != 2),
        r"reads buf\[0\] before it has waited for the copy of x_hbm",
    ),
    "past the end": (
        copied_in_turns(start=lambda turn: turn >= 0),
        r"is out of bounds: x_hbm\[32:40\], but x_hbm has 32",
    ),
    "never started": (
        copied_in_turns(start=lambda turn: turn != 1),
        r"waits on sems\[0\].*nothing has started one",
    ),
    "twice": (once(waits_again), "waits twice on sem for one copy into buf"),
    "no copy at all": (once(waits_for_nothing), "waits on sem for a copy into buf, but nothing has started one"),
}


@pytest.mark.parametrize("name", LEDGER)
def test_the_ledger_of_copies(name):
    fn, says = LEDGER[name]
    found = copies.complaint(grid.walk(fn, X))
    assert (found is None) == (says is None), found
    assert says is None or re.search(says, found.what), found.what


def on_one_semaphore(own: bool):
    """Two copies at once, of which the first is read after one wait."""

    def kernel(x_hbm, o_ref, buf, sems):
        copies = [pltpu.make_async_copy(x_hbm, buf.at[n], sems.at[n * own]) for n in range(2)]
        for copy in copies:
            copy.start()
        copies[0].wait()
        o_ref[...] = buf[0]
        copies[1].wait()
        o_ref[...] += buf[1]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[pltpu.VMEM((2, *X.shape), jnp.float32), pltpu.SemaphoreType.DMA((2,))],
    )


def test_a_wait_on_a_shared_semaphore_does_not_tell_which_copy_has_arrived():
    assert copies.early_use(grid.walk(on_one_semaphore(own=True), X)) is None
    said = copies.early_use(grid.walk(on_one_semaphore(own=False), X))
    assert "buf[0] after one wait on sems[0]" in said.what and "either of them" in said.what


def test_a_copy_without_a_partner_is_the_simulators_to_refuse_and_does_not_hang():
    said = judges.simulator_judge(once(waits_again), doubled, X)
    assert said.passed is False and "would never end" in said.message


def waits_for_a_signal(x_ref, o_ref, sem):
    pl.semaphore_wait(sem, 1)
    o_ref[...] = 2 * x_ref[...]


def test_a_wait_for_a_signal_that_nobody_gives_is_refused_at_once(monkeypatch):
    monkeypatch.setattr(watchdog, "IDLE_S", 1e9)
    fn = pl.pallas_call(
        waits_for_a_signal,
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        scratch_shapes=[pltpu.SemaphoreType.REGULAR],
    )
    said = judges.simulator_judge(fn, doubled, X)
    assert said.passed is False and "waits for 1 on sem, which holds 0: the signal never comes" in said.message
    assert judges.simulator_judge(lambda x: by_rows(doubled, x), doubled, X).passed, "the next simulation is well"


def test_a_simulation_that_gets_no_processor_is_not_taken_for_one_that_waits():
    before = {"1": 10.0, "2": 3.0}
    assert not watchdog.starved(before, {"1": 10.4, "2": 3.1}, 4.0)  # two threads that poll
    assert watchdog.starved(before, {"1": 13.9, "2": 3.1}, 4.0)  # one ran, or would have liked to
    assert watchdog.starved(before, {"1": 10.0, "2": 3.0, "3": 3.0}, 4.0)  # a thread that began in between
    assert watchdog.starved(before, {"1": 11.5, "2": 4.5}, 4.0)  # two that take turns


def when_stopped(monkeypatch) -> float:
    """Return the time at which the watchdog ends a simulation that does nothing, a second idle being enough."""
    ended = threading.Event()
    monkeypatch.setattr(watchdog, "IDLE_S", 1.0)
    monkeypatch.setattr(watchdog, "_stop", ended.set)
    with watchdog.watched():
        assert ended.wait(60)
        return time.monotonic()


def test_a_simulation_that_does_nothing_is_ended(monkeypatch):
    began = time.monotonic()
    assert when_stopped(monkeypatch) > began + 1


def test_a_simulation_that_waits_for_the_disk_is_not_taken_for_one_that_waits_for_a_signal(monkeypatch):
    until, pages = time.monotonic() + 2, itertools.count()
    monkeypatch.setattr(watchdog, "_pages_fetched", lambda: next(pages) if time.monotonic() < until else 10**6)
    assert when_stopped(monkeypatch) > until


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how many pages came from the disk")
def test_pages_from_the_disk_are_counted():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    counted = watchdog._pages_fetched()
    assert before <= counted <= resource.getrusage(resource.RUSAGE_SELF).ru_majflt


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how long a thread waited for a processor")
def test_a_thread_that_computes_wants_a_processor():
    before, until = watchdog._wanted_s(), time.thread_time() + 0.1
    while time.thread_time() < until:
        pass
    after = watchdog._wanted_s()
    mine = str(threading.get_native_id())
    assert after[mine] - before[mine] >= 0.05


def column_sums(scratch_set_at=0, order_of_axes="jk", semantics=None):
    """Sums of 8 rows at a time into a scratch, for two blocks of columns."""
    steps = {"j": 2, "k": 4}
    k_axis = order_of_axes.index("k")

    def kernel(x_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(k_axis) == scratch_set_at)
        def _start():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += x_ref[...]
        o_ref[...] = acc_ref[...]

    def at(*indices):
        return dict(zip(order_of_axes, indices, strict=True))

    x = jnp.ones((32, 256))
    fn = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 256), jnp.float32),
        grid=tuple(steps[a] for a in order_of_axes),
        in_specs=[pl.BlockSpec((8, 128), lambda a, b: (at(a, b)["k"], at(a, b)["j"]))],
        out_specs=pl.BlockSpec((8, 128), lambda a, b: (0, at(a, b)["j"])),
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=semantics),
    )
    return grid.walk(fn, x)


def test_memory_that_is_read_too_early_or_too_late():
    assert not list(memory.unwritten_reads(column_sums().calls[0]))
    assert memory.stale_read(column_sums().calls[0]) is None
    (late,) = memory.unwritten_reads(column_sums(scratch_set_at=1).calls[0])
    assert (late.ref, late.step, late.written_at) == ("acc_ref", 0, 1)
    stale = memory.stale_read(column_sums(order_of_axes="kj").calls[0])
    assert (stale.ref, stale.step, stale.left_by) == ("acc_ref", 2, 1)


@pytest.mark.parametrize("adds_up_again", [False, True])
def test_a_second_pass_may_use_what_the_first_has_left_in_scratch(adds_up_again):
    def kernel(x_ref, o_ref, acc_ref):
        @pl.when((pl.program_id(0) == 0) & (pl.program_id(1) == 0))
        def _start():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        @pl.when((pl.program_id(0) == 0) | adds_up_again)
        def _collect():
            acc_ref[...] += x_ref[...]

        o_ref[...] = x_ref[...] + acc_ref[...]

    fn = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((24, 128), jnp.float32),
        grid=(2, 3),
        in_specs=[pl.BlockSpec((8, 128), lambda second, j: (j, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda second, j: (second * j, 0)),
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
    )
    stale = memory.stale_read(grid.walk(fn, jnp.ones((24, 128))).calls[0])
    assert (stale is not None) == adds_up_again


def test_the_order_of_a_grid():
    assert order.revisit(column_sums()) is None
    said = order.revisit(column_sums(order_of_axes="kj"))
    assert said.what.startswith(
        "Output block (0, 0) of o_ref left VMEM after step (0, 0), and the grid came back to it"
    )
    assert said.next == (
        "the block of o_ref stays the same along axis 0 of the grid, but another axis changes it in between: "
        "put axis 0 last."
    )


def two_pages(parts):
    """Two pages of x copied at once, into the two parts of a buffer of shape (2, 2, 8, 128) that are named."""

    def kernel(x_hbm, o_ref, buf_ref, sem):
        copies = [
            pltpu.make_async_copy(x_hbm.at[page], buf_ref.at[part], sem.at[page]) for page, part in enumerate(parts)
        ]
        for copy in copies:
            copy.start()
        for copy in copies:
            copy.wait()
        o_ref[...] = buf_ref[0, 0]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[pltpu.VMEM((2, 2, 8, 128), jnp.float32), pltpu.SemaphoreType.DMA((2,))],
    )


@pytest.mark.parametrize(
    "parts, says", [([(0, 0), (0, 1)], None), ([(0, 0), (1, 0)], None), ([(0, 1), (0, 1)], "another copy into it")]
)
def test_copies_into_two_parts_of_a_buffer_do_not_meet(parts, says):
    found = copies.early_use(grid.walk(two_pages(parts), jnp.ones((2, 8, 128))))
    assert (found is None) if says is None else says in found.what


def double_where_asked(writes, steps=(2, 2), moves=1):
    """2 x in blocks of 8 rows, which axis ``moves`` of the grid chooses; ``writes`` says at which steps."""

    def kernel(x_ref, o_ref):
        @pl.when(writes())
        def _write():
            o_ref[...] = 2 * x_ref[...]

    spec = pl.BlockSpec((8, 128), lambda *step: (step[moves], 0))
    out = jax.ShapeDtypeStruct((16, 128), jnp.float32)
    return pl.pallas_call(kernel, out_shape=out, grid=steps, in_specs=[spec], out_specs=spec)


@pytest.mark.parametrize(
    "writes",
    [lambda: pl.program_id(0) == 0, lambda: pl.program_id(0) >= 0],
    ids=["at the first visit only", "whole at each visit"],
)
def test_a_second_visit_is_refused_whoever_writes(writes):
    """No sum is lost in these, and the numbers are right: it is the visit that counts."""
    fn, x = double_where_asked(writes), jnp.ones((16, 128))
    assert judges.numbers_judge(fn, doubled, x).passed
    said = judges.simulator_judge(fn, doubled, x)
    assert said.passed is False
    assert "came back to it at step (1, 0). It is not fetched again: whatever the kernel does not write" in said.message
    assert said.next.endswith("another axis changes it in between: put axis 0 last.")


def test_every_axis_that_comes_too_early_is_named():
    early = order.revisit(grid.walk(double_where_asked(lambda: True, (2, 2, 2, 3), moves=2), jnp.ones((16, 128))))
    assert "stays the same along axes 0 and 1 of the grid" in early.next and "put axes 0 and 1 after" in early.next
    between = order.revisit(grid.walk(double_where_asked(lambda: True, (2, 2, 3), moves=1), jnp.ones((16, 128))))
    assert between.next.endswith("axis 1 changes it in between: put axis 0 after that one, and leave axis 2 last.")
    assert order.revisit(grid.walk(double_where_asked(lambda: True, moves=0), jnp.ones((16, 128)))) is None


def test_axes_that_two_cores_may_share():
    assert order.shared_block(column_sums(semantics=("parallel", "arbitrary"))) is None
    said = order.shared_block(column_sums(semantics=("arbitrary", "parallel")))
    assert "steps (0, 0) and (0, 1) both write block (0, 0) of o_ref" in said.what and "axis 1" in said.next


def test_parallel_axes_need_not_come_first():
    spec = pl.BlockSpec((8, 128), lambda i, j: (i, j))
    fn = pl.pallas_call(
        lambda x_ref, o_ref: o_ref.__setitem__(..., 2 * x_ref[...]),
        out_shape=jax.ShapeDtypeStruct((16, 256), jnp.float32),
        grid=(2, 2),
        in_specs=[spec],
        out_specs=spec,
        compiler_params=pltpu.CompilerParams(dimension_semantics=("arbitrary", "parallel")),
    )
    assert all(v.passed is not False for v in judges.judge(fn, doubled, jnp.ones((16, 256))))


SQUARE = (jnp.ones((1024, 1024)), jnp.ones((1024, 1024)))
SMALL = functools.partial(matmul, blocks=(128, 128, 128))
LARGE = functools.partial(matmul, blocks=(512, 256, 512))


def budget(fn=SMALL, args=SQUARE, reference=jnp.dot, **limits):
    return judges.budget_judge(fn, reference, *args, budget=judges.Budget(**limits))


def test_traffic_over_budget_says_who_moves_it():
    said = budget(hbm_bytes=30 * 2**20)
    assert said.passed is False and said.judge == "budget"
    assert "moves 68 MiB between HBM and VMEM; the budget is 30 MiB" in said.message
    assert "x_ref is fetched 512 times: 32 MiB, 8 times the whole array" in said.message
    assert budget(LARGE, hbm_bytes=30 * 2**20).passed
    assert budget(LARGE, hbm_bytes=lambda x, y: 5 * x.nbytes).passed


def test_vmem_over_budget_comes_with_a_table():
    said = budget(LARGE, vmem_bytes=2 * 2**20)
    assert said.passed is False
    rows = [line.split() for line in said.message.splitlines()[1:]]
    assert {row[0] for row in rows} == {"x_ref", "y_ref", "o_ref", "acc_ref"}
    assert budget(SMALL, vmem_bytes=2 * 2**20).passed


@needs_libtpu
def test_predicted_time_spills_and_slots():
    said = budget(SMALL, times_reference=1.5)
    assert said.passed is False
    assert "times as long as the reference, which XLA compiles; the budget is 1.5 times" in said.message
    assert budget(LARGE, times_reference=3).passed
    assert budget(LARGE, spills=100_000).passed and budget(LARGE, slots={"MXU": 0.001}).passed
    assert "of the slots of MXU are filled; at least 99% are required" in budget(LARGE, slots={"MXU": 0.99}).message
    with pytest.raises(ValueError, match="there is no such unit. The units are:.*MXU"):
        budget(LARGE, slots={"FPU": 0.5})


def test_what_is_counted_needs_no_compiler(monkeypatch):
    monkeypatch.setattr(compiler.tpu, "libtpu_version", lambda: None)
    assert budget(hbm_bytes=2**40).passed is True
    said = budget(spills=0)
    assert said.passed is None and "libtpu" in said.message


@needs_libtpu
def test_a_kernel_too_large_for_vmem_gets_the_table_of_its_buffers():
    x = jax.ShapeDtypeStruct((2048, 2048), jnp.float32)
    said = judges.compiler_judge(functools.partial(matmul, blocks=(1024, 1024, 1024)), jnp.dot, x, x)
    assert said.passed is False and "MiB of VMEM" in said.message
    assert any(line.split()[0] == "acc_ref" for line in said.message.splitlines()[1:])


@needs_libtpu
def test_the_compiler_judge_asks_the_chip_that_it_is_given():
    fn = functools.partial(matmul, blocks=(512, 512, 512), vmem_limit_bytes=48 * 2**20)
    x = jax.ShapeDtypeStruct((2048, 2048), jnp.float32)
    for chip in ("v5e", "v6e"):
        said = judges.compiler_judge(fn, jnp.dot, x, x, chip=chip)
        assert said.passed and said.report.chip == chip
        assert not judges.compiler_judge(lambda x: by_rows(softmax, x, rows=3), softmax, x, chip=chip).passed


def test_a_device_that_is_not_there_is_skipped():
    if chips.tpu_attached():
        pytest.skip("there is a TPU here")
    said = judges.device_judge(lambda x: by_rows(doubled, x), doubled, X)
    assert said.passed is None and "no TPU" in said.message


def test_numbers_of_a_device_are_compared_as_a_chip_rounds_them(monkeypatch):
    """The chip is played by a function that rounds operands to bfloat16 once, as the MXU does by default."""
    monkeypatch.setattr(chips, "on_a_tpu", lambda: True)
    rng = np.random.default_rng(0)
    x, y = (jnp.asarray(rng.normal(size=(512, 512)), jnp.float32) for _ in range(2))
    one_pass = jnp.dot(*(a.astype(jnp.bfloat16) for a in (x, y)), preferred_element_type=jnp.float32)
    for result, passes in ((one_pass, True), (one_pass.at[7, 9].add(1.0), False)):
        monkeypatch.setattr(device.grid, "run", lambda jaxpr, interpret, *args, r=result: [r])
        said = judges.device_judge(functools.partial(matmul, blocks=(256, 256, 256)), jnp.dot, x, y)
        assert said.passed is passes and (passes or "[7, 9]" in said.message)


def test_the_map_of_blocks_in_characters_and_as_a_picture():
    wrong, empty = np.zeros((32, 256), bool), np.zeros((32, 256), bool)
    wrong[8:16, :128], wrong[16:24], wrong[24, 130] = True, True, True
    empty[16:24, 128:] = True
    found = block_map("The output", wrong, empty, (8, 128))
    assert found.of_kernel and found.cells == (
        ("right", "right"),
        ("wrong", "right"),
        ("wrong", "NaN or never written"),
        ("right", "partly wrong"),
    )
    assert str(found).splitlines()[-4:] == ["  . .", "  # .", "  # ?", "  . /"]
    assert max(map(len, str(found).splitlines())) <= 94
    bundle = found._repr_mimebundle_()
    assert "never written" in ET.fromstring(bundle["image/svg+xml"]).find("{*}desc").text
    assert json.dumps(bundle["text/html"])


def test_the_rows_of_a_map_of_three_axes_say_which_blocks_they_have():
    wrong = np.zeros((4, 24, 256), bool)
    wrong[2:, 8:16, 128:] = True
    found = block_map("The output", wrong, wrong & False, (2, 8, 128))
    assert str(found).splitlines()[-6:] == [
        f"  ({sheet}, {row}, :)  . {'#' if (sheet, row) == (1, 1) else '.'}" for sheet in range(2) for row in range(3)
    ]
    assert "(1, 1, :)" in found._repr_mimebundle_()["image/svg+xml"]


def test_a_map_is_never_larger_than_a_screen_and_says_something():
    wrong = np.zeros((128, 8, 4096), bool)
    wrong[100] = True
    found = block_map("The output", wrong, wrong & False, (1, 64, 128))
    assert len(found.cells) <= 12 and len(found.cells[0]) <= 24 and not found.of_kernel
    assert len(found.rows) == len(found.cells)
    assert block_map("The output", np.ones((8, 128), bool), np.zeros((8, 128), bool), None) is None
    assert block_map("The output", np.ones((), bool), np.zeros((), bool), None) is None


def test_a_verdict_prints_its_map():
    def half(x_ref, o_ref):
        @pl.when(pl.program_id(0) < 2)
        def _write():
            o_ref[...] = 2 * x_ref[...]

    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    fn = pl.pallas_call(half, out_shape=X, grid=(4,), in_specs=[spec], out_specs=spec)
    said = judges.numbers_judge(fn, doubled, X)
    assert said.passed is False and said.blocks.of_kernel
    assert str(said).splitlines()[-4:] == ["  .", "  .", "  ?", "  ?"]


def placed(index_map, grid=(2, 3)):
    """x[16, 384] in blocks of (8, 128); ``index_map`` is the output's."""

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    block = pl.BlockSpec((8, 128), lambda i, j: (i, j))
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((16, 384), jnp.float32),
        grid=grid,
        in_specs=[block],
        out_specs=pl.BlockSpec((8, 128), index_map),
    )


def test_a_map_that_leaves_out_a_grid_axis_is_asked_about_it():
    x = jnp.arange(16 * 384.0).reshape(16, 384)
    left_out = judges.numbers_judge(placed(lambda i, j: (i, 0)), jnp.copy, x)
    assert "= 3 steps. Axis 1 of the grid has that many, but the index map of o_ref ignores it" in left_out.next
    assert left_out.next.endswith("Either entry 1 of the tuple it returns must use it, or the grid is too short.")
    short = judges.numbers_judge(placed(lambda i, j: (i, j), grid=(2, 2)), jnp.copy, x)
    assert short.next.endswith("= 3 steps. Check whether the grid or the block is too short.")


@pytest.mark.parametrize("axis, says", [(0, "it should keep what it holds"), (1, "check the condition")])
def test_a_sum_that_is_set_again_is_told_from_a_condition_on_the_wrong_axis(axis, says):
    """The condition on axis 1 asks for the sum of the other axis: it is the condition then that is wrong."""

    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(1 - axis) == 0)
        def zero():
            o_ref[...] = jnp.zeros_like(o_ref)

        if axis == 0:
            o_ref[...] = x_ref[...]

    fold = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32),
        grid=(2, 3),
        in_specs=[pl.BlockSpec((8, 128), lambda i, k: (i, k))],
        out_specs=pl.BlockSpec((8, 128), lambda i, k: (i, 0)),
    )
    said = judges.numbers_judge(fold, lambda x: x.reshape(16, 3, 128).sum(1), jnp.ones((16, 384)))
    assert says in said.next.lower()
