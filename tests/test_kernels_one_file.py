"""A family printed as one file runs where neither course_lib nor jaxtyping is, and computes what its reference does."""

import ast
import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
from kernel_calls import CALLS

from course_lib.kernels import __main__ as command
from course_lib.kernels import one_file

FOLDER = pathlib.Path(one_file.__file__).parent
NO_GRADIENT = {"matmul_one_block"}

# What runs beside the printed files: each op and its gradient as on a CPU, and translated for a TPU, kernels and all.
RUN = """
    import json, sys
    sys.modules["course_lib"] = sys.modules["jaxtyping"] = None  # to import them is an error
    import jax, numpy as np
    from jax.sharding import AbstractDevice, AbstractMesh

    v5e = AbstractMesh((), (), abstract_device=AbstractDevice(device_kind="TPU v5 lite", num_cores=1, platform="tpu"))
    given = json.load(sys.stdin)
    for family, text in given["texts"].items():
        names = {"__name__": "__main__"}
        exec(compile(text, family + ".py", "exec"), names)
        exec("X = jnp.cos(jnp.arange(8. * 130).reshape(8, 130)); W = X[:7].T / 9; B = W[0]", names)
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
"""


@pytest.fixture(scope="module")
def texts():
    return {family: one_file.one_file(family) for family in one_file.families()}


def run(texts, calls, cwd):
    given = json.dumps({"texts": texts, "calls": calls, "no_gradient": sorted(NO_GRADIENT)})
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(RUN)],
        input=given,
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
        timeout=200,
    )


def test_every_family_runs_alone_and_every_op_is_its_reference(texts, tmp_path):
    out = run(texts, CALLS, tmp_path)
    assert out.returncode == 0, out.stderr[-3000:]
    assert out.stdout.splitlines() == [f"{family} {op}" for family in texts for op in CALLS[family]]


def test_a_wrong_result_and_a_name_that_is_missing_are_seen(texts, tmp_path):
    """The examination above can fail: where plain JAX is wrong, where a kernel is, where a part was not inlined."""
    for family, was, becomes, says in (
        ("scan", "plain = fixed(reference,", "plain = fixed(lambda x, **_: x,", "Mismatched"),
        ("scan", "carry_ref[...] = jnp.zeros_like", "carry_ref[...] = forgotten", "'forgotten' is not defined"),
        ("scan", "import dataclasses", "import dataclasses, course_lib", "import of course_lib halted"),
    ):
        assert was in texts[family]
        out = run({family: texts[family].replace(was, becomes)}, CALLS, tmp_path)
        assert out.returncode and says in out.stderr, out.stderr[-2000:]


def test_nothing_of_ours_is_imported_and_no_import_stands_twice(texts):
    for family, text in texts.items():
        tree = ast.parse(text)
        imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
        assert all(node in tree.body for node in imports), f"{family}: imports stand at the top"
        lines = [ast.unparse(node) for node in imports]
        assert len(lines) == len(set(lines)), lines
        assert not any("course_lib" in line or "jaxtyping" in line for line in lines)


@pytest.mark.parametrize(
    "family, inlined", [("matmul/kernel", "common/products"), ("softmax/kernel", "common/row_blocks")]
)
def test_every_line_and_comment_stays(texts, family, inlined):
    own, other = ((FOLDER / f"{name}.py").read_text() for name in (family, inlined))
    assert (
        own[own.index("def _kernel" if family.startswith("matmul") else "@dataclasses") :]
        in texts[family.split("/")[0]]
    )
    assert textwrap.indent(other[other.index("def ") :].rstrip(), "    ") in texts[family.split("/")[0]]


def test_the_command(capsys):
    command.main([])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(CALLS)
    command.main(["softmax"])
    assert capsys.readouterr().out == one_file.one_file("softmax")
    with pytest.raises(SystemExit):
        command.main(["sofmax"])
    assert "'sofmax' is no family; it may be activations, " in (said := capsys.readouterr().err)
    assert "Nearest: softmax." in said
