"""Gather, scatter-add and histogram: like plain JAX on a CPU, compiled for SparseCores, and refused by name.

Their kernels stand before the judge of SparseCores in test_judges_sparse_core.
"""

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_libtpu
from jax.experimental.pallas import tpu_sc as plsc
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from sparse_kernels import normal, numbers
from sweeps import daily

from course_lib import chips, compiler, judges
from course_lib.kernels import one_page, sparse_core
from course_lib.kernels.sparse_core import kernel

TABLE, ROWS, INDICES = normal(50, 128), normal(3, 7, 128), numbers(-3, 55, 21).reshape(3, 7)


def close(got, want):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), got, want)


def plain_scatter(rows, indices=INDICES, count=50):
    return sparse_core.scatter_add_reference(rows.reshape(-1, 128), indices.reshape(-1), count)


def test_values_are_those_of_plain_jax():
    close(sparse_core.gather_rows(TABLE, INDICES), jnp.take(TABLE, INDICES, axis=0, mode="clip"))
    close(sparse_core.scatter_add(ROWS, INDICES, 50), plain_scatter(ROWS))
    inside = INDICES.reshape(-1)[(INDICES.reshape(-1) >= 0) & (INDICES.reshape(-1) < 50)]
    close(sparse_core.histogram(INDICES, 50), jnp.bincount(inside, length=50))
    within = jnp.clip(INDICES, 0, 49).reshape(-1)
    close(
        sparse_core.scatter_add(ROWS, jnp.clip(INDICES, 0, 49), 50),
        jax.ops.segment_sum(ROWS.reshape(-1, 128), within, 50),
    )


def test_the_gradient_of_a_gather_is_a_scatter_add_and_the_other_way_round():
    gather = jax.grad(lambda table, fn: (fn(table, INDICES) * ROWS).sum())
    close(gather(TABLE, sparse_core.gather_rows), gather(TABLE, lambda t, i: jnp.take(t, i, axis=0, mode="clip")))
    weights = normal(50, 128)
    scatter = jax.grad(lambda rows, fn: (fn(rows) * weights).sum())
    close(scatter(ROWS, lambda r: sparse_core.scatter_add(r, INDICES, 50)), scatter(ROWS, plain_scatter))


def test_derivatives_of_derivatives_and_forward_ones():
    def ours(rows):
        return (sparse_core.scatter_add(rows, INDICES, 50) ** 2).sum()

    def plain(rows):
        return (plain_scatter(rows) ** 2).sum()

    twice = [jax.jvp(jax.grad(fn), (ROWS,), (ROWS,))[1] for fn in (ours, plain)]
    close(*twice)
    close(jax.jvp(ours, (ROWS,), (ROWS,)), jax.jvp(plain, (ROWS,), (ROWS,)))


def test_mapped_and_jitted():
    tables = jnp.stack([TABLE, 2 * TABLE])
    got = jax.jit(jax.vmap(sparse_core.gather_rows, (0, None)))(tables, INDICES)
    close(got[1], 2 * sparse_core.gather_rows(TABLE, INDICES))
    each = jax.vmap(lambda i: sparse_core.histogram(i, 55))(INDICES)
    close(each.sum(0), sparse_core.histogram(INDICES, 55))


@pytest.mark.parametrize("kind", [AxisType.Explicit, AxisType.Auto])
def test_on_a_mesh_each_device_takes_its_indices(kind):
    """Indices cut along a mesh, a table on every device: the gradient and the counts are sums over the devices."""
    indices, mesh = numbers(-3, 55, 64), jax.make_mesh((4,), ("d",), (kind,), devices=jax.devices("cpu")[:4])
    gradient = jax.jit(jax.grad(lambda table, i: (sparse_core.gather_rows(table, i) ** 2).sum()))
    want = gradient(TABLE, indices), sparse_core.histogram(indices, 50)
    with jax.set_mesh(mesh):
        cut = jax.device_put(indices, NamedSharding(mesh, P("d")))
        table = jax.device_put(TABLE, NamedSharding(mesh, P()))
        got = gradient(table, cut), jax.jit(lambda i: sparse_core.histogram(i, 50))(cut)
    close(jax.device_get(got), jax.device_get(want))


def test_nothing_to_move_is_no_error():
    assert sparse_core.gather_rows(TABLE, jnp.zeros((0,), jnp.int32)).shape == (0, 128)
    close(sparse_core.scatter_add(jnp.zeros((0, 128)), jnp.zeros((0,), jnp.int32), 3), jnp.zeros((3, 128)))


