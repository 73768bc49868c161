"""The kinds of exercises that ask: predict, choose, find, explain. Right answers, wrong ones, and no answer."""

import jax.numpy as jnp
import numpy as np
import pytest

from course_lib import checks
from course_lib.checks import checking, quantity, record
from course_lib.checks.exercise import Exercise, exercise
from course_lib.checks.kinds import choose, find, predict
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.explain import Explain
from course_lib.checks.kinds.find import Find
from course_lib.checks.kinds.predict import Predict

HINTS = ("one", "two", "three")


@pytest.fixture(autouse=True)
def a_fresh_learner(monkeypatch):
    monkeypatch.setattr(record, "_memory", {})
    monkeypatch.setattr(checking, "_last", {})


def predicting(**fields):
    fields = {"value": 100.0, "unit": "us", "why": "so it is.", "proof": lambda: 100.0} | fields
    return Exercise(id="99.1", title="t", kind="predict", defines="t", hints=HINTS, points=1, asks=Predict(**fields))


def said_of(task, answer):
    return predict.result(task, answer)


# predict


@pytest.mark.parametrize("answer", ["73,728 bytes", "72 KiB", "72 kibibytes", "73.728 kB", "589824 bits", (72, "KiB")])
def test_the_right_number_in_any_unit_passes(answer, capsys):
    assert checks.check("01.6", answer).passed
    assert capsys.readouterr().out.count("\n") == 1


@pytest.mark.parametrize("id", ["01.6", "01.7", "01.8", "01.9"])
@pytest.mark.parametrize("answer", [None, "", " \n"])
def test_no_answer_is_not_attempted(id, answer, capsys):
    assert checks.check(id, answer).outcome == "not attempted"
    out = capsys.readouterr().out
    assert out.startswith(f"{id} not attempted.\nNext: write {exercise(id).defines} = ") and "checks.hint" in out
    assert record.entry(id).attempts == 0


@pytest.mark.parametrize(
    "answer, headline, message",
    [
        (73728, "the unit is missing.", "73,728 of what? The question asks for an amount of memory (bytes)."),
        ("73728", "the unit is missing.", "of what?"),
        ("72 KB", "it is not 72 KB.", "KB is not KiB"),
        ("72 kb", "it is not 72 kb.", "A lowercase b is a bit; KiB is bytes"),
        ("589,824 bytes", "it is not 589,824 bytes.", "8 times too large: a byte has 8 bits"),
        ("9216 B", "it is not 9,216 B.", "8 times too small"),
        ("72 MiB", "it is not 72 MiB.", "far too large: the prefix is a step off"),
        ("72 GiB", "it is not 72 GiB.", "the prefix is 2 steps off"),
        ("72 bytes", "it is not 72 bytes.", "far too small: the prefix is a step off"),
        ("73.728 GB", "it is not 73.728 GB.", "far too large: the prefix is 2 steps off"),
        ("48 KiB", "it is not 48 KiB.", "The sum has to come out"),
        ("24576 bytes", "it is not 24,576 bytes.", "That counts one vector"),
        ("144 KiB", "it is not 144 KiB.", "twice what it should be"),
        ("72,000 bytes", "it is not 72,000 bytes.", "Close, but a little too small"),
        ("60 KiB", "it is not 60 KiB.", "too small, by less than twice"),
        ("1 B", "it is not 1 B.", "by ten times or more"),
        ("-72 KiB", "it is not -72 KiB.", "-72 KiB is negative; the answer is positive."),
        ("0 KiB", "it is not 0 KiB.", "0 KiB is zero; the answer is positive."),
        ("1e-400 KiB", "it is not 0 KiB.", "is zero"),
        ("1e-320 B", "it is not 9.99989e-321 B.", "by ten times or more"),
        ("1e307 TB", "it is not 1e+307 TB.", "by ten times or more"),
        ("1e500 bytes", "that cannot be read.", "is larger than any number here can be"),
        ("72 kilobytes", "it is not 72 kB.", "kB is not KiB"),
        ("72 kbit", "it is not 72 kbit.", "A lowercase b is a bit"),
        ("72 K", "that cannot be read.", "'K' is a prefix"),
        (
            "12 us",
            "that is another kind of number.",
            "12 us is a time (seconds); the question asks for an amount of memory",
        ),
        ("72 KiB/s", "that is another kind of number.", "a bandwidth"),
        ("much", "that cannot be read.", "'much' cannot be read"),
    ],
)
def test_a_wrong_number_is_read_closely(answer, headline, message):
    said = checks.check("01.6", answer)
    assert (said.outcome, said.judge, said.headline) == ("not yet", "exercise", headline)
    assert message in said.message and said.next


