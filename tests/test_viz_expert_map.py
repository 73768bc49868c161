"""The map of tiles and experts: its visits are those of the library, and its counts are right."""

import re

import numpy as np
import pytest
from viz_samples import EXPERTS, is_legible, words

from course_lib import viz
from course_lib.kernels.grouped.visits import visits_of
from course_lib.viz.choices.expert_map import visits


@pytest.mark.parametrize("tile", [8, 16, 32])
def test_the_visits_are_those_of_the_kernel(tile):
    rng = np.random.default_rng(tile)
    for _ in range(20):
        sizes = np.bincount(rng.integers(0, 5, 64) ** 2 // 4, minlength=6)
        listed = visits_of(sizes, 64, tile, of_matrices=False)
        steps = [v for v in range(len(listed.group)) if not listed.is_idle(v)]
        assert visits(list(map(int, sizes)), tile) == [(int(listed.tile[v]), int(listed.group[v])) for v in steps]


def test_the_caption_counts_the_rows_that_are_multiplied():
    widget = viz.expert_map(EXPERTS, (256, 512))
    assert widget.captions[0].startswith(
        "In tiles of 256 rows there are 16 visits, so 4,096 rows are multiplied, 1.00 "
    )
    assert widget.captions[2] == (
        "In tiles of 256 rows there are 23 visits, so 5,888 rows are multiplied, 1.44 times as many as there are. With "
        "every expert padded to the largest, which has 1,638 rows, 13,104 would be multiplied, 3.20 times as many."
    )


def test_every_map_is_legible_and_shows_each_visit():
    widget = viz.expert_map(EXPERTS, at=(1, 2))
    for svg, caption in zip(widget.drawings, widget.captions, strict=True):
        count = int(re.search(r"(\d+) visits", caption)[1])
        assert is_legible(svg) and sum(word in "ABCDEFGH" for word in words(svg)) == count + 8
    assert "4,096" in widget._repr_mimebundle_()[0]["image/svg+xml"]


@pytest.mark.parametrize(
    "sizes, tiles, at, says",
    [
        ({}, (8,), (0, 0), r"sizes=\{\} is not a dict of names and sizes"),
        ([8, 8], (8,), (0, 0), r"sizes=\[8, 8\] is not a dict"),
        ({"a": [8, -8]}, (8,), (0, 0), r"sizes\['a'\]=\[8, -8\] must be 1 to 16 integers, none below 0"),
        ({"a": [0, 0]}, (8,), (0, 0), "not all 0"),
        ({"a": [1] * 17}, (1,), (0, 0), "must be 1 to 16 integers"),
        ({"a": [8], "b": [16]}, (8,), (0, 0), r"sums \{'a': 8, 'b': 16\}, but must all have one"),
        ({"a": [8]}, (3,), (0, 0), "tiles holds 3, but each must divide 8 rows into at most 64 tiles"),
        ({"a": [130]}, (2,), (0, 0), "at most 64 tiles"),
        ({"a": [1] * 8}, (8,), (0, 0), r"in sizes\['a'\], more than 6 experts meet in a tile of 8; try smaller tiles"),
        ({"a": [8]}, (8,), (1, 0), r"at=\(1, 0\) names no map, but must be two numbers, below 1 and 1"),
    ],
)
def test_what_is_no_map_is_refused(sizes, tiles, at, says):
    with pytest.raises(ValueError, match=f"expert_map: .*{says}"):
        viz.expert_map(sizes, tiles, at=at)
