"""grid.body: what a kernel's body does at every step, and grid.inner_pipelines: the grid of an emit_pipeline."""

import functools

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from sample_kernels import TENSOR_CORE, pipelined_matmul

from course_lib import cost, grid
from course_lib.grid.following import follower


def in_hbm(body, *, steps=1, out=(64, 128)):
    """A pallas_call whose input stays in HBM."""
    return pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct(out, jnp.float32),
        grid=(steps,),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec((out[0] // steps, out[1]), lambda i: (i, 0)),
        scratch_shapes=[pltpu.VMEM((2, 8, 128), jnp.float32), pltpu.SMEM((1,), jnp.int32), pltpu.SemaphoreType.DMA],
    )


X = jnp.zeros((64, 128))


def test_copies_by_hand_are_counted_where_they_start():
    def kernel(x_hbm, o_ref, buffer, slot, sem):
        i = pl.program_id(0)
        copy = pltpu.make_async_copy(x_hbm.at[pl.ds(8 * i, 8)], buffer.at[0], sem)
        copy.start()
        copy.wait()

        @pl.when(i % 2 == 0)
        def more():
            pltpu.sync_copy(x_hbm.at[pl.ds(0, 4), pl.ds(0, 128)], buffer.at[1, pl.ds(0, 4)])

        o_ref[...] = buffer[0]

    walk = grid.walk(in_hbm(kernel, steps=8), X)
    first, second = grid.body(walk.calls[0]).copies
    assert (first.source, first.target, first.shape) == ("x_hbm", "buffer", (8, 128))
    assert set(first.bytes.tolist()) == {4096}
    assert first.starts[:, 0].tolist() == [0, 8, 16, 24, 32, 40, 48, 56]
    assert (second.shape, second.steps.tolist()) == ((4, 128), [0, 2, 4, 6])
    rows = {(row.name, row.direction): (row.copies, row.bytes) for row in cost.traffic(walk)}
    assert rows == {("o_ref", "out"): (8, 8 * 4096), ("x_hbm", "in"): (12, 8 * 4096 + 4 * 2048)}


def test_loops_inside_a_kernel_are_followed():
    def kernel(x_hbm, o_ref, buffer, slot, sem):
        def fetch(j, carry):
            pltpu.sync_copy(x_hbm.at[pl.ds(8 * j, 8)], buffer.at[j % 2])
            return carry

        jax.lax.fori_loop(0, pl.program_id(0) + 1, fetch, 0)  # 1, 2, 3, 4 turns
        o_ref[...] = jnp.broadcast_to(buffer[0, :1], o_ref.shape)

    walk = grid.walk(in_hbm(kernel, steps=4), X)
    assert sum(row.copies for row in cost.traffic(walk) if row.name == "x_hbm") == 1 + 2 + 3 + 4


def test_a_slot_kept_in_smem_is_followed_from_step_to_step():
    """Double buffering across grid steps: the slot of this step was stored by the one before."""

    def kernel(x_hbm, o_ref, buffer, slot, sem):
        @pl.when(pl.program_id(0) == 0)
        def start():
            slot[0] = 0

        here = slot[0]

        @pl.when(here == 0)
        def fetch():
            pltpu.sync_copy(x_hbm.at[pl.ds(0, 8)], buffer.at[here])

        slot[0] = 1 - here
        o_ref[...] = buffer[0]

    walk = grid.walk(in_hbm(kernel, steps=8), X)
    (copy, *others) = grid.body(walk.calls[0]).copies
    assert [int(c.steps[0]) for c in (copy, *others)] == [0, 2, 4, 6]


def test_what_an_array_decides_is_not_guessed():
    def kernel(x_hbm, o_ref, buffer, slot, sem):
        pltpu.sync_copy(x_hbm.at[pl.ds(0, 8)], buffer.at[0])

        @pl.when(jnp.max(buffer[0]) > 0)
        def perhaps():
            pltpu.sync_copy(x_hbm.at[pl.ds(8, 8)], buffer.at[1])

        o_ref[...] = jnp.zeros_like(o_ref)

    walk = grid.walk(in_hbm(kernel), X)
    with pytest.raises(grid.UnreadableCall, match="a condition that guards a copy depends on an array's values"):
        cost.hbm_bytes(walk)
    with pytest.raises(grid.UnreadableCall, match="a condition that guards a copy depends on an array's values"):
        cost.traffic(walk)
    with pytest.raises(grid.UnreadableCall, match="cannot be read"):
        grid.inner_pipelines(walk.calls[0])


def test_where_a_copy_comes_from_may_be_open_while_its_size_is_known():
    def kernel(order_ref, x_hbm, o_ref):
        pltpu.sync_copy(x_hbm.at[pl.ds(order_ref[pl.program_id(0)], 8)], o_ref)

    def gather(order, x):
        return pl.pallas_call(
            kernel,
            out_shape=x,
            grid=(8,),
            in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pl.ANY)],
            out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
        )(order, x)

    walk = grid.walk(gather, jax.ShapeDtypeStruct((8,), jnp.int32), X)
    assert grid.body(walk.calls[0]).copies[0].starts is None
    assert {row.name: row.bytes for row in cost.traffic(walk)}["x_hbm"] == X.nbytes


