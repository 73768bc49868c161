"""``make bench`` on a GPU, tested without one: what is wrong is not timed, and every time has its reason or its row."""

import dataclasses
import datetime
import json
import pathlib
import sys
import types

import jax
import jax.numpy as jnp
import pytest
from gpu_compiler import needs_gpu_compiler

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "benchmarks"))

import bench as command  # noqa: E402
import bench_gpu  # noqa: E402
import bench_kernels  # noqa: E402
import gpu_attention_rows  # noqa: E402
import gpu_checks  # noqa: E402
import gpu_rows  # noqa: E402
import results_page  # noqa: E402
from kernel_rows import OURS, TOKAMAX, XLA  # noqa: E402

from course_lib import bench, chips, compiler  # noqa: E402
from course_lib.kernels import matmul  # noqa: E402
from course_lib.kernels.dispatch import launch  # noqa: E402

ROWS = gpu_rows.rows()
DAY = datetime.date(2026, 11, 23)
H200 = types.SimpleNamespace(device_kind="NVIDIA H200", client=types.SimpleNamespace(platform_version="cuda 13000"))


def row(kernel="matmul", **implementations):
    """A small product."""
    x = jax.ShapeDtypeStruct((64, 64), jnp.bfloat16)
    loads = {name: lambda fn=fn: fn for name, fn in implementations.items()}
    return gpu_rows.Row(kernel=kernel, shape="64 x 64 x 64", args=(x, x), plain=jnp.matmul, implementations=loads)


@pytest.fixture
def timed(monkeypatch):
    """A GPU that takes 2 us for whatever it is given; returns what it was given."""
    given = []

    def measure(fn, *args, rounds, plain):
        given.append(fn)
        least = bench.bound(plain, *args, chip="h200")
        times = (1.9e-6, 2e-6, 2.1e-6)
        return bench.Measured(name="", device="", times=times, how="", copies=9, bound=least, versions="")

    monkeypatch.setattr(bench, "measure", measure)
    monkeypatch.setattr(bench, "accelerator", lambda: H200)
    return given


@pytest.mark.parametrize("line", ROWS, ids=bench_gpu.words)
def test_all_implementations_of_a_row_return_what_its_definition_does(line):
    """Like for like: or a ratio means nothing. For a Hopper GPU, each is a kernel where it says so."""
    wanted = jax.tree.leaves(jax.eval_shape(line.plain, *line.args))
    for name, load in {**line.implementations, **dict(list(line.choices.items())[:1])}.items():
        if name in (TOKAMAX, gpu_attention_rows.CUDNN):  # each wants a GPU of this machine's before it traces anything
            continue
        with chips.gpu_target("h200").target():
            found = jax.tree.leaves(jax.eval_shape(load(), *line.args))
        assert [out.shape for out in found] == [out.shape for out in wanted], name


def test_what_the_rows_are():
    kernels = {line.kernel for line in ROWS}
    assert {"matmul", "softmax", "RMSNorm", "LayerNorm", "linear, gelu", gpu_rows.COPY} <= kernels
    assert ROWS[0].kernel == gpu_rows.COPY
    assert {"4096 x 4096 x 4096", "8192 x 8192 x 8192"} <= {line.shape for line in ROWS if line.kernel == "matmul"}
    assert all(len(line.choices) == len(gpu_rows.BLOCKS) for line in ROWS if line.kernel == "matmul")


@needs_gpu_compiler
def test_every_choice_of_blocks_compiles_without_a_spill():
    product = next(line for line in ROWS if line.shape == "1024 x 1024 x 1024")
    for tile in {blocks.bn: blocks for blocks in product.choices}.values():
        report = compiler.compile_gpu(product.choices[tile](), *product.args, chip="h200")
        assert report.ok and report.spills == 0, (tile, report)


def test_what_is_wrong_is_not_timed(timed):
    """One element of 4,096, off by a tenth of a usual one."""
    wrong = lambda x, y: (x @ y).at[3, 5].add(1.5)  # noqa: E731
    ((_, found),) = bench_gpu.measured([row(**{OURS: wrong, XLA: jnp.matmul})])
    assert found[OURS].measured is None and found[OURS].error > bench_gpu.WRONG["bf16"]
    assert found[OURS].why.startswith("wrong: its error is 0.")
    assert found[XLA].error < 2**-8 and found[XLA].measured.seconds == 2e-6
    assert timed == [jnp.matmul]
    ((_, found),) = bench_gpu.measured([row(**{OURS: lambda x, y: x @ y * jnp.nan})])
    assert found[OURS].error == jnp.inf and "wrong" in found[OURS].why


