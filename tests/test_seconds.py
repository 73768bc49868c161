"""The summary at the end of a test run."""

import types

import pytest
import seconds


def report(nodeid, duration, when="call"):
    return types.SimpleNamespace(nodeid=nodeid, duration=duration, when=when)


@pytest.mark.parametrize(
    "nodeid, part",
    [
        ("tests/test_viz_draw.py::test_a[x/y]", "viz"),
        ("tests/test_grid.py::test_b", "grid"),
        ("tests/browser/test_lab.py::test_c", "browser"),
    ],
)
def test_part_of(nodeid, part):
    assert seconds.part_of(nodeid) == part


def test_set_up_counts_as_time_and_not_as_a_test():
    reports = [
        report("tests/test_a.py::t", 2, "setup"),
        report("tests/test_a.py::t", 3),
        report("tests/test_b.py::t", 9),
    ]
    assert seconds.by_part(reports) == [("b", 9, 1), ("a", 5, 1)]


def test_short_parts_share_a_line():
    reports = [report("tests/test_a.py::t", 0.4), report("tests/test_b.py::t", 0.3), report("tests/test_c.py::t", 4.2)]
    assert [line.split() for line in seconds.lines(reports)] == [
        ["4", "s", "1", "tests", "c"],
        ["1", "s", "2", "tests", "the", "rest"],
        ["5", "s", "3", "tests", "all,", "over", "the", "workers"],
    ]
