"""What every lesson must be: its numbers proved, nothing given away, its minutes and its ways through it stated.

A lesson is found by its files, and nothing here names one.
"""

import dataclasses
import functools
import re
import subprocess
import sys

import jax
import pytest
from conftest import needs_libtpu, pinned
from lesson_files import LESSONS, ROOT, TASKS, asking, built, code_cells, mutants, questions, source, stem_of
from sweeps import daily

from course_lib import judges, text
from course_lib.checks import help, quantity
from course_lib.checks.exercise import lesson
from course_lib.checks.kinds import ASKS, choose, compute, explain, find, golf, predict
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.compute import Formula
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.result import SCREEN, on_a_screen

QUESTIONS = [pytest.param(task, question, id=name) for task in TASKS for name, question in questions(task).items()]
NUMBERS = [param for param in QUESTIONS if isinstance(param.values[1], Predict)]
CHOICES = [param for param in QUESTIONS if isinstance(param.values[1], Choose)]
OF_THE_PINNED_COMPILER = {"08.8 B Choose"}  # libtpu 0.0.50 gains 6 % from unrolling a loop that carries a register
LABEL = re.compile(r"^# \*(?:Difficulty [1-5] of 5|No points)\. (\d+) minutes, [^*]*?( Further\.)?\*$", re.M)
HARD = re.compile(r"^# ## (\d\d\.\d+) [^\n]+\n#\n# \*Difficulty [45] of 5\.", re.M)
WORDS = "one two three four five six seven eight nine ten eleven twelve " * 5


def of_kind(*kinds):
    return [pytest.param(task, id=task.id) for task in TASKS if task.kind in kinds]


def header(stem):
    """The first cell of a lesson as one line."""
    lines = source("notebooks/src", stem).partition("# FIRST CELL")[0].splitlines()
    return " ".join(line.removeprefix("#") for line in lines).replace("  ", " ")


# The files


@pytest.mark.parametrize("stem", LESSONS)
def test_titles_are_those_of_the_notebooks(stem):
    declared = lesson(stem[:2])
    assert f"# # Lesson {int(stem[:2])}: {declared.title}\n" in source("notebooks/src", stem)
    headings = re.findall(r"^# ## (\d\d\.\d+) (.+)$", source("solutions/src", stem), re.M)
    assert headings == [(task.id, task.title) for task in declared.exercises]


@pytest.mark.parametrize("stem", LESSONS)
def test_every_exercise_has_its_solution(stem):
    solutions = help.solutions(stem[:2])
    assert sorted(solutions) == sorted(task.id for task in lesson(stem[:2]).exercises)
    assert all(solutions.values())


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_judged_exercises_ask_all_four_judges(task):
    assert task.kind in ASKS or task.judges == tuple(judges.JUDGES), "leave one out only for a reason, and say it here"


def test_declarations_make_no_array():
    """An array looks for devices: where libtpu is and no TPU, it writes a page about that to stderr."""
    asks = "from course_lib.checks.exercise import exercises; exercises()"
    asks += "; from jax._src import xla_bridge; print(len(xla_bridge._backends))"
    made = subprocess.run([sys.executable, "-c", asks], cwd=ROOT, capture_output=True, text=True, check=True)
    assert made.stdout == "0\n"


# The minutes, and the ways through a lesson


@pytest.mark.parametrize("stem", LESSONS)
def test_the_minutes_are_stated_and_add_up(stem):
    exercises = source("solutions/src", stem)
    labels = LABEL.findall(exercises)
    assert len(labels) == len(lesson(stem[:2]).exercises), "an exercise without its line of difficulty and minutes"
    total = sum(int(minutes) for minutes, further in labels if not further)
    assert f"About {total} minutes." in exercises
    assert re.search(rf"\*\d+(?: to \d+)? minutes, then {total} for the exercises\.", header(stem))


@pytest.mark.parametrize("stem", LESSONS)
def test_what_goes_further_is_named_and_its_minutes_stand_apart(stem):
    exercises = source("solutions/src", stem)
    labels, ids = LABEL.findall(exercises), [task.id for task in lesson(stem[:2]).exercises]
    further = [(id, int(minutes)) for id, (minutes, word) in zip(ids, labels, strict=True) if word]
    said = re.search(r"Want more\? ([\d., and]+), (\d+) minutes", exercises)
    found = (re.findall(r"\d\d\.\d+", said[1]), int(said[2])) if said else ([], 0)
    assert found == ([id for id, _ in further], sum(minutes for _, minutes in further))