def test_what_does_not_run_has_a_reason(timed, monkeypatch):
    def broken(x, y):
        raise RuntimeError("CUDA_ERROR_INVALID_VALUE\nand a long story")

    def missing():
        raise ImportError("No module named 'missing'")

    line = row(broken=broken, absent=None)
    line.implementations["absent"] = missing
    ((_, found),) = bench_gpu.measured([line])
    assert found["broken"].why == "RuntimeError: CUDA_ERROR_INVALID_VALUE"
    assert found["absent"].why == "not here: No module named 'missing'"
    too_fast = bench.Impossible("f: 1 us is 2 times faster than the chip can be")

    def refuse(*args, **options):
        raise too_fast

    monkeypatch.setattr(bench, "measure", refuse)
    ((_, found),) = bench_gpu.measured([row(**{XLA: jnp.matmul})])
    assert found[XLA].measured is None and "faster than the chip can be" in found[XLA].why


def test_plain_jax_does_not_pass_for_a_kernel_of_ours(timed):
    """Lowered for a GPU, where the kernel does not take its operands: an error here, and not a warning."""

    def on_an_h200(x, y):
        with chips.gpu_target("h200").target():
            jax.jit(matmul.matmul).trace(x[:, :60], y[:60]).lower(lowering_platforms=("cuda",))

    found = bench_gpu.found(row(), OURS, lambda: on_an_h200, bench_gpu.operands(row()), jnp.zeros((64, 64)))
    assert found.measured is None and not timed
    assert "no kernel: Mosaic GPU copies 8 rows of 64 numbers" in found.why


def test_the_page(timed):
    copy = dataclasses.replace(
        row(gpu_rows.COPY, **{XLA: jnp.copy}), args=row().args[:1], plain=jnp.copy, shape="64 x 64"
    )
    lines = bench_gpu.measured([copy, row(**{OURS: lambda x, y: x @ y, XLA: jnp.matmul, "broken": lambda x: x})])
    page = bench_gpu.page(H200, lines, DAY)
    assert page.startswith("### NVIDIA H200, 2026-11-23\n\njax ") and "cuda 13000" in page
    tables = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line] for line in tables]
    assert cells[0][3:] == ["ours", "XLA", "broken"]
    assert ["copy", "64 x 64", "bf16", "", "0.0e+00", ""] in cells
    assert ["copy", "64 x 64", "bf16", "", "2.0 us ± 2.5 %", "", "", "8 GB/s", "<1 %", "100 %"] in cells
    times = next(line for line in cells if line[0] == "matmul" and "us" in line[4])
    assert times[3:7] == ["2.0 us ± 2.5 %", "2.0 us ± 2.5 %", "-", "1.000"]
    assert "- broken, matmul 64 x 64 x 64: TypeError" in page


def test_blocks_are_ranked_by_what_was_measured(timed, monkeypatch):
    line = dataclasses.replace(
        row(), choices={"narrow": lambda: jnp.matmul, "wrong": lambda: lambda x, y: x, "wide": lambda: jnp.matmul}
    )
    said = bench_gpu.tuned(line)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in said.splitlines() if line.startswith("| ")]
    assert rows[2:4] == [["narrow", "2.0 us", "1.000"], ["wide", "2.0 us", "1.000"]]
    assert rows[4][0] == "wrong" and "wrong" in rows[4][2]


def test_a_row_and_its_rounds_are_kept_as_they_come(timed, tmp_path):
    lines = bench_gpu.measured([row(**{OURS: lambda x, y: x @ y}), row()], file=tmp_path / "rows.json")
    kept = json.loads((tmp_path / "rows.json").read_text())
    assert [line["kernel"] for line in kept] == ["matmul", "matmul"] and len(lines) == 2
    assert kept[0]["found"][OURS]["times"] == [1.9e-6, 2e-6, 2.1e-6] and kept[0]["found"][OURS]["error"] < 2**-8
    assert bench_gpu.measured([row()], until=0) == []


