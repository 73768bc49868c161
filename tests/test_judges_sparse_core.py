"""Kernels on SparseCores: every planted mistake is refused by its judge on three chips, and no right kernel is."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sparse_kernels
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc
from sparse_mistakes import CHIPS, MISTAKES, RIGHT, table
from sweeps import daily

from course_lib import compat, compiler, grid, judges, testing
from course_lib.judges import __main__ as command
from course_lib.judges.sparse_core.evaluate import evaluated
from course_lib.judges.sparse_core.faults import Fault
from course_lib.judges.sparse_core.memory import Buffer, Part, check_inside, in_hbm
from course_lib.judges.sparse_core.sharing import Access, Sharing
from course_lib.judges.tolerance.expected import expected, right

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs/sparse_core.md"
COMPILES = None if compiler.libtpu_version() is None else True


@pytest.mark.parametrize(
    "kernel, chip", daily(*((kernel, "v6e") for kernel in RIGHT), of=[(k, chip) for k in RIGHT for chip in CHIPS])
)
def test_right_kernels_pass_every_judge(kernel, chip):
    fn, reference, args = sparse_kernels.case(kernel)
    verdicts = judges.judge_sparse_core(fn, reference, *args, chip=chip)
    said = {v.judge: v.passed for v in verdicts}
    assert said == {"protocol": True, "numbers": True, "compiler": COMPILES}, "\n".join(map(str, verdicts))
    assert "bytes from HBM" in verdicts[1].message


@pytest.mark.parametrize("chip", daily("v6e", of=CHIPS))
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: f"{m.kernel}: {m.name}")
def test_every_mistake_is_refused_by_its_judge_and_seen_as_the_page_says(mistake, chip):
    fn, reference, args = sparse_kernels.case(mistake.kernel, mistake.name)
    assert values_alone(fn, reference, args, chip) == mistake.values
    last = judges.judge_sparse_core(fn, reference, *args, chip=chip)[-1]
    if mistake.judge == "compiler" and not COMPILES:
        assert (last.judge, last.passed) == ("compiler", None)
        return
    assert (last.judge, last.passed) == (mistake.judge, False), last
    assert mistake.says in f"{last.message} {last.next}" and last.next, last
    if mistake.judge == "protocol":
        assert "ubcore (core " in last.message and "at line" in last.message, last


@pytest.mark.skipif(not COMPILES, reason=compiler.tpu.missing_libtpu())
@pytest.mark.parametrize(
    "mistake, chip",
    daily(
        *((m, "v6e") for m in MISTAKES if m.name in ("the last shares overlap", "waits twice")),
        of=[(m, chip) for m in MISTAKES for chip in CHIPS],
    ),
    ids=str,
)
def test_the_compiler_says_of_a_mistake_what_the_page_says(mistake, chip):
    fn, _, args = sparse_kernels.case(mistake.kernel, mistake.name)
    assert compiler.compile_tpu(fn, *args, chip=chip).ok == mistake.compiles


def values_alone(fn, reference, args, chip):
    jaxpr = grid.trace(fn, *args, chip=chip)
    try:
        got = evaluated(jaxpr, args, chip, checked=False).outputs
    except Fault:
        return "hangs"
    want = expected(reference, args)
    return "right" if all(right(*each).all() for each in zip(got, want, strict=True)) else "wrong"


def test_the_page_has_the_table_and_its_totals():
    page = PAGE.read_text()
    assert table() in page, "put sparse_mistakes.table() into the page"
    unseen = sum(m.values == "right" and m.compiles for m in MISTAKES)
    assert f"{len(MISTAKES)} mistakes" in page and f"{len(RIGHT)} right kernels" in page
    assert f"{unseen} of the {len(MISTAKES)}" in page


def test_an_evaluation_is_the_same_every_time():
    fn, reference, args = sparse_kernels.case("scattered", "no barrier behind the sum")
    said = {str(judges.judge_sparse_core(fn, reference, *args)[-1]) for _ in range(2)}
    assert len(said) == 1 and "Subcore (core 0, subcore 0) at line" in said.pop().replace("\n", " ")


def test_copies_may_share_a_semaphore_if_all_are_awaited_before_they_are_used():
    def fetched(table, indices):
        def kernel(table_hbm, indices_hbm, o_hbm, indices_ref, rows_ref, sem):
            pltpu.sync_copy(indices_hbm.at[pl.ds(sparse_kernels.me() * 32, 32)], indices_ref)
            parts = [pl.ds(k * 8, 8) for k in range(4)]
            copies = [pltpu.async_copy(table_hbm.at[indices_ref.at[p]], rows_ref.at[p], sem) for p in parts]
            for copy in copies:
                copy.wait()
            pltpu.sync_copy(rows_ref, o_hbm.at[pl.ds(sparse_kernels.me() * 32, 32)])

        scratch = [pltpu.VMEM((32,), jnp.int32), pltpu.VMEM((32, 128), table.dtype), pltpu.SemaphoreType.DMA]
        out = jax.ShapeDtypeStruct((1024, 128), table.dtype)
        return pl.kernel(kernel, out_type=out, mesh=sparse_kernels.mesh(), scratch_types=scratch)(table, indices)

    _, reference, args = sparse_kernels.case("gathered")
    assert [v.passed for v in judges.judge_sparse_core(fetched, reference, *args)] == [True, True, COMPILES]


def test_the_other_judges_ask_this_one():
    fn, reference, args = sparse_kernels.case("counted")
    assert [v.judge for v in judges.judge(fn, reference, *args, chip="v6e")] == ["protocol", "numbers", "compiler"]
    report = testing.assert_kernel(fn, reference, *args, chip="v6e")
    assert report is None or report.ok
    with pytest.warns(UserWarning, match="budget: skipped. A budget is for kernels on a TensorCore"):
        testing.assert_kernel(fn, reference, *args, chip="v6e", budget=judges.Budget(spills=0))
    wrong, reference, args = sparse_kernels.case("counted", "one step too few")
    with pytest.raises(testing.KernelRefused, match="numbers: refused"):
        testing.assert_kernel(wrong, reference, *args, chip="v6e")


COMMAND = """\
import jax.numpy as jnp, sparse_kernels
fn, plain, args = sparse_kernels.case("counted")
wrong, *_ = sparse_kernels.case("counted", "equal lanes add at once")
arguments = lambda: args
"""


def test_the_command_asks_it_too(tmp_path, capsys):
    (file := tmp_path / "counts.py").write_text(COMMAND)
    for name, status, says in (("fn", 0, "protocol: passed"), ("wrong", 1, "protocol: refused. Subcore (core 0")):
        what = [f"{file}:{name}", "--reference", f"{file}:plain", "--arguments", f"{file}:arguments", "--chip", "v6e"]
        assert command.main(what) == status
        assert says in capsys.readouterr().out


def test_traffic_is_whole_granules_of_what_is_moved():
    """By hand: 1024 indices of 4 bytes, as many rows of 512 bytes in, and out."""
    fn, _, args = sparse_kernels.case("gathered")
    traffic = judges.sparse_core_traffic(fn, *args)
    assert (traffic.read, traffic.written, traffic.rows) == (1024 * 4 + 1024 * 512, 1024 * 512, 1024)
    assert len(traffic.subcores) == 32
    fn, _, args = sparse_kernels.case("gathered", "an index outside")
    with pytest.raises(ValueError, match="The bytes cannot be counted. Subcore"):
        judges.sparse_core_traffic(fn, *args)


def on_vectors(body, out, *args, scratch=()):
    """The result of a kernel of which every subcore of a v6e runs ``body``, and writes row ``me`` of ``out``."""
    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore")
    rows = jax.ShapeDtypeStruct((32, *out.shape), out.dtype)
    return pl.kernel(body, out_type=rows, mesh=mesh, scratch_types=[pltpu.VMEM(out.shape, out.dtype), *scratch])(*args)


def run(fn, *args, chip="v6e"):
    (result,) = evaluated(grid.trace(fn, *args, chip=chip), args, chip).outputs
    return result


X = jax.ShapeDtypeStruct((8,), jnp.int32)
VALUES = jnp.array([3, 1, 3, 3, 7, 1, 0, 3], jnp.int32)
PLAIN = {  # the operations of a vector subcore, and what NumPy computes
    "cumsum": (plsc.cumsum, np.cumsum),
    "cummax": (plsc.cummax, np.maximum.accumulate),
    "scan_count": (lambda x: plsc.scan_count(x)[0], lambda x: [np.sum(x[: i + 1] == x[i]) for i in range(8)]),
    "last of each": (
        lambda x: plsc.scan_count(x)[1].astype(jnp.int32),
        lambda x: [x[i] not in x[i + 1 :] for i in range(8)],
    ),
    "population count": (lambda x: plsc.all_reduce_population_count(x == 3), lambda x: [4] * 8),
    "first set": (lambda x: plsc.all_reduce_ffs(x == 7), lambda x: [4] * 8),
    "a maximum of some lanes": (lambda x: plsc.cummax(x, mask=x == 1), lambda x: [3, 1, 1, 1, 1, 1, 1, 1]),
    "a sum of some lanes": (lambda x: plsc.cumsum(x, mask=x == 3), lambda x: np.cumsum(x * (x == 3))),
    "sorted": (lambda x: plsc.sort_key_val(x, x + 10)[1], lambda x: np.sort(x) + 10),
    "some lanes sorted down": (
        lambda x: plsc.sort_key_val(x, x, mask=x != 3, descending=True)[0],
        lambda x: [7, 1, 1, 0, 3, 3, 3, 3],
    ),
    "how many were sorted": (
        lambda x: plsc.sort_key_val(x, x, mask=x != 3)[2].astype(jnp.int32),
        lambda x: [1, 1, 1, 1, 0, 0, 0, 0],
    ),
    "left to JAX": (lambda x: lax.rev(x, (0,)), lambda x: x[::-1]),
    "quotient": (lambda x: -x // 2, lambda x: -x // 2),
}


@pytest.mark.parametrize("name", PLAIN)
def test_an_operation_is_that_of_numpy(name):
    fn, plain = PLAIN[name]

    def kernel(x_hbm, o_hbm, x_ref):
        pltpu.sync_copy(x_hbm, x_ref)
        x_ref[...] = fn(x_ref[...])
        pltpu.sync_copy(x_ref, o_hbm.at[sparse_kernels.me()])

    got = run(lambda x: on_vectors(kernel, X, x), VALUES)
    np.testing.assert_array_equal(got, np.broadcast_to(np.asarray(plain(np.asarray(VALUES)), np.int32), (32, 8)))


def test_lanes_gather_and_scatter_and_a_parallel_loop_carries():
    def kernel(x_hbm, o_hbm, x_ref, y_ref):
        pltpu.sync_copy(x_hbm, x_ref)
        order = lax.iota(jnp.int32, 8)

        def step(k, total):
            plsc.store_scatter(y_ref, [7 - order], plsc.load_gather(x_ref, [order]) + total)
            return total + k

        plsc.parallel_loop(0, 3, carry=jnp.int32(10))(step)
        pltpu.sync_copy(y_ref, o_hbm.at[sparse_kernels.me()])

    got = run(lambda x: on_vectors(kernel, X, x, scratch=[pltpu.VMEM((8,), jnp.int32)]), VALUES)
    np.testing.assert_array_equal(got[0], np.asarray(VALUES)[::-1] + 11)


def test_lanes_are_stored_one_behind_the_other_and_loaded_from_there():
    def kernel(x_hbm, o_hbm, x_ref, y_ref):
        pltpu.sync_copy(x_hbm, x_ref)
        x = x_ref[...]
        y_ref[...] = x
        plsc.addupdate(y_ref.at[...], x)  # 6 2 6 6 14 2 0 6
        plsc.store_compressed(y_ref.at[...], x, mask=x == 1)  # 1 1 6 6 14 2 0 6
        plsc.addupdate_compressed(y_ref.at[...], x, mask=x == 7)  # 8 1 6 6 14 2 0 6
        x_ref[...] = jnp.where(x == 3, plsc.load_expanded(y_ref.at[...], mask=x == 3), 0)
        pltpu.sync_copy(x_ref, o_hbm.at[sparse_kernels.me()])

    got = run(lambda x: on_vectors(kernel, X, x, scratch=[pltpu.VMEM((8,), jnp.int32)]), VALUES)
    np.testing.assert_array_equal(got[0], [8, 0, 1, 6, 0, 0, 0, 6])


def test_a_gather_may_add_to_what_a_subcore_holds():
    table, indices = jnp.arange(64, dtype=jnp.int32).reshape(8, 8), jnp.array([3, 3, 0, 7], jnp.int32)

    def kernel(table_hbm, indices_hbm, o_hbm, rows_ref, indices_ref, sem):
        pltpu.sync_copy(indices_hbm, indices_ref)
        pltpu.sync_copy(table_hbm.at[pl.ds(0, 4)], rows_ref)
        pltpu.async_copy(table_hbm.at[indices_ref], rows_ref, sem, add=True).wait()
        pltpu.sync_copy(rows_ref, o_hbm.at[sparse_kernels.me()])

    scratch = [pltpu.VMEM((4,), jnp.int32), pltpu.SemaphoreType.DMA]
    out = jax.ShapeDtypeStruct((4, 8), jnp.int32)
    got = run(lambda *args: on_vectors(kernel, out, *args, scratch=scratch), table, indices)
    np.testing.assert_array_equal(got[31], table[:4] + table[indices])


def test_a_slice_that_ends_outside_is_named():
    """Work for 32 subcores, of which a v5p has 64: NumPy cannot copy their shares, so no wait is looked for."""

    def kernel(x_hbm, o_hbm, x_ref):
        mine = pl.ds(sparse_kernels.me() * 8, 8)
        pltpu.sync_copy(x_hbm.at[mine], x_ref)
        pltpu.sync_copy(x_ref, o_hbm.at[mine])

    def copied(x):
        scratch = [pltpu.VMEM((8,), x.dtype)]
        return pl.kernel(kernel, out_type=x, mesh=sparse_kernels.mesh(), scratch_types=scratch)(x)

    (said,) = judges.judge_sparse_core(copied, lambda x: x, jnp.arange(256), chip="v5p")
    assert "copies from x_hbm[256:264], but axis 0 of x_hbm has 256 elements" in said.message


def test_memory_starts_as_garbage_and_so_does_the_output():
    def kernel(x_hbm, o_hbm, x_ref):
        @pl.when(sparse_kernels.me() == 0)
        def _one():
            pltpu.sync_copy(x_ref, o_hbm.at[0])

    got = run(lambda x: on_vectors(kernel, X, x), VALUES)
    assert (got == np.iinfo(np.int32).max).all()


def test_an_input_is_not_written():
    def kernel(x_hbm, o_hbm, x_ref):
        pltpu.sync_copy(x_hbm, x_ref)
        pltpu.sync_copy(x_ref, x_hbm)

    with pytest.raises(Fault, match="at line .* copies to x_hbm.*, which is an input"):
        run(lambda x: on_vectors(kernel, X, x), VALUES)


def test_a_barrier_orders_what_shared_memory_holds():
    """The last subcore's row arrives at all of them, but only behind the barrier."""

    def kernel(x_hbm, o_hbm, x_ref, shared, meets):
        subcore = lax.axis_index("subcore")
        pltpu.sync_copy(x_hbm, x_ref)
        pltpu.sync_copy(x_ref, shared.at[subcore])
        if meets:
            plsc.subcore_barrier()
        pltpu.sync_copy(shared.at[15], x_ref)
        pltpu.sync_copy(x_ref, o_hbm.at[sparse_kernels.me()])

    shared = [pltpu.VMEM_SHARED((16, 8), jnp.int32)]

    def fn(meets):
        def with_or_without(x_hbm, o_hbm, x_ref, shared):
            kernel(x_hbm, o_hbm, x_ref, shared, meets=meets)

        return lambda x: on_vectors(with_or_without, X, x, scratch=shared)

    np.testing.assert_array_equal(run(fn(True), VALUES), np.broadcast_to(VALUES, (32, 8)))
    with pytest.raises(Fault, match="reads shared.15, 0., and subcore .core 0, subcore 15. at line .* nothing orders"):
        run(fn(False), VALUES)


