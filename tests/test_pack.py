"""The instructor's pack: its slides, handouts and cards; tests/browser/test_slides.py has them in a browser."""

import functools
import html
import re
import sys
import zipfile

import book_samples  # noqa: F401 (it makes tools/ importable)
import build_pack
import nbformat
import pytest
from book import pages
from book.links import Links
from book.text import Writer
from book.words import Words
from building import answers
from building.source import read_source
from lesson_files import LESSONS, ROOT
from pack import PackError, cards, cuts, files, lesson, plan
from pack.slides import Deck


@functools.cache
def course():
    return pages.course()


@functools.cache
def whole():
    return files.files(course(), {}, cuts.start_of("9:00"))


@functools.cache
def deck(stem):
    page = course()[f"notebooks/{stem}.ipynb"]
    writer = Writer(page, Links({}, Words([]), {"repo": "", "tag": ""}))
    return Deck(page.notebook, stem, writer, None).slides()


def words_of(page):
    """The text of a page without its marks, in one line."""
    body = page.partition("<main")[2]
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", body)))


def line_of(output):
    """What an output prints, in one line."""
    return re.sub(r"\s+", " ", output.get("text", "")).strip()


def test_all_lessons_all_cuts_and_the_grading_day_are_in_it():
    made = whole()
    wanted = {f"{kind}/{stem}.html" for stem in LESSONS for kind in ("slides", "handouts")}
    wanted |= {f"cards/{name}.html" for name in ("half_a_day", "one_day", "two_days", "two_days_to_attention")}
    assert made.keys() == wanted | {"cards/three_days.html", "index.html", "grading_day.html", "instructor.html"}
    assert {path for path in re.findall(r'href="([^"]+)"', made["index.html"])} == made.keys() - {"index.html"}


def test_a_page_needs_no_other_file_and_no_network():
    for path, page in whole().items():
        loaded = re.findall(r'\b(?:src|srcset)="([^"]+)"', page)
        assert all(address.startswith("data:") for address in loaded), path
        assert not re.search(r"@import|<link|\burl\((?!['\"]?data:)", page), path
        assert path == "index.html" or not re.search(r'href="(?!#|https?:|mailto:)', page), path


def test_the_archive_holds_all_and_two_are_the_same(tmp_path):
    made = {"index.html": whole()["index.html"], "slides/a.html": "a"}
    for name in ("one.zip", "two.zip"):
        files.archive(made, tmp_path / name)
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as packed:
        assert packed.namelist() == ["pack/index.html", "pack/slides/a.html"]
        assert packed.read("pack/slides/a.html") == b"a"


# --- slides

# Read against the lessons by hand: the section in which each row of the text begins.
BEGINS = {
    "05_pipelining_and_vmem": {
        0: "The opening",
        5: "A copy by hand",
        19: "Fetch the next chunk while working on this one",
    }
    | {27: "How long does an iteration take?", 37: "Why B and not B - 1?", 45: "The loop as a timeline"}
    | {64: "The loop that `pallas_call` makes", 69: "When are two buffers enough?", 74: "VMEM to the byte"}
    | {98: "Five questions"},
    "12_scalar_prefetch": {0: "The opening", 6: "Who reads an index map?", 14: "What a list costs"}
    | {28: "Where a list leads: outputs", 37: "A matrix that is mostly zeros", 56: "An eighth of the work"}
    | {59: "At what density does the dense matmul win?", 67: "At what density does the dense matmul win?"}
    | {78: "As many steps as there are entries", 83: "Five questions"},
    "17_other_engines": {0: "The opening", 7: "One body, two machines", 13: "One body, two machines"}
    | {28: "Hopper: who copies, who waits", 36: "Hopper: who copies, who waits", 51: "Hopper: who copies, who waits"}
    | {55: "SparseCores: rows by index", 73: "Adding rows", 79: "PyTorch", 84: "The map of engines"}
    | {87: "Five questions"},
}


@pytest.mark.parametrize("stem", BEGINS)
def test_a_row_of_the_plan_begins_with_its_section(stem):
    parts = lesson.parts(course()[f"notebooks/{stem}.ipynb"].notebook)
    rows = [row for row in plan.of(stem[:2]).rows if not row.exercises]
    found = plan.along(rows, [(part.heading, part.text) for part in parts])
    assert {row.start: parts[place].heading for row, place in zip(rows, found, strict=True)} == BEGINS[stem]


@pytest.mark.parametrize("stem", LESSONS)
def test_every_row_is_spoken_once_and_in_order(stem):
    spoken = [note for slide in deck(stem) for note in slide.notes if note.startswith("<p><b>Minute ")]
    minutes = [tuple(map(int, re.search(r"Minute (\d+) to (\d+)", note).groups())) for note in spoken]
    assert minutes == [(row.start, row.start + row.minutes) for row in plan.of(stem[:2]).rows]


