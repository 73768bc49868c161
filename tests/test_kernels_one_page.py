"""A family printed as one page: short, run where only JAX is, right by four judges, and as fast as the library."""

import ast
import importlib.util
import json
import os
import subprocess
import sys
import textwrap

import page_calls
import pytest
from accepted import accepted
from conftest import needs_libtpu
from kernel_calls import CALLS
from sweeps import daily

from course_lib import compiler
from course_lib.kernels import __main__ as command
from course_lib.kernels import one_page

LONG = {
    "linear",
    "linear_int8",
    "attention",
    "grouped",
    "grouped_swiglu",
    "paged_attention",
    "block_sparse",
    "collectives",
    "sparse_core",
}
NO_GRADIENT = {"matmul_one_block"}

# What runs beside the printed pages: each op and its gradient as on a CPU, and translated for a TPU, kernels and all.
RUN = """
    import json, sys
    sys.modules["course_lib"] = sys.modules["jaxtyping"] = None  # to import them is an error
    import jax, jax.numpy as jnp, numpy as np
    from jax.sharding import AbstractDevice, AbstractMesh

    v5e = AbstractMesh((), (), abstract_device=AbstractDevice(device_kind="TPU v5 lite", num_cores=1, platform="tpu"))
    given = json.load(sys.stdin)
    def examine(family, text):
        names = {"__name__": "__main__"}
        exec(compile(text, family + ".py", "exec"), names)
        names["jnp"] = jnp
        exec("X = jnp.cos(jnp.arange(8. * 130).reshape(8, 130)); W = X[:7].T / 9; B, V = W[0], W[:, 0]", names)
        for op, args in given["calls"][family].items():
            reference = op + "_reference" if op + "_reference" in names else "reference"
            first, _, rest = args.partition(", ")
            x, results = eval(first, names), []
            for name in (op, reference):
                fn = run = eval(f"lambda first: {name}(first, {rest})", names)
                if op not in given["no_gradient"]:

                    def run(x, fn=fn):
                        out, pull = jax.vjp(fn, x)
                        return out, pull(out)

                results.append(jax.tree.leaves(jax.jit(run)(x)))
                if name == op:
                    with jax.sharding.use_abstract_mesh(v5e):
                        lowered = jax.jit(lambda x: run(x)).trace(x).lower(lowering_platforms=("tpu",)).as_text()
                    assert "tpu_custom_call" in lowered, op + " has no kernel"
            for a, b in zip(*results, strict=True):
                np.testing.assert_allclose(np.float32(a), np.float32(b), rtol=1e-4, atol=1e-4, err_msg=op)
            print(family, op)

    for family, text in given["texts"].items():
        try:
            examine(family, text)
        except Exception as error:
            print(family, "is wrong:", type(error).__name__, " ".join(str(error).split()))
"""
# A kernel is wrong, plain JAX is, or a part was not printed: {what is broken: (was, becomes, what is said)}.
BROKEN = {
    "plain": ("plain = lambda x, y: dot(x, y, **how)", "plain = lambda x, y: 2 * dot(x, y, **how)", "Mismatched"),
    "kernel": ("o_ref[...] = product(x_ref", "o_ref[...] = forgotten(x_ref", "'forgotten' is not defined"),
    "import": ("import dataclasses", "import dataclasses, course_lib", "import of course_lib halted"),
}


@pytest.fixture(scope="module")
def texts():
    return {family: one_page.one_page(family) for family in one_page.families()}


@pytest.fixture(scope="module")
def pages(texts, tmp_path_factory):
    """The printed pages as modules."""
    folder, found = tmp_path_factory.mktemp("pages"), {}
    for family, text in texts.items():
        file = folder / f"{family}_page.py"
        file.write_text(text)
        spec = importlib.util.spec_from_file_location(file.stem, file)
        found[family] = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found[family])
    return found


@pytest.fixture(scope="module")
def calls(texts):
    return {family: page_calls.alone(family) for family in texts if family not in page_calls.TRIED_ELSEWHERE}


@pytest.fixture(scope="module")
def examined(texts, calls, tmp_path_factory):
    """The lines that RUN prints of all pages, and of those of matmul that are broken."""
    broken = {name: texts["matmul"].replace(was, becomes) for name, (was, becomes, _) in BROKEN.items()}
    assert all(text != texts["matmul"] for text in broken.values())
    calls = calls | dict.fromkeys(broken, calls["matmul"])
    alone = {family: texts[family] for family in calls if family in texts}
    given = json.dumps({"texts": alone | broken, "calls": calls, "no_gradient": sorted(NO_GRADIENT)})
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    out = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(RUN)],
        input=given,
        capture_output=True,
        text=True,
        cwd=tmp_path_factory.mktemp("alone"),
        env=environment,
        timeout=200,
    )
    assert out.returncode == 0, out.stderr[-3000:]
    return out.stdout.splitlines()


def test_every_family_has_a_page_and_calls(texts):
    assert list(texts) == sorted([*CALLS, *page_calls.TRIED_ELSEWHERE])
    assert list(CALLS) == sorted(page_calls.JUDGED)


