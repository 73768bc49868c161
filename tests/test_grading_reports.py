"""The reports: weights, what is said of a class, and pages in which a student's text stays text."""

import csv
import dataclasses
import html.parser
import itertools
import json
import re
import xml.etree.ElementTree as ET

import pytest

from course_lib.grading import folder, rows, summary, weights
from course_lib.grading.class_page import class_page
from course_lib.grading.feedback import feedback
from course_lib.grading.grade import Grade
from course_lib.grading.grade_files import as_json, as_junit, table, write
from course_lib.grading.rows import Row, clean

IDS = ["01.1", "01.2", "01.10"]
HOSTILE = [
    "<script>document.title = 'harmed'</script>",
    '"><img src=x onerror="document.title = \'harmed\'">',
    "' autofocus onfocus='alert(1)",
    "</title></style></pre></td><svg onload=alert(1)>",
    "<!-- --!> <![CDATA[ ]]> ]]> &lt;script&gt;",
    "<a href='javascript:alert(1)'>x</a> <meta http-equiv=refresh content='0;url=//x'> <base href=//x>",
    "\x1b[31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x1b\\ \x9b2J \x00\x01\x07\x08\x7f\x85 \ud800\ufffe",
    "\u202etxt.exe \u2066\u200f\u200b\u2028",
    "x" * 1_000_000,
]


def row(id="01.1", outcome="not yet", **fields):
    points = {"points": 1 if outcome == "passed" else 0, "max_points": 1}
    return Row(**{"id": id, "title": "Add", "kind": "write", "outcome": outcome} | points | fields)


def hostile(text):
    """A grade in which every text that can come from a student is ``text``; grade() has cleaned the name."""
    said = f"01.1 not yet: {text}\n{text}\nNext: {text}"
    bad = row(title=text, message=text, verdict=said, next=text, note=text, judge=text)
    return Grade(file=f"{clean(text)}.ipynb", lesson="01", rows=(bad, row("01.2", "error", message=text)))


