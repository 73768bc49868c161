"""The page player: its steps beside a count by hand and what must always hold, its words, its still, what it refuses.

In a browser: tests/browser/test_page_player.py and tests/browser/test_every_widget.py.
"""

import itertools
import random
import re

import pytest
from shapes import words_on_words
from test_layers_viz import VIZ
from viz_samples import PAGED, boxes, overflowing, parsed, words

from course_lib import viz
from course_lib.viz.page_player import page_still
from course_lib.viz.page_player.page_steps import (
    ENDED,
    LATER,
    RUNNING,
    STALLED,
    WAITING,
    Pool,
    Request,
    Row,
    figures,
    filled,
    is_over,
    is_stuck,
    pages_of,
    said,
    simulate,
    telling_step,
)

SMALL = [Request(0, 5, 3), Request(1, 4, 6), Request(2, 6, 2)]  # in a pool of 4 pages of 4 tokens
ALL_STUCK = [Request(0, 4, 4), Request(0, 4, 4)]  # in a pool of 2


def test_a_small_pool_by_hand():
    steps = simulate(SMALL, 4, 4)
    a, b, c = (list(column) for column in zip(*steps, strict=True))
    one, two = (0, 1), (2, 3)
    assert a == [
        *(Row(RUNNING, length, one) for length in (5, 6, 7, 8)),
        *[Row(ENDED, 8, ())] * 6,
    ]
    assert b == [
        Row(LATER, 0, ()),
        Row(RUNNING, 4, (2,)),
        *(Row(RUNNING, length, two) for length in (5, 6, 7, 8)),
        Row(STALLED, 8, two),  # C ends in this step, so its pages are free in the next
        *(Row(RUNNING, length, (*two, 0)) for length in (9, 10)),
        Row(ENDED, 10, ()),
    ]
    assert c == [
        *[Row(LATER, 0, ())] * 2,
        *[Row(WAITING, 0, ())] * 2,
        *(Row(RUNNING, length, one) for length in (6, 7, 8)),
        *[Row(ENDED, 8, ())] * 3,
    ]


def cases() -> list[tuple[list[Request], int, int]]:
    """Pools of many sizes, with requests that fit alone and often not together."""
    random.seed(0)
    found = [(SMALL, 4, 4), (ALL_STUCK, 2, 4)]
    for _ in range(200):
        room, page = random.randint(2, 20), random.choice((1, 2, 5, 16))
        requests = []
        for _ in range(random.randint(1, 8)):
            whole = random.randint(2, room * page)
            prompt = random.randint(1, whole - 1)
            requests.append(Request(random.randint(0, 12), prompt, whole - prompt))
        found.append((sorted(requests, key=lambda request: request.arrival), room, page))
    return found


@pytest.mark.parametrize("given", cases(), ids=range(len(cases())))
def test_what_holds_in_every_step(given):
    requests, room, page = given
    steps = simulate(requests, room, page)
    for number, step in enumerate(steps):
        taken = [number for row in step for number in row.pages]
        free = room - len(taken)
        assert len(set(taken)) == len(taken) and set(taken) <= set(range(room)), "no page has two owners"
        for row, request in zip(step, requests, strict=True):
            assert len(row.pages) == (0 if row.state in (LATER, WAITING, ENDED) else pages_of(row.length, page))
            assert row.length == (0 if row.state in (LATER, WAITING) else row.length) <= request.longest
            assert (row.state == LATER) == (request.arrival > number)
            assert row.state != STALLED or (free == 0 and row.length == page * len(row.pages))
        waiting = [n for n, row in enumerate(step) if row.state == WAITING]
        assert not waiting or pages_of(requests[waiting[0]].prompt, page) > free
        begun = [n for n, row in enumerate(step) if row.state not in (LATER, WAITING)]
        assert begun == list(range(len(begun))), "nobody overtakes"
        assert is_over(step) == (number == len(steps) - 1)
    for before, now in itertools.pairwise(steps):
        for request, old, new in zip(requests, before, now, strict=True):
            if old.pages and new.pages:
                assert new.length == old.length + (new.state == RUNNING)
                assert new.pages[: len(old.pages)] == old.pages
            assert (old.length == request.longest) == (new.state == ENDED)
    assert is_stuck(steps[-1]) or all(row.length == each.longest for row, each in zip(steps[-1], requests, strict=True))


