"""Lesson 8: the kernel that 08.5 judges with is the one that its reader sees."""

import inspect

from lesson_files import source

from course_lib.lessons.lesson_08 import e05_band

STEM = "08_control_flow_and_masks"


def test_the_kernel_of_the_band_is_the_one_in_the_notebook():
    body = inspect.getsource(e05_band._band_kernel).partition('"""\n')[2]
    assert body.startswith("    j, i = pl.program_id(0)")
    assert f"def band_kernel(x_ref, o_ref):\n{body}" in source("solutions/src", STEM)