@pytest.mark.parametrize("family", one_page.families())
def test_a_page_is_short(texts, family):
    assert len(texts[family].splitlines()) <= (350 if family in LONG else 200)
    assert max(map(len, texts[family].splitlines())) <= 120


@pytest.mark.parametrize("family", one_page.families())
def test_the_kernel_comes_first_and_its_pallas_call_soon(texts, family):
    """Within the first 100 lines, and at most 125 lines behind it, or behind the last one above the pallas_call."""
    lines = texts[family].splitlines()
    call = next(n for n, line in enumerate(lines) if "pl.pallas_call(" in line or "pl.kernel(" in line)
    kernels = [n for n, line in enumerate(lines[:call]) if line.startswith("def _") and "kernel" in line]
    assert kernels[0] < 100 and call < kernels[-1] + 125


def test_every_page_runs_alone_and_every_op_is_its_reference(examined, calls):
    pages = [line for line in examined if line.split()[0] not in BROKEN]
    assert pages == [f"{family} {op}" for family, ops in calls.items() for op in ops]


def test_a_wrong_result_and_a_name_that_is_missing_are_seen(examined):
    """The examination above can fail."""
    lines = [line for line in examined if line.split()[0] in BROKEN]
    assert [line.split(" is wrong: ")[0] for line in lines] == list(BROKEN), lines
    assert all(says in line for line, (_, _, says) in zip(lines, BROKEN.values(), strict=True)), lines


def test_nothing_of_ours_is_imported_and_no_import_stands_twice(texts):
    for family, text in texts.items():
        tree = ast.parse(text)
        imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
        assert all(node in tree.body for node in imports), f"{family}: imports stand at the top"
        lines = [ast.unparse(node) for node in imports]
        assert len(lines) == len(set(lines)), lines
        assert not any("course_lib" in line or "jaxtyping" in line for line in lines)


@pytest.mark.parametrize("family", one_page.families())
def test_kernel_py_is_printed_as_it_stands(texts, family):
    source = (one_page._FOLDER / family / "kernel.py").read_text()
    defined = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    assert defined and all(ast.get_source_segment(source, node) in texts[family] for node in defined)


@pytest.mark.parametrize(
    "family, op",
    daily(  # the judges accept every kernel.py in the tests of its family, from where the page has it
        ("elementwise", "add"),
        ("matmul", "matmul"),
        ("norm", "rms_norm"),
        of=[(family, op) for family, ops in page_calls.JUDGED.items() for op in ops],
    ),
)
def test_four_judges_accept_every_page(pages, family, op):
    page = pages[family]
    args, how = page_calls.JUDGED[family][op]()
    reference = getattr(page, f"{op}_reference", None) or page.reference
    accepted(lambda *args: getattr(page, op)(*args, **how), lambda *args: reference(*args, **how), *args)


@needs_libtpu
@pytest.mark.sweep
@pytest.mark.parametrize("case", page_calls.FAST, ids=lambda case: f"{case[0]} {case[1]} {case[2]}")
def test_pages_are_as_fast_as_the_library(pages, case):
    """Predicted (compiler), on shapes of docs/results.md: within 2 %."""
    family, op, name, args, how = case
    modules = pages[family], importlib.import_module(f"course_lib.kernels.{family}")
    cycles = [compiler.compile_tpu(page_calls.called(of, op, name, how), *args).cycles for of in modules]
    assert cycles[0] == pytest.approx(cycles[1], rel=0.02)


def test_the_command(capsys):
    command.main([])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(one_page.families())
    command.main(["softmax"])
    assert capsys.readouterr().out == one_page.one_page("softmax")
    with pytest.raises(SystemExit):
        command.main(["sofmax"])
    assert "'sofmax' is no family; it may be activations, " in (said := capsys.readouterr().err)
    assert "Nearest: softmax." in said


def test_a_name_of_two_files_and_a_module_of_ours_are_refused(tmp_path, monkeypatch):
    """One page has one namespace."""
    for name, source in {
        "kernel": "from course_lib.kernels.common.other import twice\n\n\ndef f(): twice()\n\n\ndef g(): ...\n",
        "page": '"""Left out: all."""\n\nfrom course_lib.kernels.common.other import g\n\nh = g\n',
    }.items():
        (tmp_path / "family").mkdir(exist_ok=True)
        (tmp_path / "family" / f"{name}.py").write_text(source if source.startswith('"') else f'"""A."""\n\n{source}')
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "other.py").write_text('"""B."""\n\n\ndef twice(): ...\n\n\ndef g(): ...\n')
    monkeypatch.setattr(one_page, "_FOLDER", tmp_path)
    one_page._module.cache_clear()
    with pytest.raises(ValueError, match="g is defined in two files of one page"):
        one_page.one_page("family")
    (tmp_path / "family" / "page.py").write_text(
        '"""A."""\n\nfrom course_lib.kernels import common\n\nh = common.other\n'
    )
    (tmp_path / "__init__.py").write_text('"""C."""\n')
    one_page._module.cache_clear()
    with pytest.raises(ValueError, match="common of course_lib.kernels: a page imports definitions of ours"):
        one_page.one_page("family")
    one_page._module.cache_clear()