@pytest.mark.parametrize("stem", LESSONS)
def test_a_lesson_has_something_hard_and_something_to_win(stem):
    """Of the lessons that have more than a draft's one exercise: a kernel from an empty cell, and golf."""
    exercises = lesson(stem[:2]).exercises
    if len(exercises) < 6:
        return
    hard, golfed = set(HARD.findall(source("solutions/src", stem))), {t.id for t in exercises if t.golf is not None}
    written = {
        task.id for task in exercises if task.kind in ("write", "project") and f"{task.defines} = None\n" in blank(task)
    }
    assert golfed and hard & written, "one golf exercise, and one of difficulty 4 or 5 that begins with a name and None"


def blank(task):
    """The answer cell of an exercise as a learner gets it."""
    return (
        next(cell.source for cell in built("exercises", stem_of(task)) if cell.id == task.id.replace(".", "-")) + "\n"
    )


# Golf


@pytest.mark.parametrize("task", of_kind("golf", "project"))
def test_par_is_weaker_than_ours(task):
    assert golf.ours(task.id) < task.golf.par, "ours is counted by the build: make build"
    if task.golf.unit == golf.BYTES:
        assert task.engine or golf.least(task) <= golf.ours(task.id)  # a gather may leave out rows of an array
        args = task.arguments()[0]
        leaves = jax.tree.leaves((args, jax.eval_shape(task.reference, *args)))
        shapes = [leaf.shape for leaf in leaves if leaf.ndim > 2 or leaf.dtype != "int32"]  # lists lie in SMEM
        assert all(shape[-1] % 128 == 0 and (len(shape) < 2 or shape[-2] % 8 == 0) for shape in shapes), shapes


@pytest.mark.parametrize("task", of_kind("golf", "project"))
def test_our_score_is_what_our_answer_scores(task):
    """Of bytes; cycles are compared where the build is, in the lane with the pinned libtpu."""
    names = {}
    for cell in code_cells("solutions/src", stem_of(task)):
        if cell.source.startswith("import") or cell.metadata.get("answer") == task.id:
            exec(cell.source, names)
    if task.golf.unit == golf.BYTES:
        assert golf.score(task, names[task.judged or task.defines]) == golf.ours(task.id)


@pytest.mark.parametrize("task", of_kind("golf", "project"))
def test_a_mutant_misses_par_and_is_told_so(task):
    says = [cell.metadata["says"] for cell in mutants(stem_of(task)) if cell.metadata["answer"] == task.id]
    assert any("above par" in said for said in says), "test_mutants.py asks the judges whether it is so"


@pytest.mark.parametrize("task", of_kind("golf"))
def test_what_golf_prints_is_one_line(task):
    scores = task.golf.par, golf.ours(task.id) - 1
    skipped = "" if task.golf.unit == golf.CYCLES else "compiler"  # without which there are no cycles, and no pass
    lines = [f"{task.id} passed: {golf.headline(task, score, skipped=skipped)}" for score in scores]
    assert max(map(len, lines)) <= text.COLUMNS


@pytest.mark.parametrize("stem", LESSONS)
def test_a_long_lesson_says_what_to_leave_out(stem):
    longest = int(re.search(r"\*(?:\d+ to )?(\d+) minutes, then", header(stem))[1])
    short = re.search(r"Short of time\? Leave out (.*?): about (\d+) minutes", header(stem))
    if longest <= 60 and short is None:
        return
    assert short and int(short[2]) <= 60, 'say `Short of time? Leave out "A" and "B": about 60 minutes.`'
    named = re.findall('"([^"]+)"', short[1])
    sections = re.findall(r"^# ## (.+)$", source("notebooks/src", stem), re.M)
    for title in named:
        assert any(section == title or section.startswith(f"{title}:") for section in sections), title
    marked = re.findall(
        r"^# ## ([^\n]+)\n#\n# \(No exercise needs this section\.\)$", source("notebooks/src", stem), re.M
    )
    assert {title.split(":")[0] for title in marked} <= {title.split(":")[0] for title in named}


@pytest.mark.parametrize("stem", LESSONS)
def test_the_fast_track_is_the_same_everywhere(stem):
    exercises = source("solutions/src", stem)
    said = re.search(r"Short of time\? Do ((?:\d\d\.\d+(?:, | and\s+(?:# )?)?)+)", exercises)
    labelled = re.findall(r"^# ## (\d\d\.\d+) [^\n]+\n#\n# \*[^*]*Fast track\.\*$", exercises, re.M)
    assert re.findall(r"\d\d\.\d+", said[1] if said else "") == labelled