# Whether the kernels are right


def test_an_error_counts_beside_its_row_and_nan_as_one():
    right = jnp.array([[1000.0, 1000.0], [1.0, 1.0]])
    assert bench_gpu.error_of(right.at[1, 0].add(0.5), right) == pytest.approx(0.25)
    assert bench_gpu.error_of(right.at[0, 0].set(jnp.nan), right) == jnp.inf
    right = right.at[0, 0].set(jnp.nan).at[1, 1].set(-jnp.inf)
    assert bench_gpu.error_of(right, right) == 0


def test_the_cases_lower_for_a_hopper_on_the_roads_they_name():
    """A few of them: what they compute is tested where the kernels are."""
    cases = gpu_checks.cases()
    assert len(cases) > 100
    for name in (
        "matmul 200 x 192 x 320",
        "matmul 513 x 1025 x 2049",
        "gradient of linear, gelu",
        "cast int8 to float32",
    ):
        for road in cases[name].roads:
            with chips.gpu_target("h100").target(), launch.gpu_kernels(strict=True, by_triton=road == "Triton"):
                jax.jit(cases[name].fn).trace(*cases[name].args).lower(lowering_platforms=("cuda",))
    assert cases["matmul 513 x 1025 x 2049"].roads == ("Triton",)


def test_what_a_case_is_found_to_be():
    """On the CPU plain JAX runs, so that only the kernel is missing."""
    said = gpu_checks.run(gpu_checks.cases()["softmax 1003 x 256 bf16, far numbers"], "Triton")
    assert gpu_checks.verdict(said) == "no kernel ran"
    assert gpu_checks.verdict(said | {"kernels": 1}) == "right"
    assert gpu_checks.verdict(said | {"kernels": 1, "error": 0.5, "repeats": False}) == (
        "wrong, its error is 0.5; differs from run to run"
    )

    def broken(x):
        raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")

    with pytest.raises(RuntimeError):  # plain JAX must compute it first
        gpu_checks.run(dataclasses.replace(gpu_checks.cases()["silu f32"], fn=broken), "Triton")


# Which machine, and where the tables go


def test_without_a_gpu_the_prediction_is_what_make_bench_gives(monkeypatch):
    ran = []
    monkeypatch.setattr(bench_kernels, "main", lambda argv: ran.append(("predicted", argv)))
    monkeypatch.setattr(bench_gpu, "main", lambda argv: ran.append(("measured", argv)))
    for gpu in (False, True):
        monkeypatch.setattr(command.hardware_utils, "has_visible_nvidia_gpu", lambda gpu=gpu: gpu)
        command.main(["matmul"])
    command.main(["--predicted", "matmul"])
    assert ran == [("predicted", ["matmul"]), ("measured", ["matmul"]), ("predicted", ["matmul"])]


def test_a_gpu_that_jax_cannot_use_and_none_at_all(monkeypatch, capsys):
    for gpu, said in ((True, "jax[cuda13]=="), (False, "no TPU or GPU that JAX can use")):
        monkeypatch.setattr(bench_gpu.hardware_utils, "has_visible_nvidia_gpu", lambda gpu=gpu: gpu)
        with pytest.raises(SystemExit, match="1"):
            bench_gpu.main([])
        assert said in capsys.readouterr().err


def test_misuse(timed, capsys):
    for argv, said in ((["--write", "--tune"], "leave out --tune"), (["nothing like it"], "no row contains")):
        with pytest.raises(SystemExit, match="2"):
            bench_gpu.main(argv)
        assert said in capsys.readouterr().err


def test_what_was_measured_stays_when_the_page_is_written_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(results_page, "PAGE", tmp_path / "results.md")
    results_page.write("# Kernels\n\nfirst")
    assert results_page.NOTHING in results_page.PAGE.read_text()
    results_page.append("### H200\n\nfast")
    results_page.append("### L4\n\nslow")
    results_page.write("# Kernels\n\nsecond")
    assert results_page.PAGE.read_text() == (
        "# Kernels\n\nsecond\n\n## Measured on GPUs\n\n### H200\n\nfast\n\n### L4\n\nslow\n"
    )
