"""The kinds compute (a function of plain numbers) and several (a dict of small questions)."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds import compute, several
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.compute import Compute, Formula
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several

COMMON = {"id": "99.1", "title": "t", "hints": ("one", "two", "three"), "points": 1}
AREA = Formula(
    name="the area",
    unit="",
    formula="a * b",
    proof=lambda a, b: sum(a for _ in range(b)),
    near={"a + b": "That is half of the way round.", "a * a": "That is a square."},
)
LENGTH = Formula(name="the length of the fence", unit="", formula="2 * (a + b)", proof=lambda a, b: a + b)
CASES = ((2, 3), (1, 1), (7, 5))
EIGHT = Predict(
    value=8, unit="bytes", near={4: "That is one of them."}, why="two numbers of four.", proof=lambda: 2 * 4
)
FALLS = Choose(
    options=("stands", "falls"), right="falls", wrong={"stands": "Look again."}, why="so.", proof=lambda: "falls"
)


def computing(*results):
    asks = Compute(takes=("a", "b"), results=results or (AREA, LENGTH), cases=CASES, why="a rectangle.")
    return Exercise(**COMMON, kind="compute", defines="measure", asks=asks)


def asking(**parts):
    asks = Several(parts=parts or {"A": EIGHT, "B": (FALLS, EIGHT), "C": FALLS}, why="all of it.")
    return Exercise(**COMMON, kind="several", defines="answers", asks=asks)


def right(a, b):
    return a * b, 2 * (a + b)


def of_a_function(answer, *results):
    return compute.result(computing(*results), answer)


def of_answers(answers):
    return several.result(asking(), answers)


def empty(a, b):
    """Nothing yet."""


@pytest.mark.parametrize("answer", [None, empty, lambda a, b: None])
def test_nothing_is_not_attempted(answer):
    said = of_a_function(answer)
    assert said.outcome == "not attempted" and "write the body of measure" in said.next


@pytest.mark.parametrize(
    "answer",
    [
        right,
        lambda a, b: list(right(a, b)),
        lambda a, b: (np.float64(a * b), np.int32(2 * a + 2 * b)),
        lambda a, b: (a * b + 1e-12, 2.0 * (a + b)),
        lambda a, b: np.array(right(a, b)),
    ],
)
def test_right_numbers_pass_however_they_come(answer):
    said = of_a_function(answer)
    assert said.passed and said.headline == "a rectangle."


def test_one_result_is_a_number_and_no_tuple():
    assert of_a_function(lambda a, b: a * b, AREA).passed
    assert "(6,), which is not a plain number" in of_a_function(lambda a, b: (a * b,), AREA).message


@pytest.mark.parametrize(
    "answer, says",
    [
        (
            lambda a, b: (a + b, 2 * (a + b)),
            "look at the area.*That is half of the way round.*measure.2, 3. should give 6 for the area",
        ),
        (lambda a, b: (a * a, 2 * (a + b)), "That is a square"),
        (
            lambda a, b: (2 * (a + b), a * b),
            "the length of the fence where the area should be.*in this order: the area",
        ),
        (lambda a, b: (2 * a * b, 2 * (a + b)), "gives 12 for the area; it should be 6. Every case is 2 times"),
        (lambda a, b: (a * b if a != 7 else 0, 2 * (a + b)), r"measure\(7, 5\) gives 0.*2 of 3 cases are right"),
        (lambda a, b: (a * b, a + b), "look at the length of the fence.*0.5 times"),
        (lambda a, b: a * b, "returned the number 6; it should return 2 numbers"),
        (lambda a, b: (a * b, 1, 2), "it should return 2 numbers"),
        (lambda a, b: np.array([a * b, 1, 2]), "it should return 2 numbers"),
        (lambda a, b: ("6 m2", 1), "returned '6 m2', which is not a plain number.*return 2 numbers, in this order"),
        (lambda a, b: (True, 1), "True, which is not a plain number"),
        (lambda a, b: (float("nan"), 1), "nan, which is not a possible value"),
        (lambda a, b: 1 / 0, r"measure\(2, 3\) raises ZeroDivisionError"),
        (lambda a: a, "raises TypeError"),
        (6, "it is not a function.*without parentheses"),
        ("right", "it is not a function.*with def measure"),
    ],
)
def test_wrong_answers_are_read_closely(answer, says):
    said = of_a_function(answer)
    assert said.outcome == "not yet" and said.judge == "exercise"
    assert re.search(f"(?s){says}", str(said)), str(said)


def test_a_forgotten_return_is_said():
    def measure(a, b):
        area = a * b  # noqa: F841

    assert "returned None: is the return missing?" in of_a_function(measure).message


def test_tolerance_is_that_of_the_result():
    rough = Formula(name="pi", unit="", formula="3.14159 * a", proof=lambda a, b: 0, tolerance=0.01)
    assert of_a_function(lambda a, b: 22 / 7 * a, rough).passed
    assert not of_a_function(lambda a, b: 3.2 * a, rough).passed


@pytest.mark.parametrize(
    "volume, says",
    [
        (lambda a, b: a * b, "Your value times a would be right.*factor a is missing"),
        (lambda a, b: a * a * b * b, "It is b times as large.*b is a factor too many"),
        (lambda a, b: a * a * b + 2, "Every case is 2 more.*left out, or one too many"),
        (lambda a, b: 4 * b, "does not depend on a, but should.*find where a belongs"),
        (lambda a, b: a**2 * b + a - b, "work through this case on paper"),
    ],
)
def test_the_argument_that_is_wrong_is_named(volume, says):
    a_volume = Formula(name="the volume", unit="", formula="a * a * b", proof=lambda a, b: a * a * b)
    assert re.search(f"(?s){says}", str(of_a_function(volume, a_volume)))


@pytest.mark.parametrize("rounding", [math.floor, math.ceil, round])
def test_values_that_are_rounded_are_said_to_be(rounding):
    third = Formula(name="a third", unit="", formula="(a + 1) / 3 + 0.4", proof=lambda a, b: (a + 1) / 3 + 0.4)
    said = of_a_function(lambda a, b: rounding((a + 1) / 3 + 0.4), third)
    assert said.message.endswith("Your values are rounded.") and said.next == "do not round."


@pytest.mark.parametrize(
    "fields, says",
    [
        ({"cases": CASES[:2]}, "cases has 2 sets of arguments; 3 or more"),
        ({"results": ()}, "results is"),
        ({"results": [AREA]}, "results is"),
        ({"takes": ("a",)}, r"the case \(2, 3\) has 2 arguments; takes names 1"),
        (
            {"takes": ("a", "c")},
            "'a [*] b' cannot be evaluated: name 'b' is not defined. It may use a, c, ceil",
        ),
        ({"results": (replace(AREA, near={"a +": "no"}),)}, "the formula 'a [+]' cannot be evaluated: invalid syntax"),
        ({"results": (replace(AREA, near={"a / (b - b)": "no"}),)}, "cannot be evaluated: .*by zero"),
        ({"results": (replace(AREA, near={"open('x')": "no"}),)}, "cannot be evaluated: name 'open' is not defined"),
    ],
)
def test_bad_declarations_of_a_function_are_refused(fields, says):
    with pytest.raises(ValueError, match=says):
        Compute(**{"takes": ("a", "b"), "results": (AREA,), "cases": CASES, "why": "so."} | fields)


def test_a_slip_that_is_none_is_refused():
    slip = Formula(name="x", unit="", formula="a", proof=lambda a: a, near={"2 * a / 2": "no"})
    with pytest.raises(ValueError, match="for a formula that is right"):
        Compute(takes=("a",), results=(slip,), cases=((1,), (2,), (3,)), why="so.")


@pytest.mark.parametrize("answers", [None, {}, {"A": None, "B": (None, None)}, {"B": None}])
def test_an_empty_dict_is_not_attempted(answers):
    assert of_answers(answers).outcome == "not attempted"


@pytest.mark.parametrize("pair", [("falls", "8 bytes"), ["Falls", "0.008 kB"]])
def test_all_right_passes(pair):
    assert of_answers({"A": "8 B", "B": pair, "C": "falls"}).passed


@pytest.mark.parametrize(
    "answers, says",
    [
        ({"A": "4 bytes"}, "A: it is not 4 bytes.*That is one of them"),
        ({"A": "8 bytes", "C": "stands"}, 'C: "stands" is not right.*Look again.*Right so far: A'),
        ({"A": "8 bytes"}, "1 of 3 are right.*Not answered yet: B, C"),
        ({"B": ("falls", "4 bytes")}, "B: it is not 4 bytes"),
        ({"B": ("stands", "4 bytes")}, "B: it is not 4 bytes"),
        ({"B": ("stands", "8 bytes")}, 'B: "stands" is not right'),
        ({"B": ("falls", None)}, "B: half of it is not answered yet.*answer both halves of B"),
        ({"B": "falls"}, "B: this part needs 2 answers.*in parentheses"),
        ({"B": ("falls", "8 bytes", 1)}, "B: this part needs 2 answers"),
        ({"D": "8 bytes"}, "there is no such question.*keys 'A', 'B', 'C'"),
        (["8 bytes"], "it is not a dict"),
        ({"A": 8}, "A: the unit is missing"),
    ],
)
def test_the_first_wrong_part_is_spoken_of(answers, says):
    said = of_answers(answers)
    assert said.outcome == "not yet" and said.judge == "exercise"
    assert re.search(f"(?s){says}", str(said)), str(said)


@pytest.mark.parametrize("parts", [{"A": EIGHT}, {"A": EIGHT, "B": 8}, {"A": EIGHT, "B": ()}])
def test_bad_declarations_of_parts_are_refused(parts):
    with pytest.raises(ValueError, match="parts has 1|part 'B' is"):
        Several(parts=parts, why="so.")
