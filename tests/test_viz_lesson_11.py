"""The pictures of two programs, of a profile and of a search: what they say, and that nothing lies on anything."""

import pytest
from shapes import words_on_words
from viz_samples import HOSTILE, overflowing, parsed

from course_lib import viz
from course_lib.compiler import Bundle, Code, Loop
from course_lib.viz.bundle_viewer.bundle_diff import issued


def code(*listing, turns=3):
    """A program whose second bundle is a loop."""
    bundles = tuple(Bundle(op="k", address=n, depth=0, instructions=told) for n, told in enumerate(listing))
    return Code(
        name="k",
        chip="v5e",
        bundles=bundles,
        loops=(Loop(first=1, last=1, turns=turns),),
        offered={"load": 3},
        sources={},
        left_out=0,
        versions="",
    )


LOAD, SPILL = "%1 = vld [vmem:[%s2] sm:$0xff]", "%3 = vst [vmem:[#allocation9_spill] sm:$0xff] /*vst_source=*/%v4_v1"
FILL = "%5 = vld [vmem:[#allocation9_spill] sm:$0xff]"
PLAIN, SPILLING = code((LOAD,), (LOAD,)), code((LOAD,), (LOAD, SPILL, FILL))


def test_operations_count_with_the_turns_of_their_loop():
    assert issued(PLAIN)["load"] == 4
    counts = issued(SPILLING)
    assert (counts["load"], counts["store"], counts["spilled"], counts["filled"]) == (7, 3, 3, 3)
    assert issued(code((LOAD,), (LOAD,), turns=None))["load"] == 2


def test_in_a_step_one_turn_of_the_outermost_loop_counts():
    counts = issued(SPILLING, in_a_step=True)
    assert (counts["load"], counts["store"], counts["spilled"], counts["filled"]) == (2, 1, 1, 1)
    told = str(viz.bundle_diff({"one": PLAIN, "two": SPILLING}, in_a_step=True))
    assert "issued in a grid step" in told and "load: one 1, two 2" in told
    assert "in a run, at most" in str(viz.bundle_diff({"one": PLAIN, "two": SPILLING}))


def test_two_programs_side_by_side():
    told = str(viz.bundle_diff({"one": PLAIN, "two": SPILLING}))
    assert "load: one 4, two 7" in told and "spilled: one 0, two 3" in told
    for wrong in ({"one": PLAIN}, {"one": PLAIN, "two": "no program"}):
        with pytest.raises(ValueError, match="two names"):
            viz.bundle_diff(wrong)


def trace(*events, about="measured on a CPU"):
    lanes = [{"name": "thread_name", "ph": "M", "tid": n, "args": {"name": f"lane {n}"}} for n in (0, 1)]
    return {"about": about, "traceEvents": [*lanes, *events]}


def event(name, tid, ts, dur):
    return {"name": name, "ph": "X", "pid": 0, "tid": tid, "ts": ts, "dur": dur}


TRACE = trace(event("train", 0, 0, 9000), event("load", 0, 100, 4000), event("dot", 1, 5000, 3000))


def test_a_profile_in_words():
    assert str(viz.trace_lanes(TRACE)) == "measured on a CPU\nFrom 0 ms to 9 ms. lane 0: 2 events; lane 1: 1 event."
    assert "lane 1: no events" in str(viz.trace_lanes(TRACE, 0, 4))
    for first, last in ((20, 30), (4, 4)):
        with pytest.raises(ValueError, match="no event lies between"):
            viz.trace_lanes(TRACE, first, last)


def test_names_without_a_colour_are_named_together():
    many = [event(f"op {n}", 1, 10 * n, 9 - n) for n in range(8)]
    assert "everything else" in viz.trace_lanes(trace(*many)).svg
    assert "everything else" not in viz.trace_lanes(TRACE).svg


def test_short_times_are_in_microseconds():
    assert "From 0 us to 9 us" in str(viz.trace_lanes(trace(event("a", 0, 0, 9))))


SECONDS = {(128, 128, 128): 4e-6, (128, 128, 256): 2e-6, (256, 128, 128): None, (256, 256, 128): 2.1e-6}


def test_a_search_in_words():
    told = str(viz.search_map(SECONDS, asked=[(128, 128, 256)]))
    assert told == (
        "4 choices, 1 refused, 2 within 1.1 times the shortest, which is 2.0 us, predicted (compiler), with bm 128, "
        "bk 128, bn 256. The search tried 1."
    )
    with pytest.raises(ValueError, match="none of the choices"):
        viz.search_map({(128, 128, 128): None})


MANY = {(m, k, n): 1e-6 * (m + k) / n for m in (128, 512, 2048) for k in (128, 256, 4096) for n in (128, 256, 1024)}
PICTURES = {
    "programs": lambda: viz.bundle_diff({f"one {HOSTILE}": PLAIN, "two": SPILLING}),
    "profile": lambda: viz.trace_lanes(TRACE),
    "hostile profile": lambda: viz.trace_lanes(trace(event(HOSTILE * 9, 0, 0, 5), about=HOSTILE)),
    "search": lambda: viz.search_map(SECONDS, asked=[(128, 128, 256)]),
    "large search": lambda: viz.search_map(MANY),
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_whole(name):
    svg = PICTURES[name]().svg
    parsed(svg)
    assert words_on_words(svg) == [] and overflowing(svg) == []
