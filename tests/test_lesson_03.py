"""Lesson 3 and its exercises: what they quote is what docs/measured.csv has, and every number has its proof."""

import ast
import collections
import csv
import pathlib
import re
import types

import pytest

from course_lib.checks import quantity, unfit
from course_lib.checks.exercise import exercises
from course_lib.checks.kinds import compute, predict, several
from course_lib.lessons import lesson_03
from course_lib.lessons.lesson_03 import blocks

ROOT = pathlib.Path(__file__).resolve().parent.parent
LESSON = (ROOT / "notebooks/src/03_roofline.py").read_text()
EXERCISES = (ROOT / "solutions/src/03_roofline.py").read_text()
TASKS = {id: task for id, task in exercises().items() if id.startswith("03.")}
PARTS = [
    pytest.param(asked, id=f"{id} {name}")
    for id, task in TASKS.items()
    if task.kind == "several"
    for name, both in task.asks.parts.items()
    for asked in several.questions(both)
]


def measured():
    with open(ROOT / "docs/measured.csv", newline="") as file:
        return {row["id"]: float(row["seconds"]) for row in csv.DictReader(file)}


def literal(name, source):
    """The dict that ``name`` is given in a percent source, in one cell or in several."""
    parts = re.findall(rf"^{name} \|?= (\{{.*?\}})", source, re.M | re.S)
    return dict(collections.ChainMap(*map(ast.literal_eval, parts)))


@pytest.mark.parametrize(
    "name, kind", [("PUBLISHED_SMALL", "b128"), ("PUBLISHED_LARGE", "b512"), ("PUBLISHED_XLA", "xla")]
)
def test_the_lesson_quotes_what_was_measured(name, kind):
    assert sorted(literal(name, LESSON)) == [1024, 4096, 8192]
    for n, seconds in literal(name, LESSON).items():
        assert seconds == pytest.approx(measured()[f"jax-matmul-{n}-{kind}"], rel=5e-4)


def test_the_opening_quotes_what_was_measured():
    opening = LESSON[: LESSON.index("# FIRST CELL")]
    for id, digits in [("b128", 1), ("b512", 2), ("xla", 2)]:
        assert f"{1e3 * measured()[f'jax-matmul-8192-{id}']:.{digits}f} ms" in " ".join(opening.split())


def test_the_exercises_quote_what_was_measured():
    rows = {
        "XLA, 16384": "jax-matmul-16384-xla",
        "triangle": "jax-masked-matmul-16384",
        "decode": "tokamax-v5e-gmm-8x4096x4096-even-xla",
    }
    for name, milliseconds in literal("published", EXERCISES).items():
        assert milliseconds / 1e3 == pytest.approx(measured()[rows[name]], rel=5e-4)
        assert lesson_03.GUESSES[name].value == pytest.approx(milliseconds, rel=5e-4)


def test_the_minutes_of_the_headings_are_those_of_the_labels():
    labels = re.findall(r"^# \*(?:Difficulty|No points).*? (\d+) minutes, ", EXERCISES, re.MULTILINE)
    assert len(labels) == len(TASKS)
    total = sum(map(int, labels))
    assert f"About {total} minutes." in EXERCISES and f"then {total} for the exercises" in LESSON


def test_what_may_be_left_out_are_sections():
    head = " ".join(LESSON.split("about 60 minutes")[0].replace("\n#", "").split())
    titles = re.findall('"([^"]+)"', head)
    assert len(titles) == 3
    for title in titles:
        assert re.search(rf"^# ## {title}(:|$)", LESSON, re.MULTILINE)


def test_the_keras_times_are_those_of_the_guide():
    for id in ("keras-matmul-relu-8192", "keras-matmul-relu-8192-xla"):
        assert f"{1e3 * measured()[id]:.3f} ms" in LESSON


@pytest.mark.parametrize("asked", PARTS)
def test_every_part_has_its_proof(asked):
    found = asked.proof()
    if isinstance(asked, predict.Predict):
        assert abs(found - asked.value) <= max(asked.tolerance, 1e-9) * abs(asked.value)
    else:
        assert found == asked.right


@pytest.mark.parametrize("asked", [asked for asked in PARTS if isinstance(asked.values[0], predict.Predict)])
def test_no_diagnosis_gives_the_number_away(asked):
    digits = f"{asked.value:g}"
    assert not any(re.search(rf"(?<![\w.]){re.escape(digits)}(?![\d.]\d)", said) for said in asked.near.values())


