"""grid.walk lists what a pallas_call does, step by step, and cost counts it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import compat, cost, grid


def matmul(x, y, order="ijk", b=128):
    """x @ y with a grid in the given loop order: "ijk" has the reduction innermost."""
    m, k, n = x.shape[0] // b, x.shape[1] // b, y.shape[1] // b
    extent = dict(i=m, j=n, k=k)

    def at(*axes):
        return lambda *step: tuple(step[order.index(a)] for a in axes)

    def kernel(x_ref, y_ref, o_ref):
        @pl.when(pl.program_id(order.index("k")) == 0)
        def zero():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...] @ y_ref[...]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), x.dtype),
        grid=tuple(extent[a] for a in order),
        in_specs=[pl.BlockSpec((b, b), at("i", "k")), pl.BlockSpec((b, b), at("k", "j"))],
        out_specs=pl.BlockSpec((b, b), at("i", "j")),
    )(x, y)


X = jax.ShapeDtypeStruct((256, 384), jnp.float32)
Y = jax.ShapeDtypeStruct((384, 512), jnp.float32)


def test_steps_run_with_the_last_axis_fastest():
    call = grid.walk(matmul, X, Y).calls[0]
    assert call.name == "kernel"
    assert (call.grid, call.steps) == ((2, 4, 3), 24)
    assert [call.step(n) for n in (0, 1, 3, 23)] == [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 3, 2)]
    assert [o.name for o in call.operands] == ["x_ref", "y_ref", "o_ref"]
    x, y, o = call.operands
    assert x.indices[4].tolist() == [0, 1] and y.indices[4].tolist() == [1, 1] and o.indices[4].tolist() == [0, 1]


def test_a_block_is_copied_only_when_its_index_changes():
    x, y, o = grid.walk(matmul, X, Y).calls[0].operands
    assert x.fetched.all() and y.fetched.all()
    assert o.written.tolist() == [False, False, True] * 8
    assert grid.returns(o) == []


@pytest.mark.parametrize("order", ["kij", "ikj"])
def test_a_reduction_that_is_not_innermost_revisits(order):
    output = grid.walk(lambda x, y: matmul(x, y, order), X, Y).calls[0].outputs[0]
    first = grid.returns(output)[0]
    assert first.visit.block == (0, 0) and first.before.last == 0 and first.visit.first > 1


@pytest.mark.parametrize("order, x_times, y_times", [("ijk", 4, 2), ("jik", 4, 2), ("ikj", 1, 2), ("jki", 4, 1)])
def test_traffic_of_loop_orders(order, x_times, y_times):
    """x is read once per column block unless j is innermost, y once per row block unless i is innermost."""
    x, y, _ = cost.traffic(grid.walk(lambda x, y: matmul(x, y, order), X, Y))
    assert (x.bytes, y.bytes) == (x_times * 256 * 384 * 4, y_times * 384 * 512 * 4)


def test_ragged_last_block_counts_the_tiles_that_exist():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    spec = pl.BlockSpec((1024,), lambda i: (i,))
    copy = pl.pallas_call(kernel, out_shape=jnp.zeros(2500), grid=(3,), in_specs=[spec], out_specs=spec)
    walk = grid.walk(copy, jnp.zeros(2500))
    assert cost.hbm_bytes(walk) == 2 * 2560 * 4, "a vector is copied in pieces of 128 words"
    assert walk.calls[0].outputs[0].blocks == (3,)


def test_blocks_outside_and_blocks_never_visited():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    spec = pl.BlockSpec((8, None), lambda i: (i + 1, 0))
    copy = pl.pallas_call(kernel, out_shape=jnp.zeros((32, 1)), grid=(4,), in_specs=[spec], out_specs=spec)
    output = grid.walk(copy, jnp.zeros((32, 1))).calls[0].outputs[0]
    assert output.outside().tolist() == [3]
    assert output.unvisited() == [(0, 0)]
    assert output.block_shape == (8, 1), "a squeezed axis counts 1"


def test_kernels_inside_jit_and_custom_vjp_are_found():
    @jax.custom_vjp
    def twice(x, y):
        return jax.jit(matmul)(matmul(x, y), y)

    twice.defvjp(lambda x, y: (twice(x, y), None), lambda _, g: (g, g))
    square = jax.ShapeDtypeStruct((256, 256), jnp.float32)
    assert len(grid.walk(lambda x: twice(x, x) + 1, square).calls) == 2
    assert grid.walk(jnp.add, X, X).calls == ()


def test_a_large_grid_is_walked_at_once():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    spec = pl.BlockSpec((8, 128), lambda i, j: (i, j))
    big = jax.ShapeDtypeStruct((8 * 400, 128 * 250), jnp.bfloat16)
    walk = grid.walk(
        lambda x: pl.pallas_call(kernel, out_shape=big, grid=(400, 250), in_specs=[spec], out_specs=spec)(x), big
    )
    assert walk.calls[0].steps == 100_000
    assert cost.hbm_bytes(walk) == 2 * 8 * 400 * 128 * 250 * 2


def gather_rows(order, x):
    """Rows of blocks in the order that a prefetched array says."""

    def kernel(order_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]

    return pl.pallas_call(
        kernel,
        out_shape=x,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(4,),
            in_specs=[pl.BlockSpec((8, 128), lambda i, order_ref: (order_ref[i], 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, order_ref: (i, 0)),
        ),
    )(order, x)


def test_index_maps_read_prefetched_scalars():
    x = jnp.zeros((32, 128))
    order = jnp.array([2, 2, 0, 3], jnp.int32)
    call = grid.walk(gather_rows, order, x).calls[0]
    assert [(o.name, o.role) for o in call.operands] == [
        ("order_ref", "prefetch"),
        ("x_ref", "input"),
        ("o_ref", "output"),
    ]
    assert call.inputs[0].indices[:, 0].tolist() == [2, 2, 0, 3]
    assert call.inputs[0].fetched.tolist() == [True, False, True, True]
    computed = grid.walk(lambda o, x: jax.jit(gather_rows)(jnp.sort(o) * 1, x), order, x).calls[0]
    assert computed.inputs[0].indices[:, 0].tolist() == [0, 2, 2, 3], "scalars computed on the way are computed"


def test_what_is_prefetched_is_computed_once():
    """Though an equation's output is read twice, and by two kernels: else each step of a list doubles the work."""
    computed = []

    def counted(order):
        computed.append(1)
        return order

    def fn(order, x):
        order = jax.pure_callback(counted, order, order)
        for _ in range(3):
            order = (order + order) // 2
        return gather_rows(order, gather_rows(order, x))

    walk = grid.walk(fn, jnp.array([2, 2, 0, 3], jnp.int32), jnp.zeros((32, 128)))
    assert [call.inputs[0].indices[:, 0].tolist() for call in walk.calls] == [[2, 2, 0, 3]] * 2
    assert len(computed) == 1


