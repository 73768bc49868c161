"""Lesson 11: the kept search is what the compiler says, and the four cases are the code that is shown."""

import json

import pytest
from conftest import needs_libtpu
from lesson_files import source

from course_lib import datasets
from course_lib.lessons.lesson_11 import e01_four_cases, landscapes, tuner

DAILY = ((512, 512, 1024), (64, 2048, 8192))  # of six shapes


def test_what_is_kept_has_every_legal_choice():
    searches = datasets.product_searches()
    assert list(searches) == [*landscapes.SHAPES, *landscapes.SMALL]
    for shape, search in searches.items():
        assert list(search.seconds) == landscapes.legal(shape)
        assert all(
            search.seconds[blocks] is None for blocks in search.seconds if landscapes.vmem(blocks) > landscapes.LIMIT
        )


@needs_libtpu
@pytest.mark.parametrize("shape", DAILY)
def test_the_compiler_still_says_so(shape):
    """Of the best of two shapes; make build and tools/landscapes.py --write mend it."""
    seconds = datasets.product_searches()[shape].seconds
    best = min((blocks for blocks in seconds if seconds[blocks] is not None), key=seconds.get)
    assert landscapes.asked(shape, best)[1] == pytest.approx(seconds[best], rel=1e-3)


@pytest.mark.parametrize("shape", [*landscapes.SHAPES, *landscapes.SMALL])
def test_twelve_questions_are_enough(shape):
    search, asked = datasets.product_searches()[shape], []
    found = tuner.tuned(shape, lambda blocks: (asked.append(blocks), search.seconds[blocks])[1])
    best = min(seconds for seconds in search.seconds.values() if seconds is not None)
    assert tuple(asked) == search.ours and len(asked) <= tuner.MOST
    assert search.seconds[found] <= 1.1 * best


@pytest.mark.parametrize("stem", ["11_debug_profile_autotune"])
def test_the_listing_of_the_four_cases_is_the_code_in_the_notebook(stem):
    assert e01_four_cases.LISTING.strip() in source("solutions/src", stem)


@pytest.mark.parametrize("name", ["keras_fit_waiting", "keras_fit_ready"])
def test_a_recorded_trace_is_small_and_names_no_machine(name):
    text = datasets.trace_file(name).read_text("utf-8")
    assert len(text) < 100_000 and "/" not in text
    trace = json.loads(text)
    assert "measured on a CPU" in trace["about"]
    assert {event["name"] for event in trace["traceEvents"] if event.get("tid") == 0} >= {"train", "load a batch"}
