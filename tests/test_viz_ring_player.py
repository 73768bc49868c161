"""The ring player: lanes, bars, causes and words of schedules made by hand, its still, and what it refuses.

In a browser: tests/browser/test_ring_player.py and tests/browser/test_every_widget.py.
"""

import re

import pytest
from ring_samples import both_ways, gathering, one_way
from shapes import words_on_words
from test_layers_viz import VIZ
from viz_samples import boxes, overflowing, parsed, words

from course_lib import viz
from course_lib.judges.many_chips.schedule import schedule
from course_lib.viz.ring_player import ring_data, ring_still

FOUND = ring_data.moves(one_way())
HOP, COPY = 1.0, 4096 * 100 / 45e3  # us: to the next device, and of 409,600 bytes at 45 GB/s
PLAYERS = {"one way": one_way(), "both ways": both_ways(), "eight": both_ways(8), "two": one_way(2)}


def test_each_link_carries_one_part_after_the_other():
    assert FOUND.lanes == ("link 0 to 1", "link 1 to 2", "link 2 to 3", "link 3 to 0")
    of_first = [bar for bar in FOUND.bars if bar.lane == 0]
    assert [bar.what for bar in of_first] == ["o_ref[0]", "o_ref[3]", "o_ref[2]"]
    assert [bar.begin for bar in of_first] == pytest.approx([n * (COPY + HOP) for n in range(3)], abs=1e-3)
    assert all(bar.end - bar.begin == pytest.approx(COPY, abs=1e-3) for bar in FOUND.bars)
    assert FOUND.end == pytest.approx(3 * (COPY + HOP), abs=1e-3)


def test_the_cause_of_a_copy_is_what_arrived_before():
    by_place = {(bar.lane, bar.what): bar for bar in FOUND.bars}
    second = by_place[0, "o_ref[3]"]
    assert FOUND.bars[second.cause] == by_place[3, "o_ref[3]"], "device 0 passes on what has come from device 3"
    assert by_place[0, "o_ref[0]"].cause == -1


def test_the_words_say_what_travels_and_who_waits():
    assert ring_data.said(FOUND, 0) == (
        "At 0.0 us, link 0 to 1 carries o_ref[0], link 1 to 2 carries o_ref[1], link 2 to 3 carries o_ref[2] and 1 "
        "more. All devices wait; device 0 waits for send_sem[0] of device 0."
    )
    assert ring_data.said(FOUND, 1).startswith(
        "At 9.1 us, no link carries anything. All devices wait; device 0 waits for"
    )
    assert ring_data.said(FOUND, len(FOUND.times) - 1) == "At 30.3 us, all devices are done."
    assert FOUND.title == "4 devices, 30.3 us, predicted (model): link 0 to 1 is busy for 90 % of it"


def test_two_ways_and_cores_have_lanes_of_their_own():
    found = ring_data.moves(both_ways())
    kinds = [ring_data.kind_of(lane, found.ring) for lane in found.lanes]
    assert kinds == sorted(kinds) and set(kinds) == {0, 1, 2} and kinds.count(2) == 4
    assert "link 1 to 3" in found.lanes and "link 1 to 2" not in found.lanes, "the ring has no such link"
    assert {bar.what for bar in found.bars if kinds[bar.lane] == 2} == {"acc_ref"}
    assert {"o_ref[0, 0:8]", "o_ref[0, 8:16]"} <= {bar.what for bar in found.bars}, "halves that differ are told apart"
    long_way = [bar for bar in found.bars if bar.cause >= 0 and found.bars[bar.cause].what == bar.what]
    assert long_way, "what travels two links has a bar on each, the second because of the first"


@pytest.mark.parametrize("name", PLAYERS)
def test_the_still_has_what_the_data_has(name):
    found = ring_data.moves(PLAYERS[name])
    number = ring_data.telling_moment(found)
    svg = ring_still.still(found, number)
    parsed(svg)
    written = words(svg)
    assert not overflowing(svg) and not words_on_words(svg)
    assert set(found.lanes) <= set(written) and set(ring_data.shares(found)) <= set(written)
    assert len(boxes(svg, ring_still.FILL[0])) == sum(
        ring_data.kind_of(found.lanes[b.lane], found.ring) == 0 for b in found.bars
    )
    widget = viz.ring_player(PLAYERS[name])
    data = widget._repr_mimebundle_()[0]
    assert data["image/svg+xml"] == svg and data["text/plain"].splitlines()[0] == found.title


def test_the_colours_of_the_still_are_those_of_the_page():
    css = (VIZ / "ring_player/ring_player.css").read_text()
    assert [
        re.search(rf"course-bar[^{{]*{{[^}}]*background: {fill}", css) is not None for fill in ring_still.FILL.values()
    ] == [True] * 3


@pytest.mark.parametrize(
    "given, says",
    [
        (3, "schedule is a int; it must be a schedule of several devices. Try judges.schedule_chips"),
        (
            schedule(gathering(1), "v5e"),
            "no link carries anything in this schedule. Try a function whose kernel copies",
        ),
        (both_ways(20), "has 856 copies and writes; 600 can be shown. Try fewer devices"),
    ],
)
def test_what_it_cannot_show_is_named(given, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        viz.ring_player(given)