def test_scalars_wrap_and_divide_as_on_the_machine():
    def kernel(x_hbm, o_ref, buffer, slot, sem):
        i = pl.program_id(0)
        down = jax.lax.div(i - 3, 2)  # -1, -1, 0, 0, 0 ...: towards zero
        unsigned = (i.astype(jnp.uint32) - jnp.uint32(1)) >> jnp.uint32(31)  # 1 at step 0 only

        @pl.when((down == 0) | (unsigned == 1))
        def fetch():
            pltpu.sync_copy(x_hbm.at[pl.ds(0, 8)], buffer.at[0])

        o_ref[...] = buffer[0]

    walk = grid.walk(in_hbm(kernel, steps=8), X)
    assert grid.body(walk.calls[0]).copies[0].steps.tolist() == [0, 2, 3, 4]


def test_too_long_to_follow_is_said(monkeypatch):
    monkeypatch.setattr(follower, "MAX_EVALUATIONS", 1000)

    def kernel(x_hbm, o_ref, buffer, slot, sem):
        def fetch(j, carry):
            pltpu.sync_copy(x_hbm.at[pl.ds(0, 8)], buffer.at[j % 2])
            return carry

        jax.lax.fori_loop(0, 1000, fetch, 0)
        o_ref[...] = jnp.zeros_like(o_ref)

    with pytest.raises(grid.UnreadableCall, match="more than 1,000 evaluations. Try it with a smaller"):
        grid.body(grid.walk(in_hbm(kernel), X).calls[0])


def test_that_a_body_is_too_long_is_found_out_once(monkeypatch):
    monkeypatch.setattr(follower, "MAX_EVALUATIONS", 1)
    call = grid.walk(lambda x: pl.pallas_call(double_rows, out_shape=x)(x), X).calls[0]
    for ask in (grid.body, grid.memory_uses):
        with pytest.raises(grid.UnreadableCall) as first:
            ask(call)
        with pytest.raises(grid.UnreadableCall) as second:
            ask(call)
        assert first.value is second.value and first.value.reason is grid.Reason.LONG_BODY


def test_uses_of_memory_beyond_a_limit_are_not_listed(monkeypatch):
    monkeypatch.setattr(follower, "MAX_USES", 3)
    call = grid.walk(lambda x: pl.pallas_call(double_rows, out_shape=x)(x), X).calls[0]
    with pytest.raises(grid.UnreadableCall, match="touches memory in more than 3 places") as raised:
        grid.memory_uses(call)
    assert raised.value.reason is grid.Reason.LONG_BODY
    assert {eqn.primitive.name: times for eqn, times in grid.body(call).runs}["mul"] == 4, "what it runs is known"


def double_rows(x_ref, o_ref):
    def row(n, carry):
        o_ref[pl.ds(n, 1), :] = x_ref[pl.ds(n, 1), :] * 2
        return carry

    jax.lax.fori_loop(0, 4, row, 0)


def test_uses_in_a_loop_share_their_steps():
    """A thousand turns at ten thousand steps would fill a machine's memory otherwise."""
    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    many = jax.ShapeDtypeStruct((8 * 100, 128), jnp.float32)
    call = pl.pallas_call(double_rows, out_shape=many, grid=(100,), in_specs=[spec], out_specs=spec)
    uses = grid.memory_uses(grid.walk(call, many).calls[0])
    assert [(use.kind, use.part[0].tolist()) for use in uses] == [
        (kind, [n, 1]) for n in range(4) for kind in ("read", "write")
    ]
    assert all(use.steps is uses[0].steps for use in uses) and uses[0].steps.tolist() == list(range(100))
    assert all(use.part.shape == (100, 2) and use.part.base.nbytes == 16 for use in uses)


