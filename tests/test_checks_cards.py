"""Verdicts, hints and the doctor in a notebook: cards with a line for each part, and text beside them."""

import re
from xml.etree import ElementTree

import pytest

from course_lib import checks, environment
from course_lib.checks import cards
from course_lib.checks.result import Result
from course_lib.viz.common import draw

REFUSED = Result(
    id="04.7",
    outcome="not yet",
    headline="the simulator refused it.",
    message="Block (1, 0) of o is <wrong>. The sum is gone. It was there.",
    next="put axis 0 last.",
    hint='(hint 1 of 3: checks.hint("04.7"))',
)


def lines(html) -> list[str]:
    """The text of each line of a card."""
    return ["".join(line.itertext()).replace("\u00a0", " ") for line in ElementTree.fromstring(html)]


@pytest.fixture
def shown(monkeypatch):
    """What a notebook shows, as (HTML, text)."""
    found = []
    monkeypatch.setattr(environment, "in_a_notebook", lambda: True)
    monkeypatch.setattr(
        "IPython.display.display", lambda data, raw: found.append((data["text/html"], data["text/plain"]))
    )
    return found


def test_outcome_place_cause_and_what_next_have_a_line_each():
    assert lines(cards.verdict(REFUSED)) == [
        "○ 04.7 not yet: the simulator refused it.",
        "Block (1, 0) of o is <wrong>.",
        "The sum is gone. It was there.",
        "Next: put axis 0 last.",
        '(hint 1 of 3: checks.hint("04.7"))',
    ]


def test_a_sentence_that_begins_with_a_number_is_one():
    found = cards.parts_of("The output at [0] is 0.5; it should be 1. 4,096 of 4,096 elements are wrong.")
    assert found == ["The output at [0] is 0.5; it should be 1.", "4,096 of 4,096 elements are wrong."]


def test_a_sign_and_a_colour_of_its_own_for_each_outcome():
    found = [cards.verdict(Result(id="01.1", outcome=outcome)) for outcome in cards.SIGNS]
    assert [lines(card)[0] for card in found] == ["✓ 01.1 passed.", "○ 01.1 not yet.", "… 01.1 not attempted."]
    assert len({re.search(r"solid (#\w+)", card)[1] for card in found}) == 3


def test_a_verdict_keeps_the_colours_of_a_dark_page():
    """It has the page's own; only white cards with pictures are inverted there, and text would vanish with them."""
    assert draw.CARD in draw.DARK and draw.CARD not in cards.card("✓", cards.GREEN, "01.1 passed.", ["words"])


def test_lines_of_code_keep_their_places():
    message = "Line 3 is one column short:\n    o_ref[:, :-1] = x\n    ^"
    assert cards.parts_of(message) == ["Line 3 is one column short:", "    o_ref[:, :-1] = x\n    ^"]
    assert "white-space: pre-wrap" in cards.verdict(Result(id="01.1", outcome="not yet", message=message))


def test_no_index_is_torn_apart_and_calls_are_code():
    html = cards.verdict(REFUSED)
    assert "Block (1,\u00a00) of o" in html
    assert [code.text for code in ElementTree.fromstring(html).iter("code")] == ['checks.hint("04.7")']


def test_a_hint_is_a_card_with_its_text_beside_it(shown):
    with checks.rehearsal():
        checks.hint("01.1")
    ((html, plain),) = shown
    first, words = lines(html)
    assert first == "? 01.1, hint 1 of 3" and plain.replace("\n", " ") == f"01.1, hint 1 of 3: {words}"


def test_the_doctor_is_a_table_with_a_mark_for_each_judge(shown):
    checks.doctor()
    ((html, plain),) = shown
    rows = [["".join(cell.itertext()) for cell in row] for row in ElementTree.fromstring(html).iter("tr")]
    assert ["✓", "numbers", "works: compares with plain JAX"] in rows
    assert [f"{name:<10} {words}" for _, name, words in rows] == plain.splitlines()[:-1]


def test_a_grader_reads_what_is_printed(shown, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_GRADING", "1")
    cards.shown("<div>card</div>", "text")
    assert not shown and capsys.readouterr().out == "text\n"
