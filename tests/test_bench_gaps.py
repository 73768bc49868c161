"""The gaps of a recorded profile: what lies between the work of some threads, and what is no gap."""

import json

import pytest

from course_lib import bench, datasets


def trace(*spans):
    """(thread, ts, dur) in ms; thread 0 is Python's."""
    lanes = [(0, "fit, Python"), (1, "XLA, thread 1"), (2, "XLA, thread 2")]
    names = [{"name": "thread_name", "ph": "M", "tid": n, "args": {"name": name}} for n, name in lanes]
    events = [{"name": f"op {t}", "ph": "X", "tid": t, "ts": 1e3 * ts, "dur": 1e3 * dur} for t, ts, dur in spans]
    return {"traceEvents": names + events}


def test_two_threads_hide_each_others_gaps_and_python_hides_none():
    found = bench.gaps(trace((0, 0, 20), (1, 2, 4), (2, 5, 3), (2, 6, 1), (1, 10, 1)))
    assert found.idle == ((2, 0), (2, 8)) and found.busy_ms == 7 and found.whole_ms == 20
    assert bench.gaps(trace((0, 0, 2), (1, 0, 5)), lanes="fit").idle == ()


def test_a_trace_without_such_a_thread():
    with pytest.raises(ValueError, match="begins with lanes='XLA'"):
        bench.gaps(trace((0, 0, 1)))


def test_what_an_event_took():
    assert bench.took(trace((0, 0, 2), (0, 5, 1), (1, 0, 9)), "op 0") == 3
    assert bench.took(trace((0, 0, 2)), "another") == 0


def test_the_gaps_of_the_trace_that_waits_are_its_loads():
    waiting = json.loads(datasets.trace_file("keras_fit_waiting").read_text("utf-8"))
    assert sum(ms for ms, _ in bench.gaps(waiting).idle if ms > 15) == pytest.approx(
        bench.took(waiting, "load a batch"), rel=0.15
    )