def struct(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def int32(*shape):
    return struct(*shape, dtype=jnp.int32)


# Name of a program: (function, arguments, kernels on SparseCores).
PROGRAMS = {
    "gather": (sparse_core.gather_rows, (struct(1000, 384), int32(1001)), 1),
    "gather of int32, few rows": (sparse_core.gather_rows, (int32(7, 128), int32(3)), 1),
    "scatter": (lambda r, i: sparse_core.scatter_add(r, i, 100), (struct(1031, 128), int32(1031)), 1),
    "scatter into many rows": (lambda r, i: sparse_core.scatter_add(r, i, 60_001), (struct(99, 256), int32(99)), 1),
    "scatter of int32": (lambda r, i: sparse_core.scatter_add(r, i, 5000), (int32(64, 128), int32(64)), 1),
    "histogram": (lambda v: sparse_core.histogram(v, 1000), (int32(10_001),), 1),
    "histogram of the most bins": (lambda v: sparse_core.histogram(v, 32_768), (int32(5),), 1),
    "gradient of an embedding": (
        jax.grad(lambda t, i: (sparse_core.gather_rows(t, i) ** 2).sum()), (struct(4096, 128), int32(2, 50)), 2,
    ),
}  # fmt: skip
CHIPS = "v6e", "v5p", "tpu7x"


@needs_libtpu
@pytest.mark.parametrize(
    "name, chip",
    daily(*((name, "v6e") for name in PROGRAMS), of=[(name, chip) for name in PROGRAMS for chip in CHIPS]),
)
def test_it_compiles_to_kernels_on_sparse_cores(name, chip):
    fn, args, kernels = PROGRAMS[name]
    report = compiler.compile_tpu(fn, *args, chip=chip)
    assert report.ok, report
    assert report.hlo.count('custom_call_target="tpu_custom_call"') == kernels
    assert 'execution_thread="sparsecore"' in report.hlo
    assert (report.cycles, report.hbm_bytes, report.seconds) == (None, None, None)
    assert "simulator does not run SparseCores" in report.notes[0]


@needs_libtpu
def test_a_v5e_runs_plain_jax():
    fn, args, _ = PROGRAMS["scatter"]
    report = compiler.compile_tpu(fn, *args, chip="v5e", simulate=False)
    assert report.ok and "tpu_custom_call" not in report.hlo


def test_a_gpu_runs_plain_jax():
    fn, args, _ = PROGRAMS["gradient of an embedding"]
    lowered = jax.jit(fn).trace(*args).lower(lowering_platforms=("cuda",)).as_text()
    assert "scatter" in lowered and "custom_call" not in lowered


@pytest.mark.parametrize(
    "op, n, chip",
    [
        ("scatter_add", 300, "tpu7x"),
        ("gather_rows", 129, "v5p"),
        pytest.param("scatter_add", 130, "v5p", marks=pytest.mark.sweep),
    ],
)
def test_an_odd_number_of_rows_and_a_sum_in_parts_are_right(op, n, chip):
    """In NumPy, as the judge does: a last window that is not full, 9,300 rows of a sum in two parts, 256 columns."""
    if op == "gather_rows":
        fn, reference, args = (
            sparse_core.gather_rows,
            sparse_core.gather_rows_reference,
            (normal(70, 256), numbers(-9, 99, n)),
        )
    else:
        fn, args = lambda r, i: sparse_core.scatter_add(r, i, 9300), (normal(n, 256), numbers(-9, 9400, n))
        reference = lambda r, i: sparse_core.scatter_add_reference(r, i, 9300)  # noqa: E731
    protocol, values, *_ = judges.judge_sparse_core(fn, reference, *args, chip=chip)
    assert protocol.passed and values.passed, (protocol, values)


def test_the_cost_of_the_docstring_is_what_is_moved():
    n, count, width = 1024, 512, 256
    table, rows, indices = normal(count, width), normal(n, width), numbers(0, count, n)
    gather = judges.sparse_core_traffic(sparse_core.gather_rows, table, indices)
    assert (gather.read, gather.written) == (4 * n * (width + 1), 4 * n * width)
    scatter = judges.sparse_core_traffic(lambda r, i: sparse_core.scatter_add(r, i, count), rows, indices)
    zeros = 32 * 16 * 1024  # each subcore reads a chunk of zeros
    assert (scatter.read, scatter.written) == (4 * n * width + 2 * 4 * n + zeros, 4 * 2 * count * width)
    counts = judges.sparse_core_traffic(lambda v: sparse_core.histogram(v, 128), indices)
    assert (counts.read, counts.written) == (4 * n, 4 * 32 * 128)


def test_the_parts_of_a_sum_are_as_long_as_the_page_says():
    """4,608 rows on a v6e, and 12,800 on the others; a short sum is one part."""
    for chip, most in (("v6e", 4608), ("v5p", 12_800), ("tpu7x", 12_800)):
        with chips.chip(chip).target():
            info = plsc.get_sparse_core_info()
            assert (kernel._rows_of_a_part(10**6, info), kernel._rows_of_a_part(100, info)) == (most, 512)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The printed page as a module."""
    file = tmp_path_factory.mktemp("page") / "sparse_core_page.py"
    file.write_text(one_page.one_page("sparse_core"))
    assert "course_lib" not in file.read_text()
    spec = importlib.util.spec_from_file_location(file.stem, file)
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    return module


@pytest.mark.filterwarnings("ignore:Destination semaphore is ignored")  # of JAX 0.12, for its own pltpu.sync_copy
def test_the_printed_page_has_values_and_gradients_and_kernels(page):
    flat = INDICES.reshape(-1)
    close(page.gather_rows(TABLE, flat), sparse_core.gather_rows(TABLE, flat))
    gradient = jax.grad(lambda table, fn: (fn(table, flat) ** 2).sum())
    close(gradient(TABLE, page.gather_rows), gradient(TABLE, sparse_core.gather_rows))
    weights, of_rows = normal(50, 128), ROWS.reshape(-1, 128)
    gradient = jax.grad(lambda rows, fn: (fn(rows, flat, 50) * weights).sum())
    close(gradient(of_rows, page.scatter_add), gradient(of_rows, sparse_core.scatter_add))
    close(page.histogram(flat, 50), sparse_core.histogram(flat, 50))
    with chips.chip("v6e").target():
        for fn, args in ((page.gather_rows, (TABLE, flat)), (lambda v: page.histogram(v, 50), (flat,))):
            lowered = jax.jit(lambda *a, fn=fn: fn(*a)).trace(*args).lower(lowering_platforms=("tpu",)).as_text()
            assert "tpu_custom_call" in lowered


WRONG = {
    "width": (lambda: sparse_core.gather_rows(jnp.ones((4, 100)), INDICES), ValueError, r"100 columns.*\(0, 28\)"),
    "no columns": (lambda: sparse_core.gather_rows(jnp.ones((4, 0)), INDICES), ValueError, "has 0 columns"),
    "axes": (lambda: sparse_core.gather_rows(jnp.ones(128), INDICES), ValueError, "it must have two axes"),
    "dtype": (lambda: sparse_core.gather_rows(TABLE.astype(jnp.bfloat16), INDICES), ValueError, "float32 or int32"),
    "indices": (lambda: sparse_core.gather_rows(TABLE, INDICES * 1.0), ValueError, "indices is float32.*int32"),
    "no rows": (lambda: sparse_core.gather_rows(jnp.ones((0, 128)), INDICES), ValueError, "no row that an index"),
    "a list": (lambda: sparse_core.gather_rows([[1.0]], INDICES), TypeError, "table is of type list"),
    "one index for each": (lambda: sparse_core.scatter_add(ROWS, INDICES[0], 9), ValueError, r"shape \(3, 7\)"),
    "count": (
        lambda: sparse_core.scatter_add(ROWS, INDICES, 0),
        ValueError,
        "count is 0; it must be a whole number, 1",
    ),
    "a count of another kind": (lambda: sparse_core.scatter_add(ROWS, INDICES, 2.5), ValueError, "count is 2.5"),
    "bins": (lambda: sparse_core.histogram(INDICES, 40_000), ValueError, "from 1 to 32,768.*values - 32768"),
    "floats": (lambda: sparse_core.histogram(ROWS, 4), ValueError, "values is float32"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_it_cannot_take_is_named(name):
    call, kind, says = WRONG[name]
    with pytest.raises(kind, match=says):
        call()


def test_the_registry_knows_the_sparse_cores():
    found = {name: chips.sparse_cores(name) for name in chips.NAMES}
    assert {name for name, cores in found.items() if cores is None} == {"v4", "v5e"}
    assert {name: (c.cores, c.subcores, c.lanes) for name, c in found.items() if c} == {
        "v5p": (4, 16, 8), "v6e": (2, 16, 8), "tpu7x": (2, 16, 16),
    }  # fmt: skip