@pytest.mark.parametrize("id", ["01.6", "01.7", "01.8", "01.9"])
def test_an_array_is_no_answer(id):
    assert checks.check(id, np.arange(2)).outcome == "not yet"


def test_units_of_memory_alone_are_offered_for_memory():
    said = checks.check("01.6", "48 K")
    assert "KiB" in said.next and not {"GHz", "FLOP/B", "%"} & set(said.next.replace(",", "").split())


def test_a_number_that_may_be_negative_may_be_given_as_one():
    task = predicting(value=-2.0, unit="")
    assert said_of(task, "-2").passed and "less than nothing" not in said_of(task, "-3").message


def test_tolerance():
    task = predicting(tolerance=0.1)
    assert said_of(task, "109 us").passed and said_of(task, "0.091 ms").passed
    assert said_of(task, "111 us").outcome == "not yet"
    assert "can be counted" not in said_of(task, "111 us").message


def test_a_rounded_answer_is_close():
    said = said_of(predicting(tolerance=0.01), "98 us")
    assert said.message == "Close, but a little too small: it should be right within 1 %." and "digit" in said.next
    assert "Close" not in said_of(predicting(tolerance=0.01), "94 us").message


def test_a_count_that_is_close_may_be_rounded_or_miscounted():
    said = said_of(predicting(tolerance=0.0), "99 us")
    assert "can be counted" in said.message and said.next.startswith("did you round? If not")


def test_a_prefix_slip_is_seen_where_the_digits_would_pass():
    task = predicting(tolerance=0.25)
    assert "The digits are right" in said_of(task, "90 ms").message
    assert "The digits are right" not in said_of(task, "60 ms").message


def test_a_slip_that_is_known_says_which_way_the_number_goes():
    task = predicting(near={50.0: "Twice.", 210.0: "Half."})
    assert said_of(task, "50 us").next == "fix that one thing: the number gets larger."
    assert said_of(task, "210 us").next == "fix that one thing: the number gets smaller."


def test_two_slips_are_both_to_be_mended():
    task = predicting(near={50.0: "Two slips: this, and that."})
    assert said_of(task, "50 us").next == "fix both: the number gets larger."


def test_of_two_known_slips_the_nearer_is_named():
    task = predicting(tolerance=0.2, near={50.0: "Half.", 60.0: "Less."})
    assert [said_of(task, f"{n} us").message for n in (52, 58)] == ["Half.", "Less."]


def test_a_multiply_add_is_two_operations():
    task = predicting(value=2.0, unit="GFLOP", proof=lambda: 2.0)
    assert "half what it should be: a multiply-add is two operations" in said_of(task, "1 GFLOP").message
    assert "twice what it should be: a multiply-add" in said_of(task, "4 GFLOP").message


def test_what_goes_in_and_what_comes_out():
    assert "half of what it should be: count what goes in and what comes out" in said_of(predicting(), "50 us").message


def test_a_plain_number_needs_no_unit():
    task = predicting(value=3, unit="")
    assert said_of(task, 3).passed and said_of(task, "3").passed
    assert said_of(task, "3 us").headline == "that is another kind of number."
    assert {said_of(task, answer).next for answer in ("3 us", "3 rows", [3], "3 users")} == {quantity.ALONE}
    assert said_of(task, None).next.startswith("write t = 7, with your number")


def test_declared_slips_come_before_all_others():
    task = predicting(near={200.0: "You counted both ways."})
    assert said_of(task, "0.2 ms").message == "You counted both ways."


@pytest.mark.parametrize(
    "fields, says",
    [
        ({"unit": "parsecs"}, "'parsecs' is not a unit"),
        ({"value": 0}, "a value other than 0"),
        ({"tolerance": 0.5}, "right within less than half"),
        ({"near": {100.0: "no"}}, "near has a sentence for 100.0, which is right"),
        ({"near": {104.0: "no"}, "tolerance": 0.05}, "which is right within the tolerance"),
    ],
)
def test_a_bad_prediction_is_refused(fields, says):
    with pytest.raises(ValueError, match=says):
        predicting(**fields)


