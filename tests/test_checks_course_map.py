"""The map of the course: every lesson with what it gives and needs, its minutes, and how far the reader is."""

import dataclasses
import re
from xml.etree import ElementTree

import pytest
from lesson_files import ROOT
from shapes import words_on_words

from course_lib import checks, errors
from course_lib.checks import exercise, panel
from course_lib.checks.record import Entry


@pytest.fixture
def course(monkeypatch):
    """A map on which lesson 1 is done, and of lesson 2 one exercise."""
    done = {task.id: Entry(outcome="passed") for task in exercise.lesson("01").exercises}
    done["02.1"] = Entry(outcome="passed")
    monkeypatch.setattr(panel.record, "entries", lambda: done)
    return checks.course_map()


def test_every_lesson_has_its_row_with_what_its_first_cell_says(course):
    assert [stop.lesson.number for stop in course.stops] == list(errors.WRITTEN)
    for stop in course.stops:
        (source,) = ROOT.glob(f"notebooks/src/{stop.lesson.number}_*.py")
        said = re.search(r"\*(\d+) minutes, then (\d+) for the exercises", source.read_text())
        assert (stop.minutes, stop.exercise_minutes) == (int(said[1]), int(said[2])), source.name
        assert (
            stop.lesson.title in str(course) and stop.lesson.gives.endswith(".") and stop.lesson.hardware.endswith(".")
        )


def test_a_need_that_another_brings_with_it_has_no_line_of_its_own(course):
    fifth = next(stop for stop in course.stops if stop.lesson.number == "05")
    assert fifth.lesson.needs == (2, 3, 4)
    assert fifth.needs == (3, 4)  # each of them needs 2


def test_the_map_shows_how_far_you_are_and_where_to_go_on(course):
    first, second = course.stops[:2]
    assert first.points == f"{first.progress.max_points} of {first.progress.max_points} points"
    assert course.next_stop is second and "You have begun 2 of them. Next: lesson 2." in course.summary
    row = next(line for line in str(course).splitlines() if line.startswith("01 "))
    assert "██████████" in row


def test_below_the_picture_each_lesson_can_be_opened(course):
    """From notebooks/, exercises/ and solutions/ alike; outside a clone there is nothing to open."""
    shown = course._repr_mimebundle_()["text/html"]
    doors = re.findall(r'<a href="([^"]+)">(\d+) ', shown)
    assert [f"{int(number):02}" for _, number in doors] == list(errors.WRITTEN)
    assert all((ROOT / "exercises" / address).is_file() for address, _ in doors)
    outside = dataclasses.replace(course, stops=tuple(dataclasses.replace(stop, notebook="") for stop in course.stops))
    assert "<a " not in outside._repr_mimebundle_()["text/html"]


def test_when_all_is_done_nothing_is_next(monkeypatch):
    everything = {id: Entry(outcome="passed") for id in exercise.exercises()}
    monkeypatch.setattr(panel.record, "entries", lambda: everything)
    assert checks.course_map().summary.endswith("All are done.")


def test_the_picture_has_every_word_and_none_on_another(course):
    shown = course._repr_mimebundle_()
    svg = shown["image/svg+xml"]
    words = " ".join(ElementTree.fromstring(svg).itertext())
    assert all(stop.lesson.title in words and stop.time in words for stop in course.stops)
    assert words_on_words(svg) == []
    assert shown["text/plain"] == str(course)
    assert svg.count("<path ") == sum(len(stop.needs) for stop in course.stops)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"GIVES": None}, "lesson_02/__init__.py does not say GIVES; lesson_01 shows how."),
        ({"NEEDS": (2,)}, "lesson_02: NEEDS has 2, which is no lesson before this one."),
        ({"NEEDS": (1, 0)}, "lesson_02: NEEDS has 0, which is no lesson before this one."),
    ],
)
def test_a_lesson_that_does_not_say_what_it_gives_is_refused(monkeypatch, change, says):
    package = __import__("course_lib.lessons.lesson_02", fromlist=["TITLE"])
    for name, value in change.items():
        monkeypatch.setattr(package, name, value)
    with pytest.raises(ValueError, match=re.escape(says)):
        exercise.lesson.__wrapped__("02")


def test_a_lesson_without_minutes_is_shown_without_them(course):
    bare = dataclasses.replace(course.stops[0], minutes=None, exercise_minutes=None)
    assert bare.time == ""
