"""Checks as a learner meets them: three outcomes, hints in steps, a solution after an attempt."""

import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl

from course_lib import checks, compiler, judges
from course_lib.checks import help, machine, verdict
from course_lib.checks.exercise import exercises


def with_kernel(kernel):
    def add_vectors(x, y):
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)

    return add_vectors


def right_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def half_kernel(x_ref, y_ref, o_ref):
    o_ref[:4] = x_ref[:4] + y_ref[:4]


def empty_kernel(x_ref, y_ref, o_ref):
    """Write x + y into o_ref."""


def unimplemented_kernel(x_ref, y_ref, o_ref):
    raise NotImplementedError


@pytest.fixture(autouse=True)
def a_fresh_learner(monkeypatch):
    monkeypatch.setattr(verdict, "attempts", {})
    monkeypatch.setattr(help, "attempts", verdict.attempts)
    monkeypatch.setattr(help, "_given", {})


def test_passed(capsys):
    said = checks.check("01.1", with_kernel(right_kernel))
    assert said.passed and said.outcome == "passed"
    printed = capsys.readouterr().out
    assert printed.startswith("01.1 passed: numbers, simulator")
    assert compiler.libtpu_version() is None or "Predicted for a v5e, with arguments of float32[4096]: " in printed


def test_not_yet_says_which_judge_what_and_what_next(capsys):
    said = checks.check("01.1", with_kernel(half_kernel))
    assert (said.outcome, said.judge) == ("not yet", "numbers")
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 94, "wide enough for a notebook, narrow enough not to break words"
    what, why, advice = str(said).splitlines()
    assert printed.split() == str(said).split()
    assert what == "01.1 not yet: the numbers judge refused it."
    assert "The output at [4] is nan; it should be" in why
    assert advice.startswith("Next: ") and 'checks.hint("01.1")' in advice


class Stub:
    """A class nobody has filled in."""


def empty_function(n):
    """Return (grid, block shape, index map)."""


@pytest.mark.parametrize(
    "id, defined",
    [
        ("01.1", None),
        ("01.1", with_kernel(empty_kernel)),
        ("01.1", with_kernel(unimplemented_kernel)),
        ("01.2", lambda x, y: None),
        ("01.3", Stub),
        ("01.4", empty_function),
        ("01.4", lambda n: None),
    ],
)
def test_not_attempted(id, defined, capsys):
    assert checks.check(id, defined).outcome == "not attempted"
    assert capsys.readouterr().out.startswith(f"{id} not attempted.\nNext: write ")


def forgot_return(x, y):
    with_kernel(right_kernel)(x, y)


def no_return_value(n):
    steps = n // 1024  # noqa: F841


def uses_an_empty_kernel(x, y):
    return with_kernel(empty_kernel)(x, y)


@pytest.mark.parametrize(
    "id, defined, says",
    [
        ("01.2", forgot_return, "It returned nothing"),
        ("01.4", no_return_value, "It returned nothing"),
        ("01.2", uses_an_empty_kernel, "empty_kernel writes nothing"),
    ],
)
def test_a_real_attempt_is_never_called_none(id, defined, says, capsys):
    defined.__name__ = {"01.2": "add_any", "01.4": "configure"}[id]
    said = checks.check(id, defined)
    assert said.outcome == "not yet" and says in said.message


@needs_libtpu
def test_the_compiler_sees_every_case():
    def add_any(x, y):
        spec = pl.BlockSpec((100,), lambda i: (i,)) if x.ndim == 1 else pl.BlockSpec()
        grid = (10,) if x.ndim == 1 else ()
        out = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(right_kernel, out_shape=out, grid=grid, in_specs=[spec, spec], out_specs=spec)(x, y)

    said = checks.check("01.2", add_any)
    assert said.judge == "compiler" and "int32[1000]" in said.message


@needs_libtpu
def test_a_grid_of_thousands_of_steps_is_refused_at_once():
    said = checks.check("01.4", lambda n: ((n,), (1,), lambda i: (i,)))
    assert said.judge == "compiler" and "is not legal" in said.message


def test_what_cannot_be_built_or_run_is_said_so():
    assert str(checks.check("01.3", lambda: 1 / 0)).startswith("01.3 not yet: it could not be built.")
    assert str(checks.check("01.2", lambda x, y: np.add(x, y))).startswith(
        "01.2 not yet: the numbers judge could not run it."
    )


@pytest.mark.parametrize(
    "id, defined", [("01.4", lambda n: 7), ("01.4", lambda n: 1 / 0), ("01.2", lambda x: x), ("01.3", int)]
)
def test_answers_that_break_are_verdicts_not_tracebacks(id, defined, capsys):
    said = checks.check(id, defined)
    assert said.outcome == "not yet"
    assert said.message and "Traceback" not in capsys.readouterr().out