@pytest.mark.parametrize(
    "accesses, meet",
    [
        ([(0, 0, 0, "adds to"), (0, 1, 0, "adds to"), (0, 1, 0, "reads")], True),  # the last to add reads
        ([(0, 0, 0, "adds to"), (0, 1, 0, "adds to"), (0, 1, 1, "reads")], False),  # behind a barrier
        ([(0, 0, 0, "reads"), (0, 1, 0, "reads"), (0, 0, 0, "writes")], True),
        ([(0, 0, 0, "reads"), (0, 1, 0, "reads"), (0, 0, 1, "writes")], False),
        ([(0, 0, 0, "writes"), (0, 0, 0, "reads"), (0, 0, 0, "writes")], False),  # a subcore's own, in order
        ([(0, 0, 0, "reads"), (0, 0, 3, "reads"), (1, 16, 9, "writes")], True),  # no barrier orders two cores
        ([(0, 0, 0, "reads"), (1, 16, 0, "reads"), (1, 16, 5, "writes")], True),
        ([(0, 0, 0, "writes"), (0, 1, 0, "adds to")], True),
    ],
)
def test_accesses_that_nothing_orders_are_told_from_those_in_order(accesses, meet):
    """Each (core, subcore, barriers before it, what it does); the last one is in question."""
    buffer = Buffer("sums", "vmem_shared", np.zeros(4), (4,))
    sharing, part = Sharing((4,)), Part(buffer, (slice(1, 3, 1),))
    for core, who, phase, does in accesses[:-1]:
        sharing.note(part, Access(core, who, phase, does, f"Subcore {who}"))
    core, who, phase, does = accesses[-1]
    last = Access(core, who, phase, does, f"Subcore {who}")
    sharing.note(Part(buffer, (slice(3, 4, 1),)), last)  # nobody has touched this element
    if meet:
        with pytest.raises(Fault, match=r"sums\[[12]\], and subcore"):
            sharing.note(part, last)
    else:
        sharing.note(part, last)