# choose


@pytest.mark.parametrize("answer", ["none", " None ", "NONE"])
def test_the_right_choice_passes(answer, capsys):
    assert checks.check("01.8", answer).passed
    assert capsys.readouterr().out == "01.8 passed: the output's index never changes, so its block stays in VMEM.\n"


@pytest.mark.parametrize(
    "answer, headline, next",
    [
        ("simulater", "that is not one of the options.", 'did you mean "simulator"? Choose one of "numbers"'),
        ("the simulator", "that is not one of the options.", 'did you mean "simulator"? Choose one of'),
        ("Numbers or simulator", "that is more than one option.", 'choose one of "numbers"'),
        ("nobody at all", "that is not one of the options.", 'choose one of "numbers"'),
    ],
)
def test_what_may_be_meant(answer, headline, next):
    said = checks.check("01.8", answer)
    assert said.headline == headline and said.next.startswith(next)


def test_another_number_is_not_what_was_meant():
    options = ("line 75", "line 112")
    lines = choose.Choose(options=options, right="line 75", wrong={"line 112": "No."}, why="so.", proof=str)
    hints = ("a", "b", "c")
    task = Exercise(id="99.1", title="Lines", kind="choose", defines="found", asks=lines, hints=hints, points=1)
    said = choose.result(task, "line 79")
    assert said.next == 'choose one of "line 75", "line 112".'
    assert choose.result(task, 75).passed and choose.result(task, " Line   75").passed
    assert choose.result(task, "112").headline == '"line 112" is not right.'


@pytest.mark.parametrize("answer", ["simulater", 3, ["none"], "all", checks])
def test_what_is_no_option_is_said_with_all_of_them(answer):
    said = checks.check("01.8", answer)
    assert said.headline == "that is not one of the options."
    assert 'hoose one of "numbers", "simulator", "races", "compiler", "none".' in said.next


@pytest.mark.parametrize(
    "fields, says",
    [
        ({"options": ("a",)}, "needs two or more"),
        ({"options": ("a", "a")}, "all different"),
        ({"right": "c"}, "right 'c' is none of the options"),
        ({"wrong": {}}, r"it should have one for each of \['b'\]"),
        ({"wrong": {"a": "x", "b": "y"}}, "it should have one for each"),
    ],
)
def test_a_bad_choice_is_refused(fields, says):
    good = {"options": ("a", "b"), "right": "a", "wrong": {"b": "no."}, "why": "so.", "proof": lambda: "a"}
    Choose(**good)
    with pytest.raises(ValueError, match=says):
        Choose(**good | fields)


# find


@pytest.mark.parametrize(
    "answer",
    [
        *(8, 8.0, np.int64(8), np.float32(8), jnp.int32(8), "8", " 8 ", "8.", "line 8", "Line 8:"),
        "o_block = pl.BlockSpec((1024,), lambda i: (0,))",
        "o_block=pl.BlockSpec((1024,),lambda i:(0,))",
        "  8      o_block = pl.BlockSpec((1024,), lambda i: (0,))",  # as checks.listing prints it
        "o_block = pl.BlockSpec((1024,), lambda i: (i,))",  # as it should be
        "o_block = pl.BlockSpec(",  # a part that no other line has
    ],
)
def test_the_line_by_number_or_text(answer):
    assert checks.check("01.7", answer).passed


@pytest.mark.parametrize(
    "answer, says",
    [
        (0, "give a number from 1 to 15"),
        (-8, "give a number from 1 to 15"),
        (99, "give a number from 1 to 15"),
        (8.5, "copy the text of one line"),
        (float("inf"), "copy the text"),
        ("\u00b2", "copy the text"),  # a digit to str.isdigit, and none to int
        ("9" * 5000, "copy the text"),
        (np.arange(2), "copy the text"),
        (True, "copy the text"),
        ("o_block", "copy the text of one line"),
        ("pl.BlockSpec((", "give the number of the one you mean"),  # in more than one line
        ([8], "copy the text"),
    ],
)
def test_what_is_no_line(answer, says):
    said = checks.check("01.7", answer)
    assert said.headline == "that is not a line of the listing." and says in said.next