@pytest.mark.parametrize("stem", LESSONS)
def test_pictures_questions_and_planned_exercises_are_slides(stem):
    slides, notebook = deck(stem), course()[f"notebooks/{stem}.ipynb"].notebook
    cells = [cell for part in lesson.parts(notebook) for cell in part.cells if part.heading != lesson.QUESTIONS]
    outputs = [output for cell in cells for output in cell.outputs if output.output_type != "stream"]
    drawn = [output for output in outputs if {"image/svg+xml", "image/png"} & output.data.keys()]
    assert sum(slide.kind == "picture" for slide in slides) == len(drawn)
    asked = [slide for slide in slides if slide.title.startswith("Question ")]
    assert len(asked) == 5 and all(slide.reveal for slide in asked)
    planned = [id for row in plan.of(stem[:2]).rows for id in row.exercises]
    shown = [(slide.title, slide.body) for slide in slides if slide.kind == "exercise"]
    assert all(any(id in title or f"<b>{id}</b>" in body for title, body in shown) for id in planned)
    assert [slide.minutes for slide in slides if slide.kind == "exercise" and slide.minutes == 0] == []


def test_the_order_of_a_lesson():
    titles = list(dict.fromkeys(slide.title for slide in deck("07_tiled_matmul")))
    assert titles[:7] == [
        "Lesson 7: Tiled matmul",
        "The opening",
        "After this lesson you can",
        "K as an axis of the grid",
        "07.1 Few rows: accumulate in the output",
        "Where the sum belongs",
        "07.2 An accumulator in scratch, and a factor for each column",
    ]
    assert titles[-2:] == ["Question 4 of 5", "Question 5 of 5"]


def test_the_title_has_the_minutes_of_each_section():
    first = deck("07_tiled_matmul")[0]
    rows = re.findall(r"<tr><td>(\d+)</td><td>(\d+) min</td><td>(.*?)</td></tr>", first.body)
    assert rows[0] == ("0", "5", "The opening") and ("9", "8", "<b>07.1</b> Few rows: accumulate in the output") in rows
    assert sum(int(minutes) for _, minutes, _ in rows) == 96
    assert "Run the third cell before the room arrives" in first.notes[0]


def test_notes_have_what_to_watch_for_what_the_lesson_says_and_the_question_that_helps():
    slides = deck("07_tiled_matmul")
    sums = next(slide for slide in slides if slide.title == "Where the sum belongs")
    assert "Watch for" in sums.notes[0] and "scratch is slower" in sums.notes[0]
    task = next(slide for slide in slides if slide.title.startswith("07.1 "))
    assert "who copies it in?" in "".join(task.notes)
    assert any("The lesson says" in note and "round once" in note for slide in slides for note in slide.notes)


def test_an_output_that_was_asked_for_waits_for_a_key():
    asked = next(slide for slide in deck("07_tiled_matmul") if "What does the rule predict" in slide.body)
    assert "1184 MiB" in asked.reveal and "1184 MiB" not in asked.body


# --- no answers


@pytest.mark.parametrize("stem", LESSONS)
def test_no_solution_is_in_slides_or_handouts(stem):
    """The lines of an answer, as a block: single ones stand in lessons too, and of one exercise all."""
    solved = read_source(ROOT / f"solutions/src/{stem}.py")
    given = answers.answers_of(answers.without_answers(solved))
    shown = [words_of(whole()[f"{kind}/{stem}.html"]) for kind in ("slides", "handouts")]
    taught = re.sub(r"\s+", " ", "\n".join(cell.source for cell in course()[f"notebooks/{stem}.ipynb"].notebook.cells))
    found = 0
    for id, answer in answers.answers_of(solved).items():
        own = re.sub(r"\s+", " ", answer.removeprefix(given[id])).strip()
        found += 1
        assert len(own) < 60 or own in taught or not any(own in text for text in shown), id
    assert found >= 8


@pytest.mark.parametrize("stem", LESSONS)
def test_a_handout_has_a_blank_for_each_prediction_and_answer_and_tells_none(stem):
    page = whole()[f"handouts/{stem}.html"]
    parts = lesson.parts(course()[f"notebooks/{stem}.ipynb"].notebook)
    asked = [
        (output, cell)
        for part in parts
        for cell in part.cells
        if part.heading != lesson.QUESTIONS and not lesson.is_folded(cell) and (part.asks or lesson.is_predicted(cell))
        for output in cell.outputs
    ]
    folds = [block for part in parts for block in part.blocks if block.kind == "fold"]
    assert page.count('<div class="blank') == len(asked) + len(folds) and len(folds) >= 5
    text = words_of(page)
    outputs = [(out, cell) for part in parts for cell in part.cells for out in cell.outputs]
    shown = "\n".join(line_of(output) for output, cell in outputs if (output, cell) not in asked)
    for output, cell in asked:
        printed = line_of(output)
        assert len(printed) < 30 or printed in shown or printed not in text, cell.id
    for block in folds:
        answer = words_of(f"<main>{lesson.fold(block.source)[1]}").removeprefix(">")
        assert answer not in text


