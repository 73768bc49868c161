"""The table of ``make bench``: its rows are alike, its figures are those of the compiler, its reasons are given."""

import dataclasses
import datetime
import functools
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_libtpu
from sample_kernels import array
from sample_kernels import matmul as tiled

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "benchmarks"))

import bench_kernels  # noqa: E402
import drawn_rows  # noqa: E402
import kernel_rows  # noqa: E402
from bench_kernels import Figure, Line  # noqa: E402
from kernel_rows import GUIDE, OURS, PALLAS_OPS, PUBLISHED, TOKAMAX, XLA  # noqa: E402

from course_lib import bench, chips, compiler  # noqa: E402

ROWS = kernel_rows.rows()


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path))


def missing():
    raise ImportError("No module named 'missing'")


def small(**implementations):
    """A row of a product that compiles in no time."""
    x = array((256, 256), jnp.bfloat16)
    loads = {name: (fn if fn is missing else lambda fn=fn: fn) for name, fn in implementations.items()}
    return kernel_rows.Row(kernel="product", shape="256 x 256 x 256", args=(x, x), implementations=loads)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.kernel} {row.shape}")
def test_all_implementations_of_a_row_return_the_same_arrays(row):
    """Like for like: or a ratio means nothing."""
    shapes = {}
    for name, load in row.implementations.items():
        try:
            fn = load()
        except ImportError:
            assert name != XLA
            continue
        if name in row.choices:
            fn = functools.partial(fn, blocks=row.choices[name][0])
        with chips.chip("v5e").target():
            outputs = jax.tree.leaves(jax.eval_shape(fn, *row.args))
        shapes[name] = [(out.shape, out.dtype.name) for out in outputs]
    assert len(shapes) >= 2
    assert all(shape == shapes[XLA] for shape in shapes.values()), shapes


def test_the_rows_are_those_that_were_asked_for():
    usual = [row for row in ROWS if not row.model]
    products = {row.shape for row in usual if row.kernel == "matmul"}
    square = {f"{n} x {n} x {n}" for n in (1024, 2048, 4096, 8192)}
    assert products == square | {"512 x 8192 x 2048", "8192 x 512 x 8192"}
    assert {row.dtype for row in usual if row.kernel == "matmul"} == {"bf16"}
    for kernel in ("softmax", "RMSNorm", "LayerNorm"):
        assert [(row.shape, row.dtype) for row in usual if row.kernel == kernel] == [("8192 x 2048", "f32")]
    assert any("and gradients" in row.kernel and row.shape == "2048 x 2048 x 2048" for row in ROWS)
    assert any(GUIDE in row.implementations for row in ROWS)
    models = [row.model for row in ROWS if row.model not in ("", bench_kernels.DRAWN)]
    assert len(models) == 30
    drawn = [row.shape for row in ROWS if row.model == bench_kernels.DRAWN]
    assert len(set(drawn)) == 40 and len({row.shape for row in drawn_rows.rows(seed=1)} & set(drawn)) < 10
    assert set(models) >= {"decode", "prefill", "vocabulary", "vision", "odd"}


def test_the_least_time_of_a_row_counts_what_its_tables_name():
    """A gather does not tell how much of its operand it reads; the row does."""
    (row,) = (row for row in ROWS if row.shape == "8 sequences of 512")
    least = bench_kernels.least_time(row)
    pool = 8 * 512 * 8 * 2 * 128 * 2  # sequences, tokens, heads, a key and a value of so many elements, bytes of one
    assert least.by == "HBM" and pool <= least.hbm_bytes < 1.01 * pool
    unread = bench_kernels.least_time(dataclasses.replace(row, reads_all=False))
    assert unread.hbm_bytes < 0.01 * pool


def test_gradients_are_the_value_and_every_gradient():
    x, w, b, dy = (
        jnp.asarray(np.random.default_rng(0).normal(size=s), jnp.float32) for s in ((8, 4), (4, 6), 6, (8, 6))
    )
    plain = kernel_rows.plain_linear("gelu_tanh")
    value, *gradients = kernel_rows.with_gradients(plain)(x, w, b, dy)
    wanted = jax.grad(lambda x, w, b: (plain(x, w, b) * dy).sum(), argnums=(0, 1, 2))(x, w, b)
    np.testing.assert_allclose(value, plain(x, w, b))
    for got, want in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@needs_libtpu