def test_prefetched_scalars_must_be_given():
    x, shape = jnp.zeros((32, 128)), jax.ShapeDtypeStruct((4,), jnp.int32)
    with pytest.raises(grid.UnreadableCall, match="argument 0, but only its shape is known. Pass the array"):
        grid.walk(gather_rows, shape, x)
    with pytest.raises(grid.UnreadableCall, match="a loop around the kernel computes"):
        grid.walk(
            lambda x: jax.lax.fori_loop(0, 3, lambda i, v: gather_rows(jnp.full(4, i, jnp.int32), v), x),
            x,
        )
    with pytest.raises(grid.UnreadableCall, match="that another kernel computes"):
        grid.walk(lambda o, x: gather_rows(matmul(o, o).reshape(-1)[:4].astype(jnp.int32), x), jnp.ones((128, 128)), x)


def test_a_grid_size_that_is_computed_is_read_where_it_can_be():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    def f(n, x):
        spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
        return pl.pallas_call(kernel, out_shape=x, grid=(n,), in_specs=[spec], out_specs=spec)(x)

    assert grid.walk(f, jnp.int32(3), jnp.zeros((32, 128))).calls[0].grid == (3,)
    with pytest.raises(grid.UnreadableCall, match="argument 0"):
        grid.walk(f, jax.ShapeDtypeStruct((), jnp.int32), jnp.zeros((32, 128)))