@pytest.mark.parametrize("given", cases()[:40], ids=range(40))
def test_figures_are_a_count_of_the_cells(given):
    requests, room, page = given
    longest = max(request.longest for request in requests)
    pool = Pool(room, page, longest)
    for step in simulate(requests, room, page):
        cells, told = filled(step, pool), figures(step, pool)
        used = sum(tokens for _, tokens in cells.values())
        assert (told.used, told.lost) == (used, len(cells) * page - used)
        assert told.used + told.lost + told.free == room * page
        assert all(1 <= tokens <= page for _, tokens in cells.values())
        assert told.fit * longest <= room * page
        assert told.fit == told.running or (told.fit + 1) * longest > room * page
        assert told.reserved_used + told.reserved_lost == told.fit * longest


def test_the_words_of_a_step():
    pool = Pool(4, 4, 10)
    steps = simulate(SMALL, 4, 4)
    told = [said(steps, number, SMALL, pool) for number in range(len(steps))]
    assert told[1:5] == [
        "Step 1. A writes a token. B takes page 2 for the 4 tokens of its prompt.",
        "Step 2. A and B write a token each. B takes page 3, because its last one is full. C waits, because its prompt "
        "needs 2 pages and none are free.",
        "Step 3. A and B write a token each. C waits, because its prompt needs 2 pages and none are free.",
        "Step 4. A has ended and frees 2 pages. B writes a token. C takes pages 0 and 1 for the 6 tokens of its "
        "prompt.",
    ]
    assert told[6] == "Step 6. C writes a token. B needs a page for its next token, and none is free."
    assert told[9] == "Step 9. B has ended and frees 3 pages. All pages are free again."
    stuck = simulate(ALL_STUCK, 2, 4)
    assert said(stuck, 1, ALL_STUCK, Pool(2, 4, 8)) == (
        "Step 1. A and B need a page each for the next token, and none is free. So no sequence can go on. A server "
        "would now take the pages of one sequence and recompute it later."
    )
    apart = [Request(0, 1, 1), Request(9, 1, 1)]
    assert said(simulate(apart, 1, 4), 5, apart, Pool(1, 4, 2)) == (
        "Step 5. Nothing happens until the next request arrives."
    )
    queue = [Request(0, 4, 2), Request(0, 9, 1), Request(0, 1, 1)]
    assert said(simulate(queue, 3, 4), 0, queue, Pool(3, 4, 10)).endswith("C waits behind B.")


def test_pages_and_reserved_pieces_in_words():
    frames = viz.page_player(**PAGED).frames
    assert (
        frames[14]["used"] == "In pages of 16 tokens: 6 sequences, 315 tokens in use, 53 lost in last pages, 16 free."
    )
    assert frames[14]["reserved"] == (
        "With 128 tokens reserved for each: room for 3 sequences, so 3 of these 6 do not fit; 169 tokens in use, 215 "
        "reserved and empty."
    )
    assert frames[-1]["reserved"] == "With 128 tokens reserved for each: room for 3 sequences."
    none = viz.page_player([(0, 8, 2)], room=2, page=8, reserve=100).frames
    assert none[0]["reserved"] == (
        "With 100 tokens reserved for each: room for no sequences, so 1 of these 1 does not fit; no tokens in use, 0 "
        "reserved and empty."
    )


def test_requests_are_named_in_order_of_arrival():
    widget = viz.page_player([(3, 4, 1), [0, 2, 1]], room=2, page=4)
    assert (widget.names, widget.requests) == (["A", "B"], [(0, 2, 1), (3, 4, 1)])
    assert (widget.reserve, widget.step) == (5, 0), "what the longest request gets"


PLAYERS = {
    "lesson": viz.page_player(**PAGED),
    "small": viz.page_player(SMALL, room=4, page=4),
    "stuck": viz.page_player(ALL_STUCK, room=2, page=4),
    "one page": viz.page_player([(0, 1, 1)], room=1, page=2),
    "large": viz.page_player([(n, 20, 4) for n in range(8)], room=64, page=3),
    "all pages of one": viz.page_player([(0, 60, 4)], room=64, page=1),
    "none fits": viz.page_player([(0, 8, 2)], room=2, page=8, reserve=1_000_000),
}


