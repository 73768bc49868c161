"""Lesson 7: the blocks against which 07.5 judges are the best of those around them."""

import itertools

import pytest
from conftest import needs_libtpu

from course_lib.checks.exercise import exercise
from course_lib.lessons.lesson_07 import e05_blocks as e05

SHAPE = (1024, 1024, 1024)


@needs_libtpu
@pytest.mark.parametrize("sizes", [(512, 512, 512), (512, 1024, 256), (256, 1024, 512)])
def test_no_neighbour_beats_the_best(sizes):
    assert e05.report(SHAPE, e05.BEST[SHAPE]).seconds < e05.report(SHAPE, sizes).seconds


def test_the_best_divide_their_shapes_and_their_text_names_them():
    for shape, best in e05.BEST.items():
        assert all(length % size == 0 for length, size in zip(shape, best, strict=True))
    assert not any(
        str(best)[1:-1] in hint for best, hint in itertools.product(e05.BEST.values(), exercise("07.5").hints)
    )


@pytest.mark.parametrize("sizes", [(512, 512), 512, (512, 512.0, 512), None])
def test_what_is_no_three_sizes_is_refused_in_words(sizes):
    with pytest.raises(e05.Unfit, match="three whole numbers|None"):
        e05._divide(SHAPE, sizes)