@pytest.mark.parametrize("asked", [asked for asked in PARTS if isinstance(asked.values[0], predict.Predict)])
def test_each_known_slip_of_a_part_gets_its_own_sentence(asked):
    task = types.SimpleNamespace(id="03.0", asks=asked, defines="part")
    for value, sentence in asked.near.items():
        said = predict.result(task, quantity.shown(value, asked.unit))
        assert said.outcome == "not yet" and said.message == sentence


@pytest.mark.parametrize(
    "name, answer, says",
    [
        ("ring", "707 us", "You added the hops"),
        ("ring", "349.5 us", "an axis of the torus, a ring, has two"),
        ("ring", "667 us", "64 Mi is 64 times 1,048,576"),
        ("line", "1.07 ms", "64 Mi is 64 times 1,048,576"),
        ("line", "746 us", "Two slips: "),
        ("small", "8 us", "That is the ring of sixteen"),
        ("small", "3.07 us", "You added the bytes"),
        ("ring", "720 us", "Close, and a little too large"),
    ],
)
def test_slips_with_an_all_gather(name, answer, says):
    task = types.SimpleNamespace(id="03.6", asks=lesson_03.NETWORK[name], defines="part")
    assert says in predict.result(task, answer).message


@pytest.mark.parametrize(
    "claim, answer, says",
    [
        ("C", ("falls", "491 TFLOP/s"), "C: it is not 491 TFLOP/s"),
        ("B", ("stands", "5567 us"), "That is what is said to be saved"),
        ("E", ("falls", "4 MiB"), "That is one row of blocks"),
    ],
)
def test_where_number_and_verdict_are_wrong_the_number_comes_first(claim, answer, says):
    assert says in str(several.result(TASKS["03.7"], {claim: answer}))


def test_an_example_is_one_that_the_answer_gets_wrong():
    """Without a mask the first case is right."""
    said = compute.result(
        TASKS["03.5"], lambda t, k, heads, kv, causal: (4 * t * t * k * heads, 4 * t * k * (heads + kv))
    )
    assert "attention_cost(2048, 128, 8, 8, True) should give 8,589,934,592 FLOPs" in said.next


def test_blocks_for_some_sizes_only_are_refused():
    with pytest.raises(unfit.Unfit, match=r"choose_blocks\(8192, 8192, 8192\) returned None; asked for are three"):
        blocks.with_blocks(lambda m, k, n: (m, k, n) if m < 8192 else None)


@pytest.mark.parametrize("sizes, times", [((256, 256, 256), 2.9), ((512, 1024, 128), 2.7)])
def test_blocks_that_are_too_small_for_a_large_product_are_refused(sizes, times):
    said, advice = blocks.serve_a_large_product(lambda m, k, n: sizes)
    assert f"{times} times the arithmetic" in said and "larger blocks" in advice


@pytest.mark.parametrize("answer", ["33.5 MB", "33,554,432 B", "32 MiB"])
def test_the_bytes_of_claim_e_may_be_rounded(answer):
    asked = lesson_03.LIES["E"][1]
    assert predict.result(types.SimpleNamespace(id="03.7", asks=asked, defines="part"), answer).passed


@pytest.mark.parametrize(
    "result",
    [pytest.param(r, id=f"{id} {r.name}") for id, t in TASKS.items() if t.kind == "compute" for r in t.asks.results],
)
def test_every_formula_has_its_proof(result):
    (task,) = (t for t in TASKS.values() if t.kind == "compute" and result in t.asks.results)
    for case in task.asks.cases:
        right = result.formula(*case)
        assert abs(result.proof(*case) - right) <= max(result.tolerance, 1e-9) * right


@pytest.mark.parametrize("id", ["03.2", "03.5"])
def test_each_known_slip_gets_its_own_sentence(id):
    task = TASKS[id]
    rights = [result.formula for result in task.asks.results]
    for place, result in enumerate(task.asks.results):
        for wrong, sentence in result.near:

            def answer(*case, place=place, wrong=wrong):
                values = [right(*case) for right in rights]
                values[place] = wrong(*case)
                return tuple(values)

            said = compute.result(task, answer)
            assert said.outcome == "not yet" and sentence in said.message, (result.name, sentence, str(said))