def test_the_guides_kernel_reads_the_second_matrix_once_for_every_128_rows():
    x = array((1024, 1024))
    report = compiler.compile_tpu(kernel_rows.guide_kernel, x, x)
    assert report.ok
    assert report.hbm_bytes == 4 * (1024**2 + 1024**2 * 1024 // 128 + 1024**2)


@needs_libtpu
def test_a_line_has_the_compilers_figures_and_says_why_others_are_missing():
    row = small(**{OURS: lambda x, y: tiled(x, y, blocks=(128, 128, 128)), XLA: jnp.matmul, TOKAMAX: missing})
    line = bench_kernels.line_of(row)
    ours = compiler.compile_tpu(lambda x, y: tiled(x, y, blocks=(128, 128, 128)), *row.args)
    xla = compiler.compile_tpu(jnp.matmul, *row.args)
    assert line.ratio(OURS, XLA) == ours.seconds / xla.seconds
    assert line.figures[OURS].hbm_bytes == ours.hbm_bytes
    assert line.figures[TOKAMAX].why == "not here: No module named 'missing'"
    assert (line.least_s, line.by) == (bench.bound(jnp.matmul, *row.args).seconds, "HBM")
    assert "no TPU or GPU" in line.figures[OURS].why_not_measured


@needs_libtpu
def test_blocks_are_searched_for_what_does_not_choose_them():
    row = small(**{XLA: jnp.matmul, PALLAS_OPS: lambda x, y, *, blocks: tiled(x, y, blocks=blocks)})
    choices = ((128, 128, 128), (256, 256, 256))
    row = dataclasses.replace(row, choices={PALLAS_OPS: choices})
    figure = bench_kernels.figure(row, PALLAS_OPS)
    assert figure.note == "with the best of 2 choices of blocks: (256, 256, 256)"
    assert figure.predicted > 0
    row = dataclasses.replace(row, choices={PALLAS_OPS: ((512, 512, 512),)})
    assert "no step writes" in bench_kernels.figure(row, PALLAS_OPS).why


@needs_libtpu
def test_a_kernel_that_is_refused_is_a_reason():
    figure = bench_kernels.figure(
        small(**{OURS: lambda x, y: tiled(x, y, blocks=(256, 256, 100)), XLA: jnp.matmul}), OURS
    )
    assert figure.predicted is None
    assert "100" in figure.why


def lines():
    """Lines of made-up figures, each of another kind."""
    row = small(**{OURS: None, XLA: None, PALLAS_OPS: None})
    noted = Figure(predicted=3e-6, note="with the best blocks")
    known = Line(
        row=row,
        figures={OURS: Figure(predicted=2e-6), XLA: Figure(predicted=1.6e-6), PALLAS_OPS: noted},
        least_s=1e-6,
        by="HBM",
    )
    refused = Line(
        row=row,
        figures={OURS: Figure(why="refused: too\n  large"), XLA: Figure(predicted=1e-6)},
        least_s=1e-6,
        by="compute",
    )
    figures = {
        OURS: Figure(predicted=2e-6, hbm_bytes=10**6),
        XLA: Figure(),
        GUIDE: Figure(predicted=8e-6, hbm_bytes=17 * 10**6),
    }
    guide = Line(row=row, figures=figures | {PUBLISHED: Figure(why="refused: too large")}, least_s=1e-6, by="compute")
    return [known, refused, guide]


def test_the_page():
    page = bench_kernels.page(lines(), datetime.date(2026, 11, 22))
    assert "on 2026-11-22, with jax " in page
    assert f"jax {jax.__version__}" in page
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    known = dict(zip(rows[0], rows[2], strict=True))
    assert (known["ours"], known["XLA"]) == ("2.0 us", "1.6 us")
    assert known["ours / XLA"] == "1.250"
    assert known["Pallas ops"] == "3.0 us [1]"
    assert (known["Tokamax"], known["at least"], known["of that"]) == ("", "1.0 us HBM", "50.0 %")
    refused = dict(zip(rows[0], rows[3], strict=True))
    assert (refused["ours"], refused["ours / XLA"], refused["of that"]) == ("[2]", "", "")
    assert ["ours", "2.0 us", "1 MB", "1.00"] in rows
    assert [GUIDE, "8.0 us", "17 MB", "4.00"] in rows
    assert [PUBLISHED, "[2]", "", ""] in rows  # the same reason has the same number
    assert page.splitlines()[-2:] == ["1. with the best blocks", "2. refused: too large"]
    assert "Nothing: the machine that made this page has no TPU or GPU." in page


def test_shapes_of_models_have_a_table_of_their_own_and_a_summary():
    """Median and worst, of what has a figure."""
    known, refused, _ = lines()
    slow = dataclasses.replace(known, figures=known.figures | {OURS: Figure(predicted=4e-6)})
    even = dataclasses.replace(known, figures=known.figures | {OURS: Figure(predicted=1.6e-6)})
    row_wise = dataclasses.replace(known.row, kernel="softmax", model="attention")
    products = [
        dataclasses.replace(line, row=dataclasses.replace(line.row, kernel="matmul", model="odd"))
        for line in (known, slow, even, refused)
    ]
    page = bench_kernels.page([*products, dataclasses.replace(even, row=row_wise), known], datetime.date.today())
    assert page.count("| odd ") == 4
    assert page.count("| attention ") == 1
    assert "- Products, 4 shapes: ours / XLA median 1.25, worst 2.50; ours / at least median 2.00, worst 4.00." in page
    assert "- Row-wise, 1 shapes: ours / XLA median 1.00, worst 1.00; ours / at least median 1.60, worst 1.60." in page


def test_what_is_fetched_ahead_counts_where_nothing_hides_it():
    ops = [compiler.Op(name="y", kind="copy-start", hbm_bytes=819 * 10**3), compiler.Op(name="x", kind="fusion")]
    ops[1] = dataclasses.replace(ops[1], seconds=2e-6)
    report = compiler.Report(name="", chip="v5e", ok=True, seconds=2e-6, ops=tuple(ops))
    assert bench_kernels.with_fetch(report) == pytest.approx(3e-6, rel=0.02)
    assert bench_kernels.with_fetch(dataclasses.replace(report, ops=(*ops, ops[1]))) == 2e-6


def test_measured_figures_have_their_own_table_and_never_stand_among_the_predicted(monkeypatch):
    device = type("Device", (), {"device_kind": "TPU v5 lite"})()
    monkeypatch.setattr(bench, "accelerator", lambda: device)
    monkeypatch.setattr(jax, "devices", lambda: [device])
    line = lines()[0]
    timed = dataclasses.replace(line.figures[OURS], measured=(2.5e-6, 2.4e-6, 2.7e-6))
    untimed = dataclasses.replace(line.figures[XLA], why_not_measured="too fast to be true")
    line = dataclasses.replace(line, figures={OURS: timed, XLA: untimed})
    predicted, found = bench_kernels.page([line], datetime.date.today()).split("## Measured")
    assert "2.5 us" not in predicted
    assert "TPU v5 lite" in found
    assert "2.5 us | 2.4 us" in found
    assert "too fast to be true" in found


@pytest.mark.parametrize(
    "program, kernel",
    [("stablehlo.custom_call @tpu_custom_call", True), ("@mosaic_gpu_v2", True), ("stablehlo.dot_general", False)],
)
def test_plain_jax_is_not_timed_as_a_kernel(program, kernel):
    assert bench_kernels.holds_a_kernel(program) == kernel


def test_what_is_asked_for_and_is_not_there(capsys):
    if compiler.libtpu_version() is None:
        pytest.skip("without libtpu there is no table")
    with pytest.raises(SystemExit):
        bench_kernels.main(["no such kernel"])
    with pytest.raises(SystemExit):
        bench_kernels.main(["matmul", "--write"])
    said = capsys.readouterr().err
    assert "no row contains 'no such kernel'" in said
    assert "leave out the word" in said