def test_two_lines_with_one_text_must_be_told_apart_by_number():
    asks = Find(line=1, fixed="x = 3", why="so.", near={}, function="f", refused_by="numbers")
    task = Exercise(
        **{"id": "99.1", "title": "t", "kind": "find", "defines": "line", "hints": HINTS, "points": 1},
        **{"listing": "x = 1\nx = 1\n", "asks": asks, "cases": list, "reference": print},
    )
    said = find.result(task, "x = 1")
    assert "Lines 1, 2 read 'x = 1'." in said.message and "the one you mean" in said.next


@pytest.mark.parametrize(
    "fields, says",
    [
        ({"line": 7}, "line 7 is not a line of its listing"),
        ({"near": {2: "no"}}, "line 2 is not a line of its listing, or an empty one"),
        ({"near": {1: "no"}}, "line 1, which is the right answer"),
        ({"fixed": "x =  1"}, "line 1 is already what fixed says"),
    ],
)
def test_a_question_that_does_not_fit_its_listing_is_refused(fields, says):
    good = {"line": 1, "fixed": "x = 2", "why": "so.", "near": {}, "function": "f", "refused_by": "numbers"}
    assert find.problem(Find(**good), "x = 1\n\n") == ""
    assert says in find.problem(Find(**good | fields), "x = 1\n\n")


def test_a_listing_has_line_numbers(capsys):
    checks.listing("01.7")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "  1  def bias_kernel(x_ref, b_ref, o_ref):" and lines[7].startswith("  8      o_block")
    checks.listing("01.1")
    assert capsys.readouterr().out == "01.1 has no listing: what it asks about is in the notebook.\n"


# explain

WORDS = "The plain interpreter computes the numbers, and the compiler never looks at one of them."


def test_an_explanation_passes_by_the_learners_own_judgment_only(capsys):
    said = checks.check("01.9", WORDS)
    assert said.outcome == "not yet" and said.headline == "compare it with ours: you are the judge."
    out = capsys.readouterr().out
    assert "Ours: Each judge looks at" in out and out.count("\n  - ") == 3
    assert 'compare, then call checks.assess("01.9", "yes"), "partly" or "no".' in out
    checks.assess("01.9", "partly")
    assert capsys.readouterr().out == '01.9: recorded as "partly". Run its check again.\n'
    assert checks.check("01.9", WORDS).headline == 'you said "partly".'
    checks.assess("01.9", " Yes")
    capsys.readouterr()
    assert checks.check("01.9", WORDS).passed
    assert capsys.readouterr().out == "01.9 passed: by your own judgment.\n"


def test_an_assessment_alone_is_no_answer():
    checks.assess("01.9", "yes")
    assert checks.check("01.9", None).outcome == "not attempted"
    assert checks.check("01.9", "They differ.").headline == "say a little more."


@pytest.mark.parametrize(
    "answer, headline, says",
    [
        ("They differ.", "say a little more.", "That is 2 different words; at least 12 are needed."),
        ("because " * 40, "say a little more.", "That is 1 different word; at least 12 are needed."),
        ("1 2 3 4 5 6 7 8 9 10 11 12 13", "say a little more.", "That is 0 different words"),
        (7, "it is not text.", "why is 7."),
        (["a"] * 20, "it is not text.", "why is ['a', 'a'"),
    ],
)
def test_what_is_no_explanation(answer, headline, says):
    said = checks.check("01.9", answer)
    assert said.headline == headline and says in said.message
    assert "Ours" not in str(said), "our answer is shown once there is one to compare with"


@pytest.mark.parametrize("word", ["maybe", "", None, 1])
def test_another_assessment_gets_a_sentence_and_no_pass(word, capsys):
    checks.assess("01.9", word)
    said = " ".join(capsys.readouterr().out.split())
    assert 'is not one of the three answers: say "yes", "partly" or "no".' in said
    assert checks.check("01.9", WORDS).headline == "compare it with ours: you are the judge."


def test_only_explanations_are_assessed():
    with pytest.raises(ValueError, match="01.1 is judged by check; you judge only: 01.9"):
        checks.assess("01.1", "yes")


@pytest.mark.parametrize("fields, says", [({"words": 2}, "it may be 3 to 60"), ({"look_for": "a tuple"}, "a tuple of")])
def test_a_bad_explanation_is_refused(fields, says):
    with pytest.raises(ValueError, match=says):
        Explain(**{"model": "m", "look_for": ("x",)} | fields)
