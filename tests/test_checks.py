"""Checks as a learner meets them: three outcomes, hints in steps, a solution after an attempt."""

import dataclasses
import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl

from course_lib import checks, chips, compiler, cost, environment, errors, judges
from course_lib.checks import checking, machine, record
from course_lib.checks.exercise import exercise, lesson
from course_lib.checks.kinds import JUDGED, kernel
from course_lib.checks.result import SCREEN, Result, on_a_screen
from course_lib.judges.tpu import budget, device


def with_kernel(kernel):
    def add_vectors(x, y):
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)

    return add_vectors


def right_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def half_kernel(x_ref, y_ref, o_ref):
    o_ref[:4] = x_ref[:4] + y_ref[:4]


def first_half_kernel(x_ref, y_ref, o_ref):
    half = x_ref.shape[0] // 2
    o_ref[:half] = x_ref[:half] + y_ref[:half]


def empty_kernel(x_ref, y_ref, o_ref):
    """Write x + y into o_ref."""


def unimplemented_kernel(x_ref, y_ref, o_ref):
    raise NotImplementedError


@pytest.fixture(autouse=True)
def a_fresh_learner(monkeypatch):
    monkeypatch.setattr(record, "_memory", {})
    monkeypatch.setattr(checking, "_last", {})


@needs_libtpu
def test_a_pass_is_one_line_the_same_everywhere(capsys):
    said = checks.check("01.1", with_kernel(right_kernel))
    assert said.passed and said.outcome == "passed"
    assert capsys.readouterr().out == "01.1 passed: numbers, simulator, races and compiler agree.\n"


def test_a_judge_that_could_not_sit_is_named_on_the_same_line(monkeypatch, capsys):
    absent = judges.Verdict(judge="compiler", passed=None, message="libtpu is not installed.")
    monkeypatch.setitem(judges.JUDGES, "compiler", lambda trial: absent)
    checks.check("01.1", with_kernel(right_kernel))
    assert capsys.readouterr().out == "01.1 passed: numbers, simulator and races agree; skipped: compiler.\n"
    assert checks.report("01.1") is None
    assert "not on this machine" in capsys.readouterr().out


def test_not_yet_says_which_judge_what_and_what_next(capsys):
    said = checks.check("01.1", with_kernel(half_kernel))
    assert (said.outcome, said.judge) == ("not yet", "numbers")
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 94, "wide enough for a notebook, narrow enough not to break words"
    what, why, advice = str(said).splitlines()
    assert printed.split() == str(said).split()
    assert what == "01.1 not yet: the numbers judge refused it."
    assert "The output at [4] is nan; it should be" in why
    assert advice.startswith("Next: ") and advice.endswith('(hint 1 of 3: checks.hint("01.1"))')
    assert '(hint 1 of 3: checks.hint("01.1"))' in printed, "it is not torn apart at the end of a line"


def test_in_a_terminal_the_picture_of_the_blocks_stands_below(capsys):
    said = checks.check("01.1", with_kernel(first_half_kernel))
    assert capsys.readouterr().out.endswith(f'(hint 1 of 3: checks.hint("01.1"))\n{said.blocks}\n')


def test_the_verdict_names_the_next_hint_and_then_the_solution(capsys):
    for hint in ("hint 1 of 3", "hint 2 of 3", "hint 3 of 3", 'no hints are left: checks.solution("01.1")'):
        assert f"({hint}" in str(checks.check("01.1", with_kernel(half_kernel)))
        checks.hint("01.1")


