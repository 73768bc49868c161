"""Lesson 7: par of 07.10 is what "Room" prints, one cycle less; the page of the exercise quotes the same number."""

import re

import nbformat
from lesson_files import ROOT

from course_lib.checks.exercise import exercise
from course_lib.lessons.lesson_07 import e10_fewest_cycles as e10


def test_par_is_one_cycle_below_what_the_lesson_prints():
    notebook = nbformat.read(ROOT / "notebooks/07_tiled_matmul.ipynb", 4)
    (cell,) = (cell for cell in notebook.cells if cell.source.startswith("MIB = 2**20\nwhole_k = compiled("))
    (cycles,) = re.findall(r"^ 512  4096   512 .* ([\d,]+)$", cell.outputs[0]["text"], re.M)
    assert int(cycles.replace(",", "")) == e10.ROOM == exercise("07.10").golf.par + 1


def test_the_page_of_the_exercise_quotes_it():
    page = (ROOT / "solutions/src/07_tiled_matmul.py").read_text()
    assert f"blocks of (512, 4096, 512) take {e10.ROOM:,} cycles" in page
