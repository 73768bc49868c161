"""Declarations of exercises: contradictions are refused with one sentence, and ours hold together."""

import pathlib
import re
import sys
from dataclasses import fields

import pytest
from conftest import needs_libtpu

from course_lib import lessons
from course_lib.checks import exercise
from course_lib.checks.exercise import Exercise, exercises
from course_lib.checks.kinds import ASKS, RESULTS, find
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.explain import Explain

ROOT = pathlib.Path(__file__).resolve().parent.parent
HINTS = ("one", "two", "three")
SIZES = ({"N": 4096}, {"N": 1000}, {"N": 8})
WRITE = {
    "id": "99.1",
    "title": "t",
    "kind": "write",
    "defines": "f",
    "hints": HINTS,
    "points": 1,
    "inputs": ("x: f32[N]",),
    "sizes": SIZES,
    "reference": lambda x: x,
}
CHOICE = Choose(options=("a", "b"), right="a", wrong={"b": "no."}, why="so.", proof=lambda: "a")
CHOOSE = {"id": "99.1", "title": "t", "kind": "choose", "defines": "f", "hints": HINTS, "points": 1, "asks": CHOICE}


def test_the_good_ones_are_good():
    assert len(Exercise(**WRITE).arguments()) == 6
    Exercise(**CHOOSE)


@pytest.mark.parametrize(
    "fields, says",
    [
        ({"id": "1.1"}, "id is a lesson of two digits"),
        ({"id": "01.0"}, "id is a lesson of two digits"),
        (
            {"kind": "guess"},
            "kind is 'guess'; it may be write, configure, repair, golf, project, predict, choose, find, explain",
        ),
        ({"title": ""}, "title ''"),
        ({"defines": "a b"}, "defines 'a b' are a heading and a Python name"),
        (
            {"hints": "a hint, and no comma"},
            r"hints is 'a hint, and no comma'; it is a tuple: a single item needs a comma",
        ),
        ({"hints": ("one", "two")}, "hints has 2 texts; 3 or more"),
        ({"hints": ("one", "two", "")}, "hints has 3 texts"),
        ({"points": 0}, "points is 0: an explanation is worth 0"),
        ({"points": -1}, "points is -1"),
        ({"asks": CHOICE}, "asks is for predict, choose, find, explain, compute, several; its kind is write"),
        ({"listing": "x = 1"}, "listing is for the kinds that ask"),
        ({"judges": ("numbers", "referee")}, "judges has referee; there are numbers, simulator, races, compiler"),
        ({"judges": ()}, "judges and chips may not be empty"),
        ({"chips": "v5e"}, "chips is 'v5e'; it is a tuple"),
        ({"reference": None}, "no reference"),
        ({"cases": list}, "typed inputs and cases; one of them"),
        ({"inputs": (), "sizes": ()}, "there are no arguments"),
        ({"inputs": ("x f32[N]",)}, "input 'x f32.N.' cannot be read"),
        ({"inputs": ("x: f99[N]",)}, "'f99' is not a dtype"),
        ({"inputs": ("x: f32[M]",)}, "input x has the axis M, which the size"),
        ({"inputs": ("x: f32[N]", "x: f32[N]")}, "need different names"),
        ({"inputs": ()}, "the size .* gives N, an axis that no input has|need different names"),
        ({"sizes": (*SIZES, {"N": 8, "M": 1})}, "gives M, an axis that no input has"),
        ({"sizes": SIZES[:2]}, "sizes has 2: 3 or more are needed"),
        ({"sizes": ({"N": 128}, {"N": 256}, {"N": 512})}, "one of them odd"),
        ({"sizes": ({"N": 0}, *SIZES)}, "makes an empty array"),
        ({"dtypes": ("f32",)}, "dtypes is .*: it says what T is"),
        ({"inputs": ("x: T[N]",)}, "'T' is not a dtype|it says what T is"),
        ({"inputs": ("x: T[N]",), "dtypes": ("f32", "f99")}, "'f99' is not a dtype"),
        ({"within": (1, -1)}, r"within is \(1, -1\); it is \(low, high\)"),
    ],
)
def test_a_bad_declaration_is_refused(fields, says):
    with pytest.raises(ValueError, match=f"exercise '.*': .*(?:{says})"):
        Exercise(**WRITE | fields)