def test_an_unknown_exercise_names_those_there_are():
    with pytest.raises(ValueError, match=r"There is no exercise '1.1'. There are: 01.1, 01.2"):
        checks.check("1.1", None)


@pytest.mark.parametrize("variable", ["COURSE_GRADING", "NBGRADER_EXECUTION"])
def test_a_grader_hears_an_exception(monkeypatch, variable):
    monkeypatch.setenv(variable, "1")
    with pytest.raises(checks.NotPassed, match="01.1 not yet: the numbers judge refused it."):
        checks.check("01.1", with_kernel(half_kernel))
    with pytest.raises(checks.NotPassed, match="01.1 not attempted"):
        checks.check("01.1", None)
    assert checks.check("01.1", with_kernel(right_kernel)).passed


def test_nbval_hears_a_wrong_answer_but_not_an_empty_one(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/somewhere/ipykernel_launcher.py"])  # and pytest has set its variable
    with pytest.raises(checks.NotPassed):
        checks.check("01.1", with_kernel(half_kernel))
    assert checks.check("01.1", None).outcome == "not attempted"


def test_a_cell_that_ends_in_check_says_it_once(capsys):
    said = checks.check("01.1", None)
    capsys.readouterr()
    said._ipython_display_()
    assert capsys.readouterr().out == ""


def test_hints_come_in_steps(capsys):
    for _ in range(4):
        checks.hint("01.1")
    numbers = re.findall(r"01.1, hint (\d) of 3", capsys.readouterr().out)
    assert numbers == ["1", "2", "3", "3"]


def test_the_solution_wants_an_attempt_first(capsys):
    checks.solution("01.1")
    assert "try it first" in capsys.readouterr().out
    checks.check("01.1", None)
    checks.solution("01.1")
    assert "try it first" in capsys.readouterr().out, "an empty answer is no attempt"
    checks.check("01.1", with_kernel(half_kernel))
    checks.solution("01.1")
    assert "o_ref[...] = x_ref[...] + y_ref[...]" in capsys.readouterr().out


@pytest.mark.parametrize("task", exercises().values(), ids=lambda t: t.id)
def test_declarations_are_complete(task):
    assert len(task.hints) >= 3 and task.points >= 1 and task.title
    first, again = task.cases(), task.cases()
    assert first and all((a == b).all() for x, y in zip(first, again, strict=True) for a, b in zip(x, y, strict=True))
    assert help.solutions()[task.id]


def test_start_says_where_we_are_in_one_line():
    code = "from course_lib import checks; checks.start(); import jax.numpy as jnp;"
    code += "from jax.experimental import pallas as pl;"
    code += "print(pl.pallas_call(lambda x, o: o.__setitem__(..., x[...]), out_shape=jnp.zeros(3))(jnp.ones(3)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert out.returncode == 0, out.stderr
    line, result = out.stdout.strip().splitlines()
    assert re.match(r"jax 0\.1[12]\.[\d.]+ on this machine, .*judge", line)
    assert result == "[1. 1. 1.]"
    assert out.stderr == ""


def test_doctor_names_versions_and_judges(capsys):
    checks.doctor()
    out = capsys.readouterr().out
    for word in ("Where", "Device", "Python", jax.__version__, *judges.JUDGES):
        assert word in out


def test_doctor_says_what_is_missing_and_what_to_do(monkeypatch, capsys):
    monkeypatch.setattr(compiler, "libtpu_version", lambda: None)
    checks.doctor()
    out = capsys.readouterr().out
    assert "compiler   missing: libtpu" in out and "use Colab" in out and "All is well" not in out
    assert "Missing: compiler" in machine.judges_line()


@pytest.mark.parametrize("version, fits", [("0.11.2", True), ("0.12.0.1", True), ("0.7.2", False), ("0.13.0", False)])
def test_jax_versions(monkeypatch, version, fits):
    monkeypatch.setattr(jax, "__version__", version)
    problem = machine.jax_problem()
    assert (problem is None) == fits
    assert fits or (version in problem and "make setup" in problem)


@needs_libtpu
def test_int32_through_float32_is_caught():
    def add_any(x, y):
        def kernel(x_ref, y_ref, o_ref):
            o_ref[...] = (x_ref[...].astype(jnp.float32) + y_ref[...].astype(jnp.float32)).astype(x_ref.dtype)

        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)

    said = checks.check("01.2", add_any)
    assert said.outcome == "not yet" and "int32[1000]" in said.message