def test_element_axes_count_from_elements_and_may_overlap():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[:8] + x_ref[8:]

    def f(x):
        return pl.pallas_call(
            kernel,
            out_shape=jnp.zeros((24, 128)),
            grid=(3,),
            in_specs=[pl.BlockSpec((pl.Element(16), 128), lambda i: (8 * i, 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
        )(x)

    walk = grid.walk(f, jnp.zeros((32, 128)))
    x, o = walk.calls[0].operands
    assert x.block_shape == (16, 128) and x.element == (True, False)
    assert x.starts.tolist() == [[0, 0], [8, 0], [16, 0]]
    assert x.outside().tolist() == [] and x.unvisited() == []
    assert cost.hbm_bytes(walk) == 3 * 16 * 128 * 4 + 24 * 128 * 4


def test_padding_of_an_element_axis_is_not_read_from_hbm():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[:8] + x_ref[16:]

    def f(x):
        return pl.pallas_call(
            kernel,
            out_shape=jnp.zeros((16, 128)),
            grid=(2,),
            in_specs=[pl.BlockSpec((pl.Element(24, padding=(8, 8)), 128), lambda i: (8 * i, 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
        )(x)

    x, _ = cost.traffic(grid.walk(f, jnp.zeros((16, 128))))
    assert x.bytes == (16 + 16) * 128 * 4, "8 of the 24 rows are padding, before or behind the array"


def test_what_the_specs_say_about_memory():
    def kernel(x_ref, y_ref, o_ref, acc_ref, count_ref, sem):
        o_ref[...] = x_ref[...]

    def f(x, y):
        return pl.pallas_call(
            kernel,
            out_shape=x,
            grid=(2,),
            in_specs=[
                pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(1)),
                pl.BlockSpec(memory_space=pltpu.SMEM),
            ],
            out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
            scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32), pltpu.SMEM((1,), jnp.int32), pltpu.SemaphoreType.DMA],
            input_output_aliases={0: 0},
            compiler_params=pltpu.CompilerParams(dimension_semantics=("arbitrary",)),
        )(x, y)

    call = grid.walk(f, jnp.zeros((16, 128)), jnp.zeros(4)).calls[0]
    x, y, o = call.operands
    assert (x.buffers, x.memory_space, x.aliases) == (1, "vmem", "o_ref")
    assert (y.memory_space, o.buffers, o.aliases) == ("smem", 2, "x_ref")
    assert [(s.name, s.memory_space) for s in call.scratch] == [
        ("acc_ref", "vmem"),
        ("count_ref", "smem"),
        ("sem", "semaphore"),
    ]
    assert call.semantics == ("arbitrary",)


def test_kernels_under_vmap_and_in_loops():
    batched = grid.walk(jax.vmap(matmul), *(jax.ShapeDtypeStruct((5, *s.shape), s.dtype) for s in (X, Y)))
    assert batched.calls[0].steps == 5 * 24
    assert cost.hbm_bytes(batched) == 5 * cost.hbm_bytes(grid.walk(matmul, X, Y))

    square = jax.ShapeDtypeStruct((256, 256), jnp.float32)
    looped = grid.walk(lambda x: jax.lax.fori_loop(0, 3, lambda _, v: matmul(v, v), x), square)
    assert looped.calls[0].times == 3
    assert cost.hbm_bytes(looped) == 3 * cost.hbm_bytes(grid.walk(matmul, square, square))

    open_ended = grid.walk(lambda x: jax.lax.while_loop(lambda v: v[0, 0] < 9, lambda v: matmul(v, v), x), square)
    assert open_ended.calls[0].times is None
    with pytest.raises(grid.UnreadableCall, match="how often kernel runs depends on data") as raised:
        cost.hbm_bytes(open_ended)
    assert raised.value.reason is grid.Reason.ARRAY_VALUES


def test_run_enters_loops_and_conditions():
    def f(x, n):
        x = jax.lax.fori_loop(0, 2, lambda _, v: matmul(v, v), x)
        x = jax.lax.while_loop(lambda v: v[0, 0] < n, lambda v: matmul(v, v), x)
        return jax.lax.cond(n > 3, lambda v: matmul(v, v), lambda v: v, x)

    x = jnp.eye(128) * 2
    jaxpr = grid.trace(f, x, 100.0)
    (out,) = grid.run(jaxpr, True, x, 100.0)
    np.testing.assert_array_equal(out, np.eye(128) * 2.0**16)


def test_a_kernel_in_an_unknown_wrapper_is_said():
    mesh = jax.sharding.AbstractMesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec()
    sharded = jax.shard_map(matmul, mesh=mesh, in_specs=(spec, spec), out_specs=spec, check_vma=False)
    x = jnp.ones((128, 128))
    with pytest.raises(grid.UnreadableCall, match="inside a shard_map over 2 devices"):
        grid.run(jax.make_jaxpr(sharded)(x, x), True, x, x)


def test_run_puts_every_kernel_into_the_mode_asked_for():
    """A pallas_call made while the simulator was on remembers it; run overrides that, in both directions."""

    def kernel(x_ref, o_ref):
        o_ref[:4] = x_ref[:4]

    with pltpu.force_tpu_interpret_mode(compat.interpret_params(uninitialized_memory="zero")):
        made_earlier = pl.pallas_call(kernel, out_shape=jnp.zeros(8))
    x = jnp.arange(8.0)
    jaxpr = grid.trace(lambda x: jax.jit(made_earlier)(x), x)
    for mode in (True, compat.interpret_params()):
        (out,) = jax.jit(lambda v, mode=mode: grid.run(jaxpr, mode, v))(x)
        np.testing.assert_array_equal(out, [0, 1, 2, 3] + [np.nan] * 4)
    with pytest.raises(ValueError, match="Only interpret mode"):
        jax.jit(lambda v: grid.run(jaxpr, False, v))(x)


def test_platform_dependent_takes_the_side_of_the_tpu():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    on_tpu = pl.pallas_call(kernel, out_shape=jnp.zeros(8))
    walk = grid.walk(lambda x: jax.lax.platform_dependent(x, tpu=on_tpu, default=jnp.sin), jnp.zeros(8))
    assert len(walk.calls) == 1
    assert "sin" not in str(walk.jaxpr)
