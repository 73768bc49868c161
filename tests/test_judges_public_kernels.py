"""What public kernels do that our own do not: refs that are reshaped, cores that are asked for, copies of any length.

A right kernel passes, or a judge that cannot run it says "skipped" and why. The kernels are the smallest that show it.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc
from jax.sharding import AxisType, PartitionSpec

from course_lib import compiler, grid, judges, roofline, viz
from course_lib.judges import __main__ as command

ANY, HBM = (pl.BlockSpec(memory_space=space) for space in (pl.ANY, pltpu.HBM))
ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))
ONES = jnp.ones((8, 128))


def like(x, shape=None):
    return jax.ShapeDtypeStruct(shape or x.shape, x.dtype)


def verdicts(fn, reference, *args, chip="v5e"):
    """Return {judge: its verdict} for all four, whatever they say."""
    trial = judges.Trial(fn, reference, args, chip)
    return {name: ask(trial) for name, ask in judges.JUDGES.items()}


def through_the_input(new, cache):
    """The new rows of a cache are copied into the input ref whose memory the output shares."""

    def update(new_ref, cache_ref, _, sem):
        pltpu.async_copy(new_ref, cache_ref.at[pl.ds(16, 8)], sem).wait()

    return pl.pallas_call(
        update,
        in_specs=[ANY, ANY],
        out_specs=ANY,
        scratch_shapes=[pltpu.SemaphoreType.DMA],
        out_shape=like(cache),
        input_output_aliases={1: 0},
    )(new, cache)


def of_a_core(x):
    def kernel(x_ref, o_ref, buf, sem):
        rows = pl.ds(pl.multiple_of(jax.lax.axis_index("core") * 8, 8), 8)
        pltpu.async_copy(x_ref.at[rows], buf, sem).wait()
        buf[...] += 1
        pltpu.async_copy(buf, o_ref.at[rows], sem).wait()

    mesh = pltpu.TensorCoreMesh(axis_name="core", num_cores=2)
    scratch = [pltpu.VMEM((8, 128), x.dtype), pltpu.SemaphoreType.DMA]
    return pl.kernel(kernel, out_type=x, mesh=mesh, scratch_types=scratch)(x)


def over_refs(x):
    x_ref, o_ref = jax.new_ref(x), jax.new_ref(jnp.zeros_like(x))

    @pl.core_map(pltpu.TensorCoreMesh(axis_name="core", num_cores=1))
    def _():
        def body(buf):
            pltpu.sync_copy(x_ref, buf)
            buf[...] += 1
            pltpu.sync_copy(buf, o_ref)

        pl.run_scoped(body, pltpu.VMEM(x.shape, x.dtype))

    return o_ref[...]


def prefetching(kernel, shape, in_specs, out_specs, scratch=(), grid=()):
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=grid, in_specs=in_specs, out_specs=out_specs, scratch_shapes=scratch
    )
    return pl.pallas_call(kernel, grid_spec=spec, out_shape=jax.ShapeDtypeStruct(shape, jnp.float32))


def of_any_length(n, x):
    def kernel(n_ref, x_ref, o_ref, buf, sem):
        buf[...] = jnp.zeros_like(buf)
        rows = pl.ds(0, pl.multiple_of(n_ref[0], 8))
        pltpu.async_copy(x_ref.at[rows], buf.at[rows], sem).wait()
        o_ref[...] = buf[...]

    scratch = [pltpu.VMEM((32, 128), jnp.float32), pltpu.SemaphoreType.DMA]
    return prefetching(kernel, x.shape, [ANY], pl.BlockSpec((32, 128), lambda i, n: (0, 0)), scratch, (1,))(n, x)


def next_slot_is_kept(slot, x):
    """Which of two buffers is in use stands in a prefetched array, and each step writes it for the next."""

    def kernel(slot_ref, x_ref, o_ref, buf, sem):
        i, slot = pl.program_id(0), slot_ref[0]

        def copy(n, s):
            return pltpu.make_async_copy(x_ref.at[pl.ds(n * 8, 8)], buf.at[s], sem.at[s])

        pl.when(i == 0)(lambda: copy(0, slot).start())
        pl.when(i + 1 < 4)(lambda: copy(i + 1, 1 - slot).start())
        copy(i, slot).wait()
        o_ref[...] = buf[slot] * 2
        slot_ref[0] = 1 - slot

    scratch = [pltpu.VMEM((2, 8, 128), jnp.float32), pltpu.SemaphoreType.DMA((2,))]
    return prefetching(kernel, x.shape, [ANY], pl.BlockSpec((8, 128), lambda i, s: (i, 0)), scratch, (4,))(slot, x)


def drawn_bits(seed, x):
    def kernel(seed_ref, x_ref, o_ref):
        pltpu.prng_seed(seed_ref[0] + pl.program_id(0))
        bits = pltpu.bitcast(pltpu.prng_random_bits(x_ref.shape), jnp.uint32)
        o_ref[...] = jnp.where(bits >= jnp.uint32(0), x_ref[...], 0.0)  # always

    return pl.pallas_call(
        kernel,
        grid=(len(x) // 8,),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), ROWS],
        out_specs=ROWS,
        out_shape=like(x),
    )(seed, x)


def doubled_in_a_pipeline(x):
    def kernel(x_ref, o_ref):
        def double(a_ref, b_ref):
            b_ref[...] = a_ref[...] * 2

        pltpu.emit_pipeline(double, grid=(2,), in_specs=[ROWS], out_specs=[ROWS])(x_ref, o_ref)

    return pl.pallas_call(kernel, in_specs=[ANY], out_specs=ANY, out_shape=like(x))(x)


def on_devices(local, count):
    mesh = jax.make_mesh((count,), ("x",), axis_types=(AxisType.Auto,))
    spec = PartitionSpec("x")
    return jax.shard_map(local, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)


ROWS_OF_32 = jnp.arange(4096.0).reshape(32, 128)
RIGHT = {
    "written through an aliased input": (
        through_the_input,
        lambda new, cache: cache.at[16:24].set(new),
        ONES,
        jnp.zeros((64, 128)),
    ),
    "a copy of any length": (
        of_any_length,
        lambda n, x: jnp.where(jnp.arange(32)[:, None] < n, x, 0),
        jnp.array([16], jnp.int32),
        jnp.ones((32, 128)),
    ),
    "prefetched numbers that are written": (
        next_slot_is_kept,
        lambda s, x: x * 2,
        jnp.zeros(1, jnp.int32),
        ROWS_OF_32,
    ),
    "random bits": (drawn_bits, lambda seed, x: x, jnp.array([7], jnp.int32), ROWS_OF_32[:16]),
    "in shard_map over one device": (on_devices(doubled_in_a_pipeline, 1), lambda x: x * 2, jnp.ones((16, 128))),
    "compiler options on a jit": (
        jax.jit(
            lambda x: in_kernel(lambda x: 2 * x, (8, 128))(x),
            compiler_options={"xla_tpu_use_enhanced_launch_barrier": True},
        ),
        lambda x: 2 * x,
        ONES,
    ),
    "refs in place of arrays": (over_refs, lambda x: x + 1, ONES),
}


@needs_libtpu
@pytest.mark.filterwarnings("ignore:jax.experimental.pallas.core_map is deprecated")
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_kernel_passes_all_judges(name):
    assert {judge: said.passed for judge, said in verdicts(*RIGHT[name]).items()} == dict.fromkeys(judges.JUDGES, True)


@needs_libtpu
def test_a_kernel_that_asks_which_core_it_is_passes_too():
    said = verdicts(of_a_core, lambda x: x + 1, jnp.ones((16, 128)), chip="v5p")
    assert {judge: one.passed for judge, one in said.items()} == dict.fromkeys(judges.JUDGES, True)


def as_words(x):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref.bitcast(jnp.uint32)[...]

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.uint32))(x)


def in_an_empty_ref(x):
    def kernel(x_ref, o_ref):
        buf = jax.empty_ref(like(x_ref), memory_space=pltpu.VMEM)
        buf[...] = x_ref[...] + 1
        o_ref[...] = buf[...]

    return pl.pallas_call(kernel, out_shape=like(x))(x)


def words_of(x):
    return jax.lax.bitcast_convert_type(x.reshape(8, 2, 128).swapaxes(1, 2), jnp.uint32)


@needs_libtpu
@pytest.mark.parametrize(
    "fn, reference, x",
    [(as_words, words_of, jnp.ones((16, 128), jnp.bfloat16)), (in_an_empty_ref, lambda x: x + 1, ONES)],
)
def test_what_the_simulator_lacks_is_skipped_and_the_others_go_on(fn, reference, x):
    said = verdicts(fn, reference, x)
    assert [said[name].passed for name in judges.JUDGES] == [True, None, None, True]
    assert "JAX's TPU simulator cannot run this kernel" in said["simulator"].message


def test_a_wrong_kernel_that_the_plain_interpreter_lacks_is_refused_by_its_values():
    said = verdicts(of_any_length, lambda n, x: x, jnp.array([16], jnp.int32), jnp.ones((32, 128)))["numbers"]
    assert said.passed is False and "it should be 1" in said.message


def test_a_copy_of_any_length_is_skipped_if_the_simulator_lacks_something_else():
    def kernel(n_ref, x_ref, o_ref, buf, sem):
        buf[...] = jnp.zeros_like(buf)
        rows = pl.ds(0, pl.multiple_of(n_ref[0], 8))
        pltpu.async_copy(x_ref.at[rows], buf.at[rows], sem).wait()
        o_ref[...] = jax.lax.bitcast_convert_type(buf.bitcast(jnp.uint32)[...], jnp.float32)

    scratch = [pltpu.VMEM((32, 128), jnp.float32), pltpu.SemaphoreType.DMA]
    fn = prefetching(kernel, (32, 128), [ANY], pl.BlockSpec((32, 128), lambda i, n: (0, 0)), scratch, (1,))
    said = verdicts(fn, lambda n, x: x, jnp.array([32], jnp.int32), jnp.ones((32, 128)))
    for judge in ("numbers", "simulator", "races"):
        assert said[judge].passed is None and "TPU simulator cannot run this kernel" in said[judge].message, said[judge]


def test_several_devices_and_sparse_cores_are_skipped_and_say_why():
    def double(x):
        return pl.pallas_call(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] * 2), out_shape=like(x))(x)

    mesh = jax.sharding.AbstractMesh((4,), ("x",), axis_types=(AxisType.Auto,))
    spec = PartitionSpec()
    fn = jax.shard_map(double, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    for said in verdicts(fn, lambda x: x * 2, ONES).values():
        assert said.passed is None and "shard_map over 4 devices" in said.message, said

    def sparse(x):
        def kernel(x_ref, o_ref, buf, sem):
            core = jax.lax.axis_index("core")
            pltpu.async_copy(x_ref.at[core], buf, sem).wait()
            pltpu.async_copy(buf, o_ref.at[core], sem).wait()

        mesh = plsc.ScalarSubcoreMesh(axis_name="core", num_cores=2)
        scratch = [pltpu.SMEM((x.shape[1],), x.dtype), pltpu.SemaphoreType.DMA]
        return pl.kernel(kernel, out_type=x, mesh=mesh, scratch_types=scratch)(x)

    said = verdicts(sparse, lambda x: x, jnp.arange(16).reshape(2, 8), chip="v6e")
    for judge in ("numbers", "simulator", "races"):
        assert said[judge].passed is None and "SparseCores" in said[judge].message, said[judge]


def test_a_key_and_a_chosen_ref_stop_no_reader():
    def keeps_all(seed, x):
        def kernel(key_ref, x_ref, o_ref):
            o_ref[...] = jnp.where(jax.random.uniform(key_ref[...], x_ref.shape) < 2.0, x_ref[...], 0.0)

        key = pltpu.to_pallas_key(jax.random.wrap_key_data(seed))
        specs = [pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec()]
        return pl.pallas_call(kernel, in_specs=specs, out_shape=like(x))(key, x)

    assert grid.walk(keeps_all, jnp.zeros(2, jnp.uint32), ONES).calls[0].inputs[0].name == "key_ref"

    def joined(a, b):
        def kernel(a_ref, b_ref, o_ref):
            def body(sem):
                @pl.loop(0, 2)
                def _(i):
                    rows = o_ref.at[pl.ds(8 * i, 8)]
                    pltpu.async_copy(pl.select_ref(i, a_ref, b_ref), rows, sem.at[i]).wait()

            pl.run_scoped(body, pltpu.SemaphoreType.DMA((2,)))

        return pl.pallas_call(kernel, in_specs=[HBM, HBM], out_specs=HBM, out_shape=like(a, (16, 128)))(a, b)

    with pytest.raises(grid.UnreadableCall, match="cannot be counted"):
        roofline.predict(joined, ONES, ONES)
    assert viz.grid_player(joined, ONES, ONES) is not None


@needs_libtpu
def test_a_pipeline_by_prefetched_numbers_needs_no_grid():
    def kernel(table_ref, x_ref, o_ref):
        def copy(a_ref, b_ref):
            b_ref[...] = a_ref[...]

        from_table = pl.BlockSpec((8, 128), lambda i: (table_ref[i], 0))
        pltpu.emit_pipeline(copy, grid=(2,), in_specs=[from_table], out_specs=[ROWS])(x_ref, o_ref)

    fn = prefetching(kernel, (16, 128), [ANY], ANY)
    assert compiler.compile_tpu(fn, jnp.array([3, 1], jnp.int32), jnp.ones((32, 128))).cycles > 0


def test_a_list_and_a_tuple_of_the_same_arrays_are_equal():
    def route(x):
        def kernel(x_ref, value_ref, place_ref):
            value_ref[...], place_ref[...] = jax.lax.top_k(x_ref[...], 4, is_stable=False)

        shapes = [jax.ShapeDtypeStruct((16, 4), dtype) for dtype in (jnp.float32, jnp.int32)]
        return tuple(pl.pallas_call(kernel, out_shape=shapes)(x))

    x = jax.random.normal(jax.random.key(0), (16, 128))
    assert judges.numbers_judge(route, lambda x: list(jax.lax.top_k(x, 4)), x).passed
    said = judges.numbers_judge(route, lambda x: {"values": x, "places": x}, x)
    assert said.passed is False and "returns a tuple of 2; it should return a dict" in said.message


# Rounding across steps, and operations without a rule


def sums_in_parts(x, y, of=lambda x: x):
    q = of(x)
    return sum(jnp.dot(q[:, k : k + 64], y[k : k + 64, :]) for k in range(0, x.shape[1], 64))


def quantized(x):
    scale = jnp.max(jnp.abs(x)) / 127.5
    return jnp.round(x / scale) * scale


def in_kernel(of, *shapes):
    def kernel(*refs):
        ins, outs = refs[: -len(shapes)], refs[-len(shapes) :]
        for ref, value in zip(outs, jax.tree.leaves(of(*[ref[...] for ref in ins])), strict=True):
            ref[...] = value

    out = tuple(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes)
    return pl.pallas_call(kernel, out_shape=out if len(out) > 1 else out[0])


X, Y = (jax.random.normal(jax.random.key(n), shape) for n, shape in enumerate([(64, 512), (512, 128)]))
HALVES = jnp.where(jnp.abs(X) < 4, jnp.round(X * 8) / 8, X).at[0, 0].set(4 * 127.5 / 128)  # many x / scale are n + 0.5


def test_a_value_may_round_to_either_side_of_a_step_it_stands_on():
    ours = functools.partial(sums_in_parts, of=quantized)
    reference = lambda x, y: quantized(x) @ y  # noqa: E731
    assert judges.numbers_judge(in_kernel(ours, (64, 128)), reference, HALVES, Y).passed
    floors = functools.partial(sums_in_parts, of=lambda x: jnp.floor(x / 0.05) * 0.05)
    said = judges.numbers_judge(in_kernel(floors, (64, 128)), lambda x, y: (jnp.round(x / 0.05) * 0.05) @ y, X, Y)
    assert said.passed is False


LARGEST = {
    "max": lambda x: jnp.max(x, 1, keepdims=True),
    "top_k": lambda x: jax.lax.top_k(x, 1)[0],
    "argsort": lambda x: jnp.take_along_axis(x, jnp.argsort(x)[:, -1:], 1),
}


@pytest.mark.parametrize("name", LARGEST)
def test_an_operation_takes_the_bound_of_its_own_output_alone(name):
    fn = in_kernel(lambda x, y: (sums_in_parts(x, y), jnp.max(x, axis=1, keepdims=True)), (64, 128), (64, 1))
    assert judges.numbers_judge(fn, lambda x, y: (x @ y, LARGEST[name](x)), X, Y).passed


def test_a_bound_that_is_a_guess_says_of_which_operation():
    square = X[:16, :64] @ X[:16, :64].T
    near = in_kernel(lambda x: 1.001 * x[0], (16,))
    said = judges.numbers_judge(near, lambda x: jnp.linalg.eigvalsh(x), square)
    assert said.passed is False and "has no error bound for `eigh`, so it guesses" in said.message


def test_a_solved_triangle_may_be_off_by_what_solving_costs():
    lower, right = jnp.tril(X[:16, :16]) + 8 * jnp.eye(16), Y[:16]
    solve = functools.partial(jax.scipy.linalg.solve_triangular, lower=True)

    def by_rows(a, b):
        x = jnp.zeros_like(b)
        for n in range(16):
            x = x.at[n].set((b[n] - a[n] @ x) / a[n, n])
        return x

    want = np.asarray(by_rows(lower, right))
    fn = in_kernel(lambda a, b: b, (16, 128))
    assert judges.numbers_judge(lambda a, b: fn(a, jnp.asarray(want)), solve, lower, right).passed
    said = judges.numbers_judge(lambda a, b: fn(a, jnp.asarray(want * 1.001)), solve, lower, right)
    assert said.passed is False


def test_the_command_says_2_where_a_judge_could_not_run(tmp_path, capsys):
    (tmp_path / "words.py").write_text(
        "import jax, jax.numpy as jnp\nfrom jax.experimental import pallas as pl\n\n"
        "def kernel(x_ref, o_ref):\n    o_ref[...] = x_ref.bitcast(jnp.uint32)[...]\n\n"
        "def words(x):\n"
        "    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.uint32))(x)\n\n"
        "def plain(x):\n"
        "    return jax.lax.bitcast_convert_type(x.reshape(8, 2, 128).swapaxes(1, 2), jnp.uint32)\n"
    )
    file = tmp_path / "words.py"
    status = command.main([f"{file}:words", "--reference", f"{file}:plain", "bf16[16,128]"])
    assert status == 2 and "simulator: skipped" in capsys.readouterr().out


def appended(at, new, cache, fills=False):
    """Write two new rows into a cache, in blocks of eight whose memory is the cache's."""

    def put(at_ref, new_ref, cache_ref, o_ref):
        if fills:
            o_ref[...] = cache_ref[...]
        o_ref[pl.ds(at_ref[pl.program_id(0)] % 8, 1)] = new_ref[0]

    block = pl.BlockSpec((8, 128), lambda i, at: (at[i] // 8, 0))
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(2,),
        in_specs=[pl.BlockSpec((1, 1, 128), lambda i, at: (i, 0, 0)), block],
        out_specs=block,
    )
    return pl.pallas_call(put, grid_spec=spec, out_shape=like(cache), input_output_aliases={2: 0})(at, new, cache)


def test_a_block_of_a_shared_array_that_is_written_in_part_is_told_to_be_filled_first():
    at, new, cache = jnp.array([5, 19], jnp.int32), jnp.ones((2, 1, 128)), jnp.zeros((32, 128))
    reference = lambda at, new, cache: cache.at[at].set(new[:, 0])  # noqa: E731
    said = judges.simulator_judge(appended, reference, at, new, cache)
    assert "At step (0,) o_ref[0:5] is not written. Output blocks are not copied in" in said.message
    assert said.next == "fill the block first, o_ref[...] = cache_ref[...], and then write the new values."
    assert judges.simulator_judge(functools.partial(appended, fills=True), reference, at, new, cache).passed