def test_a_text_that_tells_a_prediction_is_left_out_of_a_handout_and_a_rule_is_not():
    text = words_of(whole()["handouts/07_tiled_matmul.html"])
    assert "both kernels round once and are equally accurate" not in text
    assert "Accumulate in o_ref if the output has the dtype of the sum" in text
    assert "07.9 From an empty cell" in text


# --- cards


def test_a_card_has_times_by_the_clock():
    half, two = card("Half a day", "13:00"), card("Two days", "13:00")
    times = re.findall(r"<tr><td>([\d:]+ to [\d:]+)</td><td>(\d+) min", half)
    assert times[0] == ("13:00 to 13:05", "5") and times[-1] == ("16:55 to 17:00", "5")
    assert two.index("Day 1") < two.index("20:45 to 21:00") < two.index("Day 2") < two.rindex("13:00 to 14:40")
    assert "from 09:00" in whole()["index.html"] and "09:00 to 09:05" in whole()["cards/half_a_day.html"]


def card(name, start):
    """The card of a cut, as HTML."""
    page = course()[cuts.SOURCE]
    writer = Writer(page, Links({}, Words([]), {"repo": "", "tag": ""}))
    return "".join(cards.card({cut.name: cut for cut in cuts.cuts()}[name], cuts.start_of(start), writer))


def test_three_days_are_written_out():
    by_name = {cut.name: cut for cut in cuts.cuts()}
    three = by_name["Three days"]
    assert three.rows[: len(by_name["Two days"].rows)] == by_name["Two days"].rows
    assert whole()["cards/three_days.html"].count('class="day"') == 3
    assert [start for start, _, _ in three.rows][1:] == [start + took for start, took, _ in three.rows][:-1]


@pytest.mark.parametrize("start", ["13", "25:00", "9:60", "noon", ""])
def test_a_start_that_is_no_time_is_refused(start):
    with pytest.raises(PackError, match="is no time: write hours and minutes, from 0:00 to 23:59, as in START=13:00"):
        cuts.start_of(start)


# --- errors


def test_a_lesson_without_a_plan_or_a_plan_without_rows_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "ROOT", tmp_path)
    with pytest.raises(PackError, match=r"lesson 40 has no docs/instructor/40.md: write its plan first"):
        plan.of("40")
    (tmp_path / "docs/instructor").mkdir(parents=True)
    (tmp_path / "docs/instructor/40.md").write_text("# Nothing yet\n")
    with pytest.raises(PackError, match="has no plan: no line has the form"):
        plan.of("40")


def test_a_plan_with_an_exercise_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(plan, "of", lambda number: plan.Plan([plan.Row(0, 5, "01.99, in pairs", "")], {}, ""))
    page = course()["notebooks/01_hello_kernel.ipynb"]
    with pytest.raises(PackError, match=r"docs/instructor/01.md plans 01.99, which exercises/01_hello_kernel lacks"):
        Deck(page.notebook, "01_hello_kernel", None, None)


def test_a_fold_and_an_exercise_of_another_form_are_named(tmp_path, monkeypatch):
    with pytest.raises(PackError, match="this fold is not <details><summary>question"):
        lesson.fold("<details>1. Why?</details>")
    monkeypatch.setattr(lesson, "ROOT", tmp_path)
    (tmp_path / "exercises").mkdir()
    cell = nbformat.v4.new_markdown_cell("## 40.1 Anything\n\nDo it.")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "exercises/40_x.ipynb")
    with pytest.raises(PackError, match=r"exercises/40_x.ipynb: 40.1 needs a line such as \*Difficulty 2 of 5"):
        lesson.exercises("40_x")


def test_make_pack_says_what_it_made_and_refuses_another_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(files, "files", lambda *arguments: {"index.html": "here"})
    monkeypatch.setattr(pages, "course", course)
    monkeypatch.setattr(sys, "argv", ["build_pack.py", "--out", str(tmp_path / "pack"), "--start", "8:30"])
    build_pack.main()
    assert "pack.zip, 0.0 MiB" in capsys.readouterr().out and (tmp_path / "pack/index.html").read_text() == "here"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/work.txt").touch()
    monkeypatch.setattr(sys, "argv", ["build_pack.py", "--out", str(tmp_path / "mine")])
    with pytest.raises(SystemExit, match="make pack: .* is not empty and holds no book or pack"):
        build_pack.main()
    monkeypatch.setattr(sys, "argv", ["build_pack.py", "--start", "1pm"])
    with pytest.raises(SystemExit, match="make pack: START=1pm is no time"):
        build_pack.main()