class Page(html.parser.HTMLParser):
    """What a browser would make of a page: its elements, their attributes, the text by element."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.attributes, self.text = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append(tag)
        self.attributes += [(tag, *attribute) for attribute in attributes]

    def handle_data(self, data):
        self.text.append(data)

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")

    unknown_decl = handle_pi = handle_comment


ALLOWED = set("html head meta title style body h1 h2 p strong table thead tbody tr th td span section pre a".split())


def assert_harmless(text):
    page = Page(text)
    assert set(page.elements) <= ALLOWED
    for tag, name, value in page.attributes:
        assert not name.startswith("on") and name not in ("src", "srcset", "style", "action", "formaction")
        if name == "href":
            assert tag == "a" and re.fullmatch(r"\./[\w./~%-]+\.html", value)
    policies = [value for tag, name, value in page.attributes if name == "content" and "default-src" in value]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]
    assert page.elements.count("meta") == 3
    assert all(c.isprintable() or c == "\n" for c in text)
    assert len(text) < 100_000


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:30])
def test_a_students_text_stays_text(text):
    grade = hostile(text)
    for page in (feedback(grade), class_page([grade]), feedback(Grade(file="a.ipynb", error=text))):
        assert_harmless(page)
    assert clean(text)[:100] in "".join(Page(feedback(grade)).text)


def test_the_harmless_page_is_recognised_by_a_harmful_one():
    with pytest.raises(AssertionError):
        assert_harmless(feedback(hostile("x")).replace("<h1>", "<h1 onclick=f()>"))
    with pytest.raises(AssertionError):
        assert_harmless(feedback(hostile("x")).replace("<h1>", "<script>f()</script><h1>"))


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:30])
def test_the_other_reports_survive_it_too(text):
    said = clean(text)
    grade = Grade(file="a.ipynb", lesson="01", rows=(row(title=said, message=said, verdict=said),))
    assert ET.fromstring(as_junit(grade).encode()).find(".//failure").get("message").startswith("not yet: ")
    assert json.loads(as_json(grade))["exercises"][0]["message"] == said
    for printed in (table(grade), summary.text([grade])):
        assert all(c.isprintable() or c == "\n" for c in printed)


def test_clean_takes_out_what_a_terminal_would_obey():
    assert clean("\x1b[2Jred\x00\ud800\ufffe <b>") == "red <b>"
    assert clean("\x1b]8;;http://x\x07link\x1b]8;;\x1b\\,\tb") == "link,   b"
    assert clean("naïve Ω 漢字 🙂\nnext") == "naïve Ω 漢字 🙂\nnext"
    assert clean("\x1b" * 1000) == "" and len(clean("x" * 10**7)) == 300


def test_a_page_says_all_of_it():
    said = "01.2 not yet: the simulator refused it.\nOutput block (1, 0) is NaN.\n  [ ] [x]\nNext: set it to zero."
    grade = Grade(
        file="alice/work.ipynb",
        lesson="01_hello_kernel",
        rows=(
            row("01.1", "passed", verdict="01.1 passed: all agree.", message="all agree."),
            row("01.2", weight=2.5, judge="simulator", note="odd", **parsed(said)),
            row("01.3", "not attempted", message="the answer cell is as it was handed out.", next="begin."),
            row("01.4", "error", message="it ran for more than 20 s and was stopped."),
        ),
    )
    text = feedback(grade)
    for words in (
        "alice/work.ipynb", "1 of 4 points, 18.2% weighted", "1 passed, 1 not yet, 1 not attempted, 1 error.",
        "01.2 not yet: the simulator refused it.\nOutput block (1, 0) is NaN.\n  [ ] [x]", "set it to zero.",
        "weight 2.5", "Note: odd.", "The answer cell is as it was handed out.", "It ran for more than 20 s",
    ):  # fmt: skip
        assert words in "".join(Page(text).text), words
    for outcome, sign in (("passed", "✓"), ("not yet", "✗"), ("not attempted", "○"), ("error", "!")):
        assert f"{sign} {outcome}</span>" in text  # in a word and a sign, not by colour alone
    assert_harmless(text)


def parsed(said):
    found = rows.parse(said)
    return {name: found[name] for name in ("message", "verdict", "next")}


def test_parse_a_refusal():
    said = rows.parse(
        "07.2 not yet: the simulator refused it.\nOutput block (1, 0) is NaN. At step (1, 0, 0) your\n"
        "kernel added.\nNext: set it to zero."
    )
    assert said["outcome"] == "not yet" and said["judge"] == "simulator"
    assert said["message"] == "the simulator refused it. Output block (1, 0) is NaN."
    assert said["next"] == "set it to zero."


@pytest.mark.parametrize(
    "judge, headline",
    [
        ("numbers", "the numbers judge refused it."),
        ("compiler", "the compiler could not run it."),
        ("budget", "the budget judge refused it."),
        ("device", "the device judge refused it."),
        ("exercise", "it is not 48 kB."),
        ("exercise", "the wizard refused it."),
    ],
)
def test_who_refused(judge, headline):
    assert rows.parse(f"01.6 not yet: {headline}\nBecause.")["judge"] == judge


# Weights


@pytest.mark.parametrize(
    "text, found",
    [
        ("", {}),
        ("01.1,2\n01.10,0.5\n", {"01.1": 2, "01.10": 0.5}),
        ("\ufeffid,weight\r\n\r\n 01.2 , 0 \r\n", {"01.2": 0}),
        ('"01.1","1e2"\n,\n', {"01.1": 100}),
    ],
)
def test_weights(tmp_path, text, found):
    (tmp_path / "w.csv").write_bytes(text.encode())
    assert weights.read(tmp_path / "w.csv", IDS) == found


@pytest.mark.parametrize(
    "text, says",
    [
        (b"01.1,2\n01.7,1\n", "w.csv, line 2: there is no exercise '01.7'; there are 01.1, 01.2, 01.10."),
        (b"1.1,2\n", "A spreadsheet took its zeros"),
        (b"01.1,two\n", "w.csv, line 1: the weight is 'two'; it may be a number from 0 to 1,000,000"),
        (b"01.1,-1\n", "the weight is '-1'"),
        (b"01.1,nan\n", "the weight is 'nan'"),
        (b"01.1,inf\n", "the weight is 'inf'"),
        (b"01.1,\n", "the weight is ''"),
        (b"01.1;2\n", "w.csv, line 1 has 1 fields; write an exercise and its weight, 01.1,2 say."),
        (b"01.1,2,5\n", "has 3 fields"),
        (b"01.1,2\n01.1,2\n", "w.csv, line 2: 01.1 has a weight already"),
        (b"\xff\xfe0\x001", "is not UTF-8 text"),
        (b'01.1,"' + b"2" * 200_000, "it is not CSV"),
    ],
)
def test_weights_that_cannot_be_used(tmp_path, text, says):
    (tmp_path / "w.csv").write_bytes(text)
    with pytest.raises(weights.BadWeights) as error:
        weights.read(tmp_path / "w.csv", IDS)
    assert says in str(error.value) and len(str(error.value)) < 300


def test_a_folder_is_no_file_of_weights(tmp_path):
    with pytest.raises(weights.BadWeights, match="cannot be read: Is a directory"):
        weights.read(tmp_path, IDS)


def test_the_percent_is_weighted():
    rows = (row("01.1", "passed", weight=3.0), row("01.2", weight=0.5), row("01.9", max_points=0))
    assert Grade(file="a", rows=rows).percent == 85.7
    assert Grade(file="a", rows=rows).result == "1 of 2 points, 85.7% weighted"
    nothing = tuple(dataclasses.replace(r, weight=0.0) for r in rows)
    assert Grade(file="a", rows=nothing).percent is None
    assert Grade(file="a", error="why").percent is None


def test_an_explanation_decides_nothing():
    assert Grade(file="a", rows=(row(outcome="passed"), row("01.9", "not yet", kind="explain", max_points=0))).passed
    assert not Grade(file="a", rows=(row(outcome="passed"), row("01.2", "not attempted"))).passed


# The class


def class_of(number, lesson="01_hello_kernel"):
    """Notebooks with nine exercises each, of every outcome."""
    outcomes = itertools.cycle(["passed", "passed", "not yet", "passed", "not attempted", "not yet", "error"])
    refusals = itertools.cycle(
        [
            ("numbers", "the numbers judge refused it. The output is 0; it should be 1000."),
            ("simulator", "the simulator refused it. Block (1, 0) left VMEM at step (0, 1), " + 10 * "and " + "so on."),
            ("numbers", "the numbers judge refused it. The output is 0; it should be 1000."),
        ]
    )

    def one(n):
        judge, message = next(refusals)
        outcome = next(outcomes)
        refused = {"judge": judge, "message": message} if outcome == "not yet" else {}
        return row(f"01.{n}", outcome, title=f"Exercise number {n}, with a long title that goes on", **refused)

    return [
        Grade(file=f"student {k:02}/{lesson}.ipynb", lesson=lesson, rows=tuple(one(n) for n in range(1, 10)))
        for k in range(number)
    ]


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_class_of_thirty_fits_on_a_screen(width):
    grades = [*class_of(29), Grade(file="broken.ipynb", error="it is not JSON.")]
    lines = summary.text(grades, width).splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= width
    assert lines[0] == "30 notebooks, 29 graded. Not graded: broken.ipynb."
    assert sum(line.count("student ") for line in lines) == 29
    counts = [line for line in lines if line.startswith("01.")]
    assert [line.split()[0] for line in counts] == [f"01.{n}" for n in range(1, 10)]
    assert len({re.search(r" \d+ +\d+ +\d+ +\d+", line).end() for line in counts}) == 1, "not aligned"


def test_a_class_of_two_lessons_and_ten_exercises():
    grades = [*class_of(3), *class_of(2, "02_blocks"), Grade(file="a.ipynb", lesson="01", rows=(row("01.10"),))]
    assert [s.lesson for s in summary.spreads(grades)] == ["01", "01_hello_kernel", "02_blocks"]
    assert [t.id for t in summary.tallies(grades)][-2:] == ["01.9", "01.10"]


def test_the_counts_are_right():
    refused = {"judge": "numbers", "message": "the numbers judge refused it. It is 0."}
    grades = [
        Grade(file="a.ipynb", lesson="01", rows=(row(outcome="passed"), row("01.2", "passed"))),
        Grade(file="b.ipynb", lesson="01", rows=(row(**refused), row("01.2", "error"))),
        Grade(file="c.ipynb", lesson="01", rows=(row(**refused), row("01.2", "passed"))),
        Grade(file="d.ipynb", lesson="01", rows=(row(message="the answer cell does not run."), row("01.2", "passed"))),
        Grade(file="e.ipynb", error="why"),
    ]
    first, second = summary.tallies(grades)
    assert first.counts == {"passed": 1, "not yet": 3, "not attempted": 0, "error": 0}
    assert (first.judge, first.sentence) == (("numbers", 2), ("It is 0.", 2))
    assert (second.counts["error"], second.judge, second.sentence) == (1, ("", 0), ("", 0))
    (spread,) = summary.spreads(grades)
    assert (spread.notebooks, spread.median, spread.low, spread.high, spread.max_points) == (4, 1, 0, 2, 2)


def test_a_class_in_which_nothing_could_be_graded():
    grades = [Grade(file="a.ipynb", error="it is not JSON.")]
    assert summary.text(grades, 80).splitlines()[0] == "1 notebook, 0 graded. Not graded: a.ipynb."
    assert_harmless(class_page(grades))
    assert len(summary.as_csv(grades).splitlines()) == 2 and len(summary.exercises_csv(grades).splitlines()) == 1


def test_the_tables_for_a_spreadsheet():
    grades = [Grade(file="=1+1.ipynb", lesson="01", rows=(row(weight=2.0, judge="numbers", message='a, "b"'),))]
    (line,) = csv.DictReader(summary.as_csv(grades).splitlines())
    assert (line["file"], line["points"], line["percent"], line["01.1"]) == ("'=1+1.ipynb", "0", "0.0", "not yet")
    (line,) = csv.DictReader(summary.exercises_csv(grades).splitlines())
    assert (line["not yet"], line["judge"], line["sentence"], line["weight"]) == ("1", "numbers", 'a, "b"', "2.0")


def golfed(file, score, outcome="passed"):
    fields = {"kind": "golf", "unit": "bytes", "score": score, "par": 900, "ours": 700}
    return Grade(file=file, lesson="01", rows=(row("01.11", outcome, **fields), row("01.2", "passed")))


def test_the_best_scores_of_the_class():
    grades = [golfed("a.ipynb", 800), golfed("b.ipynb", 650), golfed("c.ipynb", 650), golfed("d.ipynb", 950, "not yet")]
    grades += [golfed("e.ipynb", None, "not attempted"), Grade(file="f.ipynb", error="why")]
    plain, golf = summary.tallies(grades)
    assert plain.golf is None
    assert (golf.golf.best, golf.golf.by, golf.golf.count) == (650, ("b", "c"), 4)
    assert "      best 650 bytes (b and 1 more); par 900, ours 700" in summary.text(grades, 100).splitlines()
    lines = list(csv.DictReader(summary.as_csv(grades).splitlines()))
    assert [line["01.11 bytes"] for line in lines] == ["800", "650", "650", "950", "", ""]
    _, line = csv.DictReader(summary.exercises_csv(grades).splitlines())
    assert [line[name] for name in ("unit", "par", "ours", "best", "by", "count")] == [
        *("bytes", "900", "700", "650", "b; c", "4"),
    ]
    page = class_page(grades)
    assert_harmless(page)
    assert page.count("<strong>best 650</strong>") == 2 and '<td class="number">950</td>' in page
    assert "score 950 bytes, par 900, ours 700" in feedback(grades[3])
    assert "score" not in feedback(grades[4])


def test_a_class_without_a_score():
    grades = [golfed("a.ipynb", None, "not yet")]
    assert "no score yet; par 900 bytes, ours 700" in summary.text(grades, 100)
    assert_harmless(class_page(grades))


# Names


def test_every_notebook_has_reports_of_its_own(tmp_path):
    for name in ("a", "A", "a\x01", "a (2)", "summary", "tab\tand\nline", "\x01..\x01/x", "\x01.", "\u202ex"):
        path = tmp_path / "in" / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    found = folder.find(tmp_path / "in")
    assert set(found) == {
        "A.ipynb", "a (2).ipynb", "a (2) (2).ipynb", "a (3).ipynb", "summary (2).ipynb", "tab and line.ipynb",
        "unnamed/x.ipynb", "unnamed.ipynb", "x.ipynb",
    }  # fmt: skip
    assert len(set(found.values())) == 9
    for name in found:
        write(Grade(file=name, rows=(row(),)), tmp_path / "out")
    assert len(list((tmp_path / "out").rglob("*.html"))) == 9
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "out"]