@pytest.mark.parametrize(
    "fields, says",
    [
        ({"asks": None}, "asks is NoneType; for the kind choose it is a Choose"),
        ({"asks": Explain(model="m", look_for=("x",))}, "asks is Explain; for the kind choose"),
        ({"kind": "explain", "points": 0}, "asks is Choose; for the kind explain it is a Explain"),
    ],
)
def test_a_bad_question_is_refused(fields, says):
    with pytest.raises(ValueError, match=says):
        Exercise(**CHOOSE | fields)


def test_what_a_pass_prints_is_one_line():
    long = Choose(options=("a", "b"), right="a", wrong={"b": "no."}, why="so " * 30, proof=lambda: "a")
    with pytest.raises(ValueError, match="why is 90 characters long: what a pass prints is one line of 94 columns"):
        Exercise(**CHOOSE | {"asks": long})


def test_a_field_nobody_knows_is_refused():
    with pytest.raises(TypeError, match="refrence"):
        Exercise(**WRITE, refrence=print)


def test_every_kind_has_its_judge():
    assert set(ASKS) < set(RESULTS) and set(RESULTS) == {
        *("write", "configure", "repair", "golf", "project"),
        *("predict", "choose", "find", "explain", "compute", "several"),
    }


def test_every_kind_is_used():
    assert {task.kind for task in exercises().values()} | {"project"} == set(RESULTS)


@pytest.fixture
def lesson_98(tmp_path, monkeypatch):
    """A folder that the course finds as lesson 98."""
    monkeypatch.setattr(lessons, "__path__", [*lessons.__path__, str(tmp_path)])
    folder = tmp_path / "lesson_98"
    folder.mkdir()
    (folder / "__init__.py").write_text('TITLE, GIVES, NEEDS, HARDWARE = "Choosing", "choose.", (), "Nothing."\n')
    yield folder
    for name in [name for name in sys.modules if name.startswith("course_lib.lessons.lesson_98")]:
        del sys.modules[name]
    exercise.lesson.cache_clear()


CHOICES = """
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose

EXERCISE = Exercise(
    id="{id}", title="t", kind="choose", defines="f", hints=("one", "two", "three"), points=1,
    asks=Choose(options=("a", "b"), right="a", wrong={{"b": "no."}}, why="so.", proof=lambda: "a"),
)
"""


def test_a_lesson_is_what_lies_in_its_folder(lesson_98):
    for number in (2, 10, 1):
        (lesson_98 / f"e{number:02}_choice.py").write_text(CHOICES.format(id=f"98.{number}"))
    (lesson_98 / "shared.py").write_text("1 / 0\n")
    found = exercise.lesson("98")
    assert (found.title, [task.id for task in found.exercises]) == ("Choosing", ["98.1", "98.2", "98.10"])


@pytest.mark.parametrize("text", [CHOICES.format(id="98.2"), "EXERCISE = 7\n", ""])
def test_a_file_with_another_exercise_is_refused(lesson_98, text):
    (lesson_98 / "e01_choice.py").write_text(text)
    with pytest.raises(ValueError, match=r"e01_choice.py: EXERCISE is .*; by the file's name it is 98.1"):
        exercise.lesson("98")


def test_two_files_for_one_exercise_are_refused(lesson_98):
    for name in ("e01_choice.py", "e01_again.py"):
        (lesson_98 / name).write_text(CHOICES.format(id="98.1"))
    with pytest.raises(ValueError, match="lesson_98 has two files for 98.1; one of them is e01_"):
        exercise.lesson("98")


@needs_libtpu
def test_the_examples_of_the_guide_are_sound():
    """docs/exercises.md: its declarations can be made, and what they claim is so."""
    names, made = {}, []
    for text in re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/exercises.md").read_text(), re.M | re.S):
        if "Exercise" in names:
            names["Exercise"] = lambda **declared: made.append(Exercise(**declared))
        exec(text, names)
    assert {task.kind for task in made} == set(RESULTS) - {"repair"}
    for task in made:
        if hasattr(task.asks, "proof"):
            assert task.asks.proof() == (task.asks.right if task.kind == "choose" else task.asks.value)
        if task.kind == "find":
            assert not find.problem(task.asks, task.listing)
    assert all(f"| `{field.name}` |" in (ROOT / "docs/exercises.md").read_text() for field in fields(Exercise))
