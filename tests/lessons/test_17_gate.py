"""Exercise 17.8 where PyTorch is installed: its operator trains there, and what it refuses."""

import re

import pytest
from lesson_files import answers, code_cells

from course_lib.checks.exercise import exercise
from course_lib.checks.kinds import RESULTS
from course_lib.grading.box import inside, judging, values

pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
STEM = "17_other_engines"
GATE = answers(STEM)["17.8"]


def given():
    """The names that the cells above the answer define, with the operator of PyTorch among them."""
    names = {}
    for cell in code_cells("solutions/src", STEM):
        if cell.source.startswith("import importlib") or cell.metadata.get("given") == "17.8":
            exec(cell.source, names)
    return names


def checked(answer):
    """The verdict on an answer to 17.8."""
    exec(answer, names := given())
    return RESULTS["write"](exercise("17.8"), names["gate"])


def test_our_operator_is_differentiated_by_pytorch():
    said = checked(GATE)
    assert said.passed and said.headline.startswith(
        "judged as a JAX function and as an operator of PyTorch: numbers"
    ), str(said)


def test_a_function_is_no_operator():
    said = checked(
        GATE.replace('gate = operator("exercises::gate", gated, ("x", "g"), mode="interpreted")', "gate = gated")
    )
    assert "which PyTorch cannot differentiate" in said.message and 'operator("exercises::gate"' in said.next


def test_the_gradient_is_judged_with_the_operator_too():
    said = checked(GATE.replace("cotangent_ref[...] * x_ref[...] * s * (1 - s)", "cotangent_ref[...] * x_ref[...] * s"))
    assert said.judge == "numbers" and "dg has s, not s * (1 - s)" in said.message


def test_the_judge_of_a_box_gets_the_function_that_the_operator_runs():
    box = inside.Box(0, 0)
    box.names |= given()

    def ask(request):
        return values.loads(values.dumps(box.answer(request[0], request[1:])))

    assert ask(["run", GATE]) == ["ok"]
    text, outcome, _ = judging.judged(exercise("17.8"), ask)
    assert outcome == "passed" and re.search("(no|needs) PyTorch: numbers", " ".join(text.split()))
