"""``compare``, and the command line."""

import dataclasses

import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from sample_kernels import VECTOR, add, array, matmul

from course_lib import compiler
from course_lib.compiler import __main__ as command
from course_lib.compiler.array_types import parsed

FILE = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

def double(x):
    def kernel(x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...]
    return pl.pallas_call(kernel, out_shape=x)(x)

def plain(x):
    return x + x

def illegal(x):
    spec = pl.BlockSpec((7, 100), lambda i: (i, 0))
    return pl.pallas_call(lambda a, o: None, out_shape=x, grid=(4,), in_specs=[spec], out_specs=spec)(x)

number = 3
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text(FILE)
    return path


def refused(*arguments, capsys) -> str:
    """The one line that a wrong command prints, and it prints nothing else."""
    assert command.main(list(map(str, arguments))) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1, err
    return err


@needs_libtpu
def test_compare_puts_reports_side_by_side():
    square = array((512, 512), jnp.bfloat16)
    both = compiler.compare(
        {"mine": matmul, "XLA": jnp.dot, "wrong": lambda x, y: matmul(x, y, blocks=(7, 7, 7))}, square, square
    )
    assert list(both.reports) == ["mine", "XLA", "wrong"]
    assert both.ratio(both.fastest) == 1
    other = next(name for name in ("mine", "XLA") if name != both.fastest)
    assert both.ratio(other) == pytest.approx(both.reports[other].seconds / both.reports[both.fastest].seconds)
    assert both.ratio("wrong") is None
    text = str(both)
    rows = {line.split()[0]: line for line in text.splitlines()[2:5]}
    assert f"{both.reports['mine'].cycles:,}" in rows["mine"] and "1.00" in rows[both.fastest]
    assert "not compiled" in rows["wrong"] and text.startswith("Predicted (compiler) for v5e")
    assert max(map(len, text.splitlines())) <= 94
    assert repr(both) == text and all(name in both._repr_html_() for name in both.reports)


def test_compare_needs_something_to_compare():
    with pytest.raises(ValueError, match="compare got no functions"):
        compiler.compare({}, VECTOR)


@needs_libtpu
def test_compare_counts_cycles_where_no_clock_is_known():
    both = compiler.compare({"mine": add, "XLA": jnp.add}, VECTOR, VECTOR, chip="v6e")
    cycles = {name: report.cycles for name, report in both.reports.items()}
    assert both.fastest == min(cycles, key=cycles.get) and "not known" in str(both)


@needs_libtpu
def test_reports_show_themselves():
    report = compiler.compile_tpu(add, VECTOR, VECTOR)
    text = str(report)
    for words in ("predicted (compiler)", "time goes", "HBM", "VMEM", "input window", "slots", "spills", "of code"):
        assert words in text
    assert max(map(len, text.splitlines())) <= 94
    assert repr(report) == text and "<img" in report._repr_html_()
    assert f"bound by {'the core' if report.bound == 'core' else report.bound}" in text
    bound = dataclasses.replace(report, hbm_bytes=10**9)
    assert bound.bound == "HBM" and "bound by HBM (its traffic at full speed)" in str(bound)


@needs_libtpu
def test_the_command_prints_the_report(file, capsys):
    assert command.main([f"{file}:double", "f32[256,128]"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("double for v5e: compiles") and "predicted" in out and "bundles" in out


@needs_libtpu
def test_the_command_without_simulation_for_another_chip(file, capsys):
    assert command.main([f"{file}:double", "f32[256,128]", "--chip", "v6e", "--no-simulate"]) == 0
    out = capsys.readouterr().out
    assert "for v6e" in out and "predicted" not in out and "not simulated" in out


@needs_libtpu
def test_the_command_compares(file, capsys):
    assert command.main([f"{file}:double", "f32[256,128]", "--compare", f"{file}:plain"]) == 0
    out = capsys.readouterr().out
    assert "double" in out and "plain" in out and "ratio" in out


@needs_libtpu
def test_the_command_says_1_for_a_refused_kernel(file, capsys):
    assert command.main([f"{file}:illegal", "f32[512,512]"]) == 1
    assert "refused by the compiler" in capsys.readouterr().out
    assert command.main([f"{file}:double", "f32[512,512]", "--compare", f"{file}:illegal"]) == 1


def test_wrong_commands(file, tmp_path, capsys):
    said = refused(f"{file}:double", "bf16[4096,4096", capsys=capsys)
    assert "'bf16[4096,4096' is not a type" in said and "bf16[4096,1024]" in said
    assert "'float7' is not a dtype" in refused(f"{file}:double", "float7[2]", capsys=capsys)
    assert "there is no file" in refused(tmp_path / "none.py:double", "f32[2]", capsys=capsys)
    assert "has no function 'triple'" in refused(f"{file}:triple", "f32[2]", capsys=capsys)
    assert "has no function 'number'" in refused(f"{file}:number", "f32[2]", capsys=capsys)
    assert "does not name a function" in refused(str(file), "f32[2]", capsys=capsys)
    assert "Choose one of: v4, v5e" in refused(f"{file}:double", "f32[2]", "--chip", "v9", capsys=capsys)
    (tmp_path / "broken.py").write_text("import nothing_of_that_name")
    assert "does not run: ModuleNotFoundError" in refused(tmp_path / "broken.py:f", "f32[2]", capsys=capsys)
    (tmp_path / "notes.txt").write_text("def f(x): return x")
    assert "must end in .py" in refused(tmp_path / "notes.txt:f", "f32[2]", capsys=capsys)


def test_help_has_an_example(capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(["--help"])
    assert ended.value.code == 0
    assert 'kernels.py:matmul "bf16[4096,4096]" "bf16[4096,4096]" --chip v5e' in capsys.readouterr().out


@pytest.mark.parametrize(
    "text, shape, dtype",
    [
        ("bf16[4096,1024]", (4096, 1024), jnp.bfloat16),
        ("f32[]", (), jnp.float32),
        ("float32[8, 128]", (8, 128), jnp.float32),
        ("s32[7]", (7,), jnp.int32),
        ("int8[7]", (7,), jnp.int8),
    ],
)
def test_types(text, shape, dtype):
    assert (parsed(text).shape, parsed(text).dtype) == (shape, dtype)


@needs_libtpu
def test_a_kernel_that_needs_too_much_vmem_is_told_what_takes_it():
    big = array((2048, 2048))
    report = compiler.compile_tpu(lambda x, y: matmul(x, y, blocks=(1024, 1024, 1024)), big, big)
    assert not report.ok and report.vmem_bytes > report.vmem_limit == 16 << 20
    assert sum(piece.bytes for piece in report.vmem) == report.vmem_bytes
    assert {piece.name for piece in report.vmem} >= {"x_ref", "o_ref"}
    text = str(report)
    assert "of VMEM, but may use only 16 MiB:" in text and "input window, 2 buffers" in text


@needs_libtpu
def test_how_a_function_failed_is_said(nothing_kept):
    def broken(x):
        return undefined_name(x)  # noqa: F821

    assert "it did not get as far as the compiler" in str(compiler.compile_tpu(broken, VECTOR))
    assert "refused by the compiler" in str(compiler.compile_tpu(lambda x: add(x, x, 1000), VECTOR))
    hurried = compiler.compile_tpu(add, VECTOR, VECTOR, time_limit_s=1e-9)
    assert hurried.stage == "no answer" and "no answer from the compiler" in str(hurried)


def test_compare_wants_names():
    for wrong in ([add], add, {1: add}):
        with pytest.raises(ValueError, match="compare needs functions by name"):
            compiler.compare(wrong, VECTOR)