small_pipeline = functools.partial(pipelined_matmul, block=128)
XB = jax.ShapeDtypeStruct((256, 384), jnp.bfloat16)
WB = jax.ShapeDtypeStruct((384, 512), jnp.bfloat16)


@pytest.mark.parametrize("buffers", [2, 3])
def test_the_grid_of_an_emit_pipeline_is_read(buffers):
    call = grid.walk(functools.partial(small_pipeline, buffers=buffers), XB, WB).calls[0]
    assert call.name == "kernel" and call.grid == ()
    (pipeline,) = grid.inner_pipelines(call)
    assert pipeline.grid == (2, 4, 3)
    x, w, o = pipeline.operands
    steps = [pipeline.step(n) for n in range(24)]
    assert x.indices.tolist() == [[i, k] for i, _, k in steps]
    assert w.indices.tolist() == [[k, j] for _, j, k in steps]
    assert o.indices.tolist() == [[i, j] for i, j, _ in steps]
    assert o.written.sum() == 8 and x.fetched.sum() == 24
    assert [operand.buffers for operand in pipeline.operands] == [buffers, 2, 2]


def test_an_emit_pipeline_moves_what_the_same_pallas_call_moves():
    walk = grid.walk(small_pipeline, XB, WB)
    by_name = {row.name: row.bytes for row in cost.traffic(walk)}
    assert by_name == {
        "x_hbm": 4 * 256 * 384 * 2,
        "y_hbm": 2 * 384 * 512 * 2,
        "o_hbm": 256 * 512 * 4,
    }
    assert cost.flops(walk).mxu == 2 * 256 * 384 * 512


def test_a_kernel_without_pipelines_has_none():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    call = grid.walk(lambda x: pl.pallas_call(kernel, out_shape=x)(x), X).calls[0]
    assert grid.inner_pipelines(call) == []
    assert not grid.has_copies_by_hand(call)


def test_a_large_grid_is_followed_at_once():
    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(1) % 2 == 0)
        def double():
            o_ref[...] = x_ref[...] * 2

    spec = pl.BlockSpec((8, 128), lambda i, j: (i, j))
    big = jax.ShapeDtypeStruct((8 * 400, 128 * 250), jnp.float32)
    call = pl.pallas_call(kernel, out_shape=big, grid=(400, 250), in_specs=[spec], out_specs=spec)
    followed = grid.body(grid.walk(call, big).calls[0])
    assert {eqn.primitive.name: times for eqn, times in followed.runs}["mul"] == 50_000


def test_what_is_written_is_known_by_name():
    def kernel(x_hbm, o_ref, buffer, slot, sem):
        pltpu.sync_copy(x_hbm.at[pl.ds(0, 8)], buffer.at[0])
        slot[0] = 3

        @pl.when(pl.program_id(0) > 8)
        def never():
            x_hbm[...] = jnp.zeros(x_hbm.shape)

        o_ref[...] += buffer[0]

    followed = grid.body(grid.walk(in_hbm(kernel, steps=8), X).calls[0])
    assert followed.written == {"buffer", "slot", "o_ref"}


def test_two_pipelines_in_one_kernel_are_told_apart():
    """The second allocates its buffers when those of the first are gone."""

    def kernel(x_hbm, o_hbm, p_hbm):
        def double(x_ref, o_ref):
            o_ref[...] = x_ref[...] * 2

        for rows, target in ((8, o_hbm), (16, p_hbm)):
            spec = pl.BlockSpec((rows, 128), lambda i: (i, 0))
            pltpu.emit_pipeline(double, grid=(64 // rows,), in_specs=[spec], out_specs=[spec])(x_hbm, target)

    walk = grid.walk(lambda x: pl.kernel(kernel, out_type=[X, X], mesh=TENSOR_CORE)(x), X)
    first, second = grid.inner_pipelines(walk.calls[0])
    assert (first.grid, second.grid) == ((8,), (4,))
    for pipeline, rows, target in ((first, 8, "o_hbm"), (second, 16, "p_hbm")):
        assert [(o.name, o.block_shape) for o in pipeline.operands] == [("x_hbm", (rows, 128)), (target, (rows, 128))]
        assert pipeline.inputs[0].indices[:, 0].tolist() == list(range(64 // rows))