@pytest.mark.parametrize(
    "rows, at, inside",
    [
        (20, slice(16, 24, 1), True),  # the last tile of 8 rows, which is copied whole
        (20, slice(16, 32, 1), False),
        (20, slice(24, 32, 1), False),
        (20, 20, False),  # one row is no tile
        (20, 19, True),
        (1, slice(0, 1, 1), True),  # a single row has no padding
        (1, slice(0, 2, 1), False),
        (3, slice(0, 4, 1), True),
        (20, np.array([0, 19]), True),
        (20, np.array([0, 20]), False),
        (20, np.array([-1, 0]), False),
    ],
    ids=str,
)
def test_an_access_lies_inside_or_in_the_tile_that_holds_the_last_rows(rows, at, inside):
    part = Part(in_hbm("x_hbm", (rows, 128), np.float32), (at, slice(0, 128, 1)))
    if inside:
        check_inside(part, "Subcore 0", "reads")
    else:
        with pytest.raises(Fault, match="Subcore 0 reads x_hbm"):
            check_inside(part, "Subcore 0", "reads")


def cannot(body):
    """The verdicts on a kernel of which ``body(ref)`` is what the evaluator does not have."""

    def kernel(x_hbm, o_hbm, x_ref):
        pltpu.sync_copy(x_hbm, x_ref)
        body(x_ref)
        pltpu.sync_copy(x_ref, o_hbm.at[sparse_kernels.me()])

    plain = lambda x: jnp.broadcast_to(x, (32, 8))  # noqa: E731
    return judges.judge_sparse_core(lambda x: on_vectors(kernel, X, x), plain, VALUES)