@pytest.mark.parametrize("name", PLAYERS)
def test_every_still_is_legible_and_shows_the_pages(name):
    widget = PLAYERS[name]
    svg, told = widget._still()
    assert parsed(svg) is not None and overflowing(svg) == [] == words_on_words(svg) and len(svg) < 45_000
    assert [line for line in words(svg) if line.endswith("…")] == []
    step = widget.steps[telling_step(widget.steps, widget.pool)]
    for n, row in enumerate(step):
        pages = len(boxes(svg, page_still.FILL[n]))
        in_bars = bool(row.pages) + (sum(bool(each.pages) for each in step[: n + 1]) <= figures(step, widget.pool).fit)
        assert pages == len(row.pages) + 1 + (in_bars if row.pages else 0), "pages, the table, and the bars"
        assert not row.pages or ", ".join(map(str, row.pages)) in " ".join(told.split())


def test_the_still_shows_the_fullest_step_or_the_one_that_is_set():
    widget = viz.page_player(**PAGED)
    svg, told = widget._still()
    assert "Pages of the KV cache, step 14 of 66" in words(svg) and told.startswith("Pages of the KV cache, step 14")
    assert "room for 3 sequences, so 3 of these 6 do not fit" in " ".join(told.split())
    widget.step = 18
    assert "step 18 of 66" in widget._still()[1] and "D takes page 8" in widget._still()[1]
    widget.step = 999
    assert "step 66 of 66" in widget._still()[1]


def test_the_browser_paints_as_the_still_does():
    style = (VIZ / "page_player/page_player.css").read_text()
    assert tuple(re.findall(r"\.course-of-\d \{ --fill: (#\w+);", style)) == page_still.FILL


TWO = [(0, 5, 3), (1, 4, 6)]
NO_PLAYER = [
    (([],), r"requests=\[\] is not a list of requests. It may have 1 to 8 of \(step in which it arrives"),
    (([(0, 1, 1)] * 9,), "is not a list of requests"),
    ((7,), "requests=7 is not a list of requests"),
    (("abc",), "requests='abc' is not a list"),
    (([(0, 1)],), r"requests\[0\] is \(0, 1\), but must be three integers: the step in which it arrives, 0 or more"),
    (([(0, 1, 1), (-1, 1, 1)],), r"requests\[1\] is \(-1, 1, 1\)"),
    (([(0, 0, 1)],), r"requests\[0\] is \(0, 0, 1\)"),
    (([(0, 1, 0)],), r"requests\[0\] is \(0, 1, 0\)"),
    (([(0, 1.0, 1)],), r"requests\[0\] is \(0, 1.0, 1\)"),
    (([(0, True, 1)],), r"requests\[0\] is \(0, True, 1\)"),
    ((["abc"],), r"requests\[0\] is 'abc'"),
    (
        ([(0, 60, 5)], 4),
        r"requests\[0\] is \(0, 60, 5\), which is 65 tokens at its end and needs 5 pages of 16",
    ),
    (
        ([(0, 5, 1), (490, 1, 20)],),
        r"requests\[1\] is \(490, 1, 20\), which ends after more than 500 steps",
    ),
    (([(0, 1, 250), (0, 1, 250), (0, 1, 250)], 1, 251), "takes 753 steps. It may take 500 steps at most"),
    ((TWO, 0), "room=0 is not a number of pages. It may be an integer from 1 to 64. Try room=24"),
    ((TWO, 65), "room=65 is not a number"),
    ((TWO, 4.0), "room=4.0 is not a number"),
    ((TWO, True), "room=True is not a number"),
    ((TWO, 4, 0), "page=0 is not a number of tokens. It may be an integer from 1 to 256. Try page=16"),
    ((TWO, 4, "16"), "page='16' is not a number"),
    (
        (TWO, 4, 4, 9),
        "reserve=9 is not a number of tokens to reserve. It may be an integer from 10, which the longest",
    ),
    ((TWO, 4, 4, 10**7), "reserve=10000000 is not a number"),
    ((TWO, 4, 4, 12.0), r"reserve=12.0 is not a number .* Try reserve=10, or leave it out"),
]


@pytest.mark.parametrize("given, says", NO_PLAYER, ids=range(len(NO_PLAYER)))
def test_what_is_no_pool_is_refused(given, says):
    with pytest.raises(ValueError, match=f"page_player: .*{says}"):
        viz.page_player(*given)
