"""The cuts for half a day to three days: their minutes add up, and what they point to is there."""

import re

import pytest
from lesson_files import ROOT

from course_lib.checks import exercise

PAGE = (ROOT / "docs/instructor/cuts.md").read_text()
CUTS = re.findall(r"^## ([^\n]+): (\d+) minutes\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
ROWS = re.findall(r"^\| (\d+) \| (\d+) \| (.+) \|$", PAGE, re.M)


def plan(lesson):
    """The minutes at which the rows of a lesson's own plan begin, and its end."""
    page = (ROOT / f"docs/instructor/{int(lesson):02}.md").read_text()
    rows = [(int(start), int(minutes)) for start, minutes in re.findall(r"^\| (\d+) \| (\d+) \| ", page, re.M)]
    return [start for start, _ in rows] + [sum(rows[-1])]


def test_all_are_there():
    names = [name for name, _, _ in CUTS]
    assert names == ["Half a day", "One day", "Two days", "Two days to attention", "Three days"]


@pytest.mark.parametrize(("name", "whole", "body"), CUTS, ids=[name for name, _, _ in CUTS])
def test_the_minutes_add_up(name, whole, body):
    rows = [(int(start), int(minutes)) for start, minutes in re.findall(r"^\| (\d+) \| (\d+) \| ", body, re.M)]
    assert [start for start, _ in rows] + [int(whole)] == [0] + [start + minutes for start, minutes in rows]


@pytest.mark.parametrize(("start", "minutes", "what"), ROWS, ids=lambda value: value[:24])
def test_a_row_points_to_rows_and_exercises_that_are_there_and_has_time_for_them(start, minutes, what):
    assert set(re.findall(r"\d\d\.\d+", what)) <= set(exercise.exercises())
    if lesson := re.search(r"Lesson (\d+), rows", what):
        spans = [tuple(map(int, span)) for span in re.findall(r"(\d+) to (\d+)(?=[ ,;.]|$)", what)]
        assert spans and {edge for span in spans for edge in span} <= set(plan(lesson[1]))
        assert sum(end - begin for begin, end in spans) <= int(minutes) + 5