def test_what_cannot_be_evaluated_is_skipped_and_named():
    def packed(ref):
        how = {"format": plsc.PackFormat.INTERLEAVED}
        ref[...] = plsc.unpack(plsc.pack(ref[...], ref[...], **how), **how)[0]

    protocol, numbers, *_ = cannot(packed)
    assert (protocol.passed, numbers.passed) == (None, None)
    assert "The evaluator has no `pack`, which the kernel uses at line" in protocol.message


@pytest.mark.parametrize(
    "fn, how, says",
    [
        (lambda x: x, {"chip": "v5e"}, 'no SparseCores; it may be "v5p", "v6e", "tpu7x"'),
        (lambda x: x, {"chip": "v9"}, "v9"),
        (lambda x: 1 / 0, {}, "reference cannot be run"),
    ],
)
def test_bad_arguments_are_named(fn, how, says):
    with pytest.raises(ValueError, match=says):
        judges.judge_sparse_core(lambda x: x, fn, jnp.ones(8), **how)


def test_a_function_without_a_kernel_is_refused():
    (verdict,) = judges.judge_sparse_core(lambda x: x + 1, lambda x: x + 1, jnp.ones(8))
    assert verdict.passed is False and "no kernel on SparseCores" in verdict.message


def test_the_operations_of_sparse_cores_are_told_from_those_of_jax():
    """JAX has another primitive that is called "gather"."""
    jaxpr = jax.make_jaxpr(lambda x: x[jnp.array([0, 1])])(jnp.ones(8))
    assert [compat.sparse_core_primitive(eqn) for eqn in jaxpr.eqns if eqn.primitive.name == "gather"] == [""]
    fn, _, args = sparse_kernels.case("counted")
    (kernel,) = grid.pallas_calls(grid.trace(fn, *args, chip="v6e"))
    inside = grid.equations(kernel.params["jaxprs"][0])
    found = {compat.sparse_core_primitive(eqn) for eqn in inside} - {""}
    assert {"sc.scatter", "sc.scan_count"} <= found