def test_a_lesson_is_named_where_the_table_of_errors_knows_one():
    def adds_refs(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref + y_ref

    assert "(lesson 01) (hint 1 of 3" in str(checks.check("01.1", with_kernel(adds_refs)))


def test_a_verdict_fits_a_screen_and_loses_no_advice():
    long = Result(
        id="01.1", outcome="not yet", headline="why.", message="word " * 900, next="do this.", hint="(hint 1 of 3)"
    )
    lines = on_a_screen(long, picture="map").splitlines()
    assert len(lines) == SCREEN and max(map(len, lines)) <= 94
    assert lines[0] == "01.1 not yet: why." and lines[-2:] == ["...", "Next: do this. (hint 1 of 3)"]
    assert on_a_screen(dataclasses.replace(long, message="short"), picture="map").endswith("(hint 1 of 3)\nmap")
    unbroken = dataclasses.replace(long, message="", next="x" * 70, hint="(hint 1 of 3: call)")
    assert on_a_screen(unbroken).splitlines()[-1] == "(hint 1 of 3: call)", "the hint is not torn apart"


def test_a_notebook_draws_a_card_and_the_blocks(monkeypatch, capsys):
    drawn = []
    monkeypatch.setattr(environment, "in_a_notebook", lambda: True)
    monkeypatch.setattr("IPython.display.display", lambda data, raw=False: drawn.append(data))
    said = checks.check("01.1", with_kernel(first_half_kernel))
    card, blocks = drawn
    assert card["text/plain"] == on_a_screen(said) and "<b>01.1 not yet</b>" in card["text/html"]
    assert blocks is said.blocks and not capsys.readouterr().out
    assert "image/svg+xml" in said.blocks._repr_mimebundle_()


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


class Filled:
    def call(self, inputs):
        return inputs


class Inherits(Filled):
    pass


def test_what_a_class_inherits_from_one_beside_it_is_an_attempt():
    assert checks.check("01.3", Inherits).outcome == "not yet"


def forgot_return(x, y):
    with_kernel(right_kernel)(x, y)


def no_return_value(n):
    steps = n // 1024  # noqa: F841


def uses_an_empty_kernel(x, y):
    return with_kernel(empty_kernel)(x, y)


@pytest.mark.parametrize(
    "id, defined, says",
    [
        ("01.2", forgot_return, "The function returned nothing"),
        ("01.4", no_return_value, "The function returned nothing"),
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
    assert said.judge == "compiler" and "float32[1000]" in said.message


@needs_libtpu
def test_a_grid_of_thousands_of_steps_is_refused_at_once():
    said = checks.check("01.4", lambda n: ((n,), (1,), lambda i: (i,)))
    assert said.judge == "compiler" and "is not legal" in said.message


def test_what_cannot_be_built_or_run_is_said_so():
    assert str(checks.check("01.3", lambda: 1 / 0)).startswith("01.3 not yet: it could not be built.")
    assert str(checks.check("01.2", lambda x, y: np.add(x, y))).startswith(
        "01.2 not yet: the numbers judge could not run it."
    )


def by_keyword(*, x, y):
    return x + y


ADD = with_kernel(right_kernel)


@pytest.mark.parametrize(
    "id, answer, what, next",
    [
        ("01.1", right_kernel, "right_kernel is a kernel: it takes refs (x_ref", 'checks.check("01.1", add_vectors)'),
        ("01.1", np.ones(8), "What you passed to check is an array", "add_vectors is a function that you define"),
        ("01.1", "add_vectors", "is text: 'add_vectors'", "without quotes"),
        ("01.2", 7, "is the number 7, not a function", "add_any is a function that you define"),
        ("01.2", by_keyword, "by_keyword takes x, y by keyword only", "remove the *"),
    ],
)
def test_what_is_not_a_function_of_arrays_is_named(id, answer, what, next):
    said = checks.check(id, answer)
    assert (said.outcome, said.judge) == ("not yet", "exercise")
    assert str(said).startswith(f"{id} not yet: the check cannot judge that.")
    assert what in said.message and next in said.next


def test_a_layer_in_the_place_of_its_class_is_named():
    import keras

    said = checks.check("01.3", keras.layers.Add())
    assert "an Add object" in said.message or "a Add object" in said.message
    assert "PallasAdd)" in said.next


def no_layer(x, y):
    return x + y


class NoLayer:
    def call(self, inputs):
        return inputs[0]


@pytest.mark.parametrize(
    "answer, says", [(no_layer, "no_layer is a function, but"), (NoLayer, "NoLayer is a class, but not a Keras layer.")]
)
def test_what_is_no_layer_is_named(answer, says):
    said = checks.check("01.3", answer)
    assert said.outcome == "not yet" and says in said.message and "class PallasAdd(keras.layers.Layer):" in said.next


@pytest.mark.parametrize(
    "settings",
    [
        {"grid": (4,)},
        "abc",
        (4, (1024,)),
        (4, (1024,), lambda i: (i,), 3),
        ((4,), (1024,), (0,)),
        ("4", "1024", lambda i: (i,)),
        ((4,), lambda i: (i,), (1024,)),
        7,
    ],
    ids=["a dict", "text", "two", "four", "a block for a map", "texts", "turned round", "a number"],
)
def test_what_is_no_grid_block_and_index_map_gets_one_sentence(settings):
    said = checks.check("01.4", lambda n: settings)
    assert said.outcome == "not yet" and said.message.startswith("configure(4096) returned ")
    assert "the grid and the block, which are tuples of integers, and the index map" in said.message
    assert said.next == "write return grid, block, index_map." and " at 0x" not in said.message


def test_what_returns_three_things_for_one_size_only_is_said():
    said = checks.check("01.4", lambda n: ((4,), (1024,), lambda i: (i,)) if n == 4096 else 7)
    assert said.message.startswith("configure(8192) returned 7. It should return three things")


def test_an_answer_that_leaves_python_is_not_yet(capsys):
    for answer in (lambda x, y: sys.exit(), lambda x, y: sys.exit("done")):
        said = checks.check("01.2", answer)
        assert (said.outcome, said.headline) == ("not yet", "it leaves Python.") and "hint 1 of 3" in said.hint
    assert checks.check("01.3", lambda: sys.exit()).outcome == "not yet"


def interrupted(x, y):
    raise KeyboardInterrupt


@pytest.mark.parametrize("where", ["a program", "under_a_grader", "under_nbval"])
def test_an_interrupt_ends_a_program_and_a_graders_cell(where, monkeypatch):
    monkeypatch.setattr(environment, "in_a_notebook", lambda: where != "a program")
    if where != "a program":
        monkeypatch.setattr(environment, where, lambda: True)
    with pytest.raises(KeyboardInterrupt):
        checks.check("01.2", interrupted)


def test_an_interrupted_check_says_one_sentence_and_records_nothing(monkeypatch, capsys):
    monkeypatch.setattr(environment, "in_a_notebook", lambda: True)
    monkeypatch.setattr(environment, "under_nbval", lambda: False)
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append(data["text/plain"]))
    said = checks.check("01.2", interrupted)
    assert shown == ["01.2 interrupted; nothing is recorded. Is there a loop that never ends?"]
    assert not said.passed and record.entry("01.2") == record.Entry()
    assert checks.report("01.2") is None and "There is one after an answer" in capsys.readouterr().out


def test_an_empty_advice_leaves_no_gap():
    assert Result(id="01.1", outcome="not yet", hint="(hint 1 of 3)").last == "Next: take a hint. (hint 1 of 3)"
    assert Result(id="01.1", outcome="not yet", next="do this.").last == "Next: do this."


@pytest.mark.parametrize(
    "id, defined", [("01.4", lambda n: 7), ("01.4", lambda n: 1 / 0), ("01.2", lambda x: x), ("01.3", int)]
)
def test_answers_that_break_are_verdicts_not_tracebacks(id, defined, capsys):
    said = checks.check(id, defined)
    assert said.outcome == "not yet"
    assert said.message and "Traceback" not in capsys.readouterr().out


@pytest.mark.parametrize("id, says", [("1.1", "Lesson 1 has 01.1, 01.2"), ("01.99", "Lesson 1 has 01.1, 01.2")])
def test_an_unknown_exercise_names_those_of_its_lesson(id, says):
    with pytest.raises(ValueError, match=f"There is no exercise '{id}'. {says}") as refused:
        checks.check(id, None)
    assert all(task.id in str(refused.value) for task in lesson("01").exercises)
    assert str(refused.value).count(".") == 3 + len(lesson("01").exercises), "no other lesson's"


@pytest.mark.parametrize("id", ["99.1", "", "add_vectors", "course_lib.checks"])
def test_an_unknown_lesson_names_the_lessons_there_are(id):
    with pytest.raises(ValueError, match=f"The lessons with exercises are {', '.join(errors.WRITTEN)}.$"):
        checks.check(id, None)


@pytest.mark.parametrize("id", [1.1, ADD, jnp.ones(3), None])
def test_arguments_in_the_wrong_order_are_said(id):
    with pytest.raises(ValueError, match=r'The first argument is the number of an exercise, as text: check\("01.1"'):
        checks.check(id, "01.1")


def test_an_unknown_keyword_is_refused():
    with pytest.raises(TypeError, match="kernel"):
        checks.check("01.1", kernel=ADD)


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


@needs_libtpu
def test_the_report_of_the_last_answer(capsys):
    assert checks.report("01.1") is None
    assert "01.1: no report. There is one after an answer" in capsys.readouterr().out
    checks.check("01.1", with_kernel(right_kernel))
    report = checks.report("01.1")
    assert report.ok and report.cycles > 0
    checks.check("01.1", with_kernel(half_kernel))
    capsys.readouterr()
    assert checks.report("01.1") is None, "that of an earlier answer would be mistaken for this one's"
    said = " ".join(capsys.readouterr().out.split())
    assert said.endswith("did not get as far as the compiler: the numbers judge refused it.")
    checks.check("01.8", "none")
    capsys.readouterr()
    assert checks.report("01.8") is None
    assert capsys.readouterr().out == "01.8: no report. This exercise does not use the compiler.\n"


@needs_libtpu
def test_a_compiler_that_refuses_leaves_its_report(capsys):
    checks.check("01.4", lambda n: ((-(-n // 100),), (100,), lambda i: (i,)))
    assert checks.report("01.4").ok is False


@needs_libtpu
def test_what_is_asked_beside_the_judges_leaves_the_report_too():
    said = checks.check("03.9", lambda m, k, n: (128, 128, 128) if m == 8192 else (m, k, n))
    assert said.headline == "the judges agree, but the exercise asks for more."
    assert checks.report("03.9").ok


def test_who_sees_which_case(monkeypatch):
    """All of them the numbers, each shape and dtype once simulator, compiler and budget, the first the races."""
    seen = {}

    def judge(name):
        def ask(trial, **settings):
            first = trial.args[0]
            seen.setdefault(name, []).append((f"{first.dtype}{first.shape}", trial.chip, settings))
            return judges.Verdict(judge=name, passed=True)

        return ask

    monkeypatch.setattr(judges, "JUDGES", {name: judge(name) for name in judges.JUDGES})
    monkeypatch.setattr(budget, "ask", judge("budget"))
    monkeypatch.setattr(device, "ask", judge("device"))
    monkeypatch.setattr(chips, "on_a_tpu", lambda: True)
    allowed = judges.Budget(hbm_bytes=10**6)
    task = dataclasses.replace(
        exercise("01.1"), inputs=("x: T[N]", "y: T[N]"), dtypes=("f32", "bf16"), budget=allowed, chips=("v5e", "v6e")
    )
    said = kernel.result(task, with_kernel(right_kernel))
    assert said.headline == "numbers, simulator, races, compiler, budget and device agree."
    of_each = ["float32(4096,)", "float32(1000,)", "float32(8,)", "bfloat16(1000,)"]
    shapes = {name: [shape for shape, _, _ in calls] for name, calls in seen.items()}
    assert shapes["numbers"] == shapes["device"] == [shape for shape in of_each for _ in range(2)]
    assert shapes["simulator"] == shapes["budget"] == of_each
    assert shapes["races"] == of_each[:1]
    assert seen["compiler"] == [(shape, chip, {}) for shape in of_each for chip in ("v5e", "v6e")]
    assert seen["budget"][0] == (of_each[0], "v5e", {"budget": allowed})


def test_a_budget_is_a_judge():
    def twice(x, y):
        return with_kernel(right_kernel)(with_kernel(right_kernel)(x, jnp.zeros_like(x)), y)

    once = judges.Budget(hbm_bytes=lambda x, y: cost.stored_bytes(x, y, x))
    task = dataclasses.replace(exercise("01.1"), budget=once)
    assert kernel.result(task, with_kernel(right_kernel)).passed
    said = kernel.result(task, twice)
    assert str(said).startswith("01.1 not yet: the budget judge refused it.") and "the budget is 48 KiB" in said.message
    if task.kind in JUDGED:
        first, again = jax.tree.leaves(task.arguments()), jax.tree.leaves(task.arguments())
        assert first and all((a == b).all() for a, b in zip(first, again, strict=True)), "the same at every call"


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


GPUS = {
    "Tesla T4, 7.5": r"Tesla T4 \(7\.5\) runs no kernels, only plain JAX: Pallas begins with Ampere",
    "NVIDIA A100-SXM4-40GB, 8.0": r"A100-SXM4-40GB \(8\.0\) runs pl\.pallas_call, by Triton, .* begins with Hopper",
    "NVIDIA L4, 8.9": r"NVIDIA L4 \(8\.9\) runs pl\.pallas_call, by Triton, .* begins with Hopper",
    "NVIDIA H100 80GB HBM3, 9.0": r"HBM3 \(9\.0\) runs plgpu\.kernel, by Mosaic GPU, wgmma and TMA;",
    "NVIDIA H200, 9.0": r"H200 \(9\.0\) runs plgpu\.kernel, by Mosaic GPU, wgmma and TMA;",
    "NVIDIA B200, 10.0": r"B200 \(10\.0\) runs plgpu\.kernel, by Mosaic GPU, without wgmma",
}


@pytest.mark.parametrize("said", GPUS)
def test_doctor_says_what_a_gpu_runs(said, tmp_path, monkeypatch, capsys):
    fake_nvidia_smi(tmp_path, monkeypatch, f"echo '{said}'; echo '{said}'")
    checks.doctor()
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("GPU "))
    assert re.search(GPUS[said], line)
    assert line.endswith("; but this JAX supports only the CPU and the TPU") != machine._jax_knows_gpus()


@pytest.mark.parametrize("script", ["exit 9", "echo 'NVIDIA-SMI has failed'", "echo 'Tesla K80, [N/A]'"])
def test_where_no_gpu_answers_the_doctor_says_nothing_of_one(script, tmp_path, monkeypatch, capsys):
    fake_nvidia_smi(tmp_path, monkeypatch, script)
    checks.doctor()
    assert "GPU " not in capsys.readouterr().out


def fake_nvidia_smi(folder, monkeypatch, script):
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


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
    assert said.outcome == "not yet" and "int32[5,130]" in said.message