@pytest.mark.parametrize("stem", LESSONS)
def test_the_instructor_has_a_plan_whose_minutes_add_up(stem):
    page = (ROOT / f"docs/instructor/{stem[:2]}.md").read_text()
    whole = int(re.match(rf"# Lesson {int(stem[:2])}, .*, minute by minute \((\d+) minutes\)\n", page)[1])
    rows = [(int(start), int(minutes)) for start, minutes in re.findall(r"^\| (\d+) \| (\d+) \| ", page, re.M)]
    assert [start for start, _ in rows] + [whole] == [0] + [start + minutes for start, minutes in rows]


# Every number is proved, and no slip gets another's sentence


def to_prove():
    """The questions; of those that one function proves, each with other arguments, the last every day."""
    proofs = {param.id: param.values[1].proof for param in QUESTIONS}
    proofs = {id: proof.func if isinstance(proof, functools.partial) else id for id, proof in proofs.items()}
    last = {proof: id for id, proof in proofs.items()}.values()
    marks = {
        p.id: [pytest.mark.sweep] * (p.id not in last) + [pinned] * (p.id in OF_THE_PINNED_COMPILER) for p in QUESTIONS
    }
    return [pytest.param(*p.values, id=p.id, marks=marks[p.id]) for p in QUESTIONS]


@pytest.mark.parametrize("task, question", to_prove())
def test_the_answer_is_the_one_the_library_finds(task, question):
    if isinstance(question, Choose):
        assert question.proof() == question.right
    elif isinstance(question, Predict):
        assert abs(question.proof() - question.value) <= max(question.tolerance, 1e-9) * abs(question.value)
    else:
        rights = task.asks.values(question.formula)
        for case, right in zip(task.asks.cases, rights, strict=True):
            assert abs(question.proof(*case) - right) <= max(question.tolerance, 1e-9) * abs(right)


@pytest.mark.parametrize("task, question", NUMBERS)
def test_each_known_slip_with_a_number_gets_its_own_sentence(task, question):
    for value, sentence in question.near.items():
        said = predict.result(asking(question), quantity.shown(value, question.unit))
        assert said.outcome == "not yet" and said.message == sentence


@pytest.mark.parametrize("task, formula", [p for p in QUESTIONS if isinstance(p.values[1], Formula)])
def test_each_known_slip_with_a_formula_gets_its_own_sentence(task, formula):
    names = task.asks.takes
    task = dataclasses.replace(task, asks=dataclasses.replace(task.asks, hands=lambda argument: argument))
    for wrong, sentence in formula.near.items():

        def answer(*case, wrong=wrong):
            at = task.asks.cases.index(case)
            expressions = [wrong if other is formula else other.formula for other in task.asks.results]
            return tuple(task.asks.values(expression)[at] for expression in expressions)

        said = compute.result(task, answer if len(task.asks.results) > 1 else lambda *case: answer(*case)[0])  # noqa: B023
        assert said.outcome == "not yet" and sentence in said.message, (formula.name, names, sentence, str(said))


@pytest.mark.parametrize("task, question", CHOICES)
def test_each_wrong_choice_has_its_own_sentence_and_none_gives_the_right_one_away(task, question):
    for option, sentence in question.wrong.items():
        said = choose.result(asking(question), option)
        assert said.headline == f'"{option}" is not right.' and said.message == sentence
        assert question.right not in f"{said.message} {said.next}".split()
    assert len(set(question.wrong.values())) == len(question.wrong)


@pytest.mark.parametrize("task", of_kind("find"))
def test_wrong_lines_get_sentences_and_none_names_the_right_one(task):
    lines = task.listing.splitlines()
    for number in range(1, len(lines) + 1):
        said = find.result(task, number)
        assert said.passed == (number == task.asks.line)
        assert said.passed or f"ine {task.asks.line}:" not in str(said)
        if number in task.asks.near:
            assert task.asks.near[number] in said.message
        if not lines[number - 1].strip():
            assert said.headline == f"line {number} is blank." and "It does what it should" not in str(said)


FIND = [task for task in TASKS if task.kind == "find"]
# Every day the one that the last of the four judges refuses, after the others have passed it.
LATEST = max(FIND, key=lambda task: list(judges.JUDGES).index(task.asks.refused_by))


@needs_libtpu
@pytest.mark.parametrize("task", daily(LATEST, of=FIND), ids=lambda task: task.id)
def test_the_broken_listing_is_refused_and_the_mended_one_passes(task):
    refusals = set()
    for args in task.arguments():
        asked = functools.partial(judges.judge, simulate=False)
        broken = asked(defined(task.listing, task), task.reference, *args)
        refusals |= {said.judge for said in broken if said.passed is False}
        mended = asked(defined(find.mended(task.asks, task.listing), task), task.reference, *args)
        assert all(said.passed is not False for said in mended), "\n".join(map(str, mended))
    assert refusals == {task.asks.refused_by}


def defined(listing, task):
    """What a listing defines that is judged."""
    names = {}
    exec(
        "import jax, jax.numpy as jnp\nfrom jax.experimental import pallas as pl\n"
        "from jax.experimental.pallas import tpu as pltpu\n" + listing,
        names,
    )
    return names[task.asks.function]


@pytest.mark.parametrize("task", of_kind("explain"))
def test_our_explanation_fits_a_screen_uncut_and_says_enough(task):
    said = on_a_screen(explain.result(task, WORDS))
    assert len(said.splitlines()) <= SCREEN and "\n...\n" not in said
    assert len(set(task.asks.model.split())) >= 2 * task.asks.words


# Nothing gives an answer away


@pytest.mark.parametrize("task, question", NUMBERS)
def test_no_sentence_gives_the_number_away(task, question):
    right = quantity.shown(question.value, question.unit)
    answers = [None, 1, "1 furlong", quantity.example(quantity.unit(question.unit))]
    for answer in answers + [quantity.shown(value, question.unit) for value in question.near]:
        said = predict.result(asking(question), answer)
        assert not said.passed and not stands_in(question, str(said).replace(str(answer), "")), str(said)
    assert not any(right in sentence for sentence in question.near.values())


@pytest.mark.parametrize("task, question", NUMBERS)
def test_no_number_is_given_away_above_its_question(task, question):
    where = [cell.id for cell, text in above(task) if stands_in(question, text)]
    if question.stands_above:
        assert where, f"stands_above is {question.stands_above!r}, and the number does not stand there: take it out"
    else:
        assert not where, f"{quantity.shown(question.value, question.unit)} can be read in the cells {', '.join(where)}"


def above(task):
    """(cell, what a reader sees of it) for every cell of the lesson, and of its exercises above the answer's place."""
    stem, place = stem_of(task), task.id.replace(".", "-")
    for cell in built("notebooks", stem):
        yield cell, seen(cell.source, cell)
    for blank, solved in zip(built("exercises", stem), built("solutions", stem), strict=True):
        if blank.id == place:
            return
        yield blank, seen(blank.source, solved)


def seen(text, cell):
    outputs = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.get("outputs", ())]
    return "\n".join([text, *outputs])


def stands_in(question, text):
    """Whether the number of a question stands in a text as anybody would print it: its digits, then a unit of its kind.

    Two numbers are the same if they agree in their first three digits.
    """
    wanted = quantity.unit(question.unit)
    right = question.value * wanted.factor
    for number, after in re.findall(r"(?<![\w.,])(\d[\d,]*(?:\.\d+)?)(?![\d.,]*\d)\s?([^\s,;:)|`'\"]*)", text):
        unit = unit_of(after.rstrip("."))
        plain = unit is None or unit.measures not in quantity.MEASURES  # 721, or 721 rows
        alike = plain if not wanted.measures else unit is not None and unit.measures == wanted.measures
        factor = 1 if unit is None else unit.factor
        if alike and f"{float(number.replace(',', '')) * factor:.3g}" == f"{right:.3g}":
            return True
    return False


def unit_of(text):
    """The unit that stands after a number; None for any other word."""
    try:
        return quantity.unit(text) if text else None
    except quantity.NotAQuantity:
        return None


@pytest.mark.parametrize(
    "text, found",
    [
        ("It takes 982 us.", True),
        ("It takes 982.1 us, at least", True),
        ("0.982 ms", True),
        ("982 ns", False),
        ("982 numbers", False),
        ("982", False),
        ("1,982 us", False),
        ("98 us", False),
        ("v982 us", False),
    ],
)
def test_a_number_is_found_however_it_is_printed(text, found):
    question = Predict(value=982.1, unit="us", tolerance=0.01, why="so.", proof=lambda: 982.1)
    assert stands_in(question, text) == found


@pytest.mark.parametrize("text, found", [("N = 721", True), ("721 rows", True), ("721 us", False), ("0.721", False)])
def test_a_number_without_a_unit_is_found(text, found):
    question = Predict(value=721, unit="", why="so.", proof=lambda: 721)
    assert stands_in(question, text) == found
