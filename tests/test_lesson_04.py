"""The exercises of lesson 4: their numbers have a proof, and their sick blocks are sick."""

import contextlib
import functools
import pathlib
import re

import jax
import pytest
from conftest import needs_libtpu
from test_mutants import code_cells

from course_lib import compiler, grid
from course_lib.checks.exercise import exercise
from course_lib.checks.unfit import Unfit, described
from course_lib.lessons import lesson_04

ROOT = pathlib.Path(__file__).resolve().parent.parent
LESSON = "04_grids_and_blockspecs.py"
ORDERS = exercise("04.4").asks.parts
HEALTHY = {"a": (8, 128), "b": (6, 128), "c": (16, 128), "d": (8, 4, 256), "e": (1024,)}


def arrays():
    return dict(zip(lesson_04.SURGERY, exercise("04.3").arguments()[0], strict=True))


def compiles(x, block):
    copy = functools.partial(lesson_04._copy_in_blocks, block=block)
    return compiler.compile_tpu(copy, jax.ShapeDtypeStruct(x.shape, x.dtype), simulate=False).ok


@pytest.mark.parametrize("order", ORDERS)
def test_the_bytes_of_an_order_are_those_of_the_ledger(order):
    assert ORDERS[order].proof() == ORDERS[order].value


@pytest.mark.parametrize("order", ORDERS)
def test_each_order_has_a_sentence_for_six_slips_or_more(order):
    assert len(ORDERS[order].near) >= 6


def test_the_number_of_another_order_gets_a_question_about_what_differs():
    """In jbi and bji x is copied alike and w is not; bij has another axis last."""
    near = {order: part.near for order, part in ORDERS.items()}
    value = {order: part.value for order, part in ORDERS.items()}
    assert near["bji"][value["jbi"]].endswith("x is copied as often. How often does j change when b comes first?")
    assert near["jbi"][value["bji"]].endswith("x is copied as often. How often does j change when j comes first?")
    for order, other in (("bij", "jbi"), ("bij", "bji"), ("jbi", "bij"), ("bji", "bij")):
        assert near[order][value[other]].endswith("which of x and w gets a new block at every step then?")


@needs_libtpu
@pytest.mark.parametrize("name", lesson_04.SURGERY)
def test_a_sick_block_is_refused_by_the_compiler_and_our_cure_is_not(name):
    x = arrays()[name]
    assert not compiles(x, lesson_04.SURGERY[name][1])
    assert compiles(x, HEALTHY[name])


@needs_libtpu
@pytest.mark.parametrize("name", lesson_04.SURGERY)
def test_no_size_nearer_to_the_sick_one_is_legal(name):
    _, sick = lesson_04.SURGERY[name]
    (axis,) = [axis for axis, size in enumerate(sick) if size != HEALTHY[name][axis]]
    was = sick[axis] or 1
    distance = abs(HEALTHY[name][axis] - was)
    nearer = range(max(1, was - distance + 1), was + distance)
    tried = {size for size in nearer if size % 4 == 0 or distance < 8}  # what could fill a part of a register
    assert not [size for size in tried if compiles(arrays()[name], sick[:axis] + (size,) + sick[axis + 1 :])]


def test_the_table_of_the_task_shows_the_sick_blocks():
    text = (ROOT / "solutions/src" / LESSON).read_text().replace("float32", "f32").replace("bfloat16", "bf16")
    for name, (array, block) in lesson_04.SURGERY.items():
        dtype, shape = re.fullmatch(r"(\w+)\[([\d,]*)\]", array).groups()
        shape = tuple(map(int, shape.split(",")))
        assert f"| {name} | {shape} | {dtype} | {block} |" in text


@pytest.mark.parametrize("order", ORDERS)
def test_the_product_of_the_task_is_the_one_that_is_counted(order):
    """04.4 shows a function to read: its ledger is that of the declaration's."""
    (given,) = [c.source for c in code_cells(f"src/{LESSON}") if c.metadata.get("given") == "04.4"]
    names = {}
    exec("import jax, jax.numpy as jnp\nfrom jax.experimental import pallas as pl\n" + given, names)
    x, w = (jax.ShapeDtypeStruct(shape, "bfloat16") for shape in ((3, 256, 384), (384, 640)))
    shown, counted = (grid.walk(make(order), x, w).calls[0] for make in (names["batched"], lesson_04.batched))
    assert shown.grid == counted.grid
    for one, other in zip(shown.operands, counted.operands, strict=True):
        assert (one.indices == other.indices).all() and one.block_shape == other.block_shape


@pytest.mark.parametrize(
    "blocks",
    [
        {"a": (8, 128)},
        HEALTHY | {"e": 1024},
        HEALTHY | {"d": (8, 256)},
        HEALTHY | {"a": (8, 0)},
        HEALTHY | {"b": "(6, 128)"},
        HEALTHY | {"f": (8, 128)},
        [(8, 128)],
    ],
    ids=["one of five", "no tuple", "an axis too few", "an empty block", "text", "one too many", "no dict"],
)
def test_what_is_no_block_gets_a_sentence(blocks):
    with pytest.raises(Unfit) as refused:
        lesson_04._call_surgery(lambda: blocks)
    assert str(refused.value) and refused.value.next


@pytest.mark.parametrize("height, fits", [(1, False), (4, False), (8, True), (16, False), (64, False)])
def test_eight_rows_stay_together(height, fits):
    answer = lambda rows, columns: ((1,), (height, columns), lambda i: (i, 0), lambda i: (i, 0))  # noqa: E731
    with contextlib.nullcontext() if fits else pytest.raises(Unfit, match="Eight rows stay together"):
        lesson_04._call_reverse(answer)


def test_a_list_is_as_good_a_block_as_a_tuple():
    assert lesson_04._blocks(lambda: {name: list(block) for name, block in HEALTHY.items()}) == HEALTHY


def test_every_block_that_is_refused_is_named_at_once():
    sick = {name: block for name, (_, block) in lesson_04.SURGERY.items()}
    assert [text[0] for text in lesson_04._refused_sizes(lambda: sick)] == list("abcde")
    assert not lesson_04._refused_sizes(lambda: HEALTHY)
    assert not lesson_04._refused_sizes(lambda: HEALTHY | {"b": (8, 128)}), "a block may be larger than the array"


@pytest.mark.parametrize(
    "value, says",
    [
        ({"a": 1}, "a dict with 1 key"),
        ((1, 2, 3), "a tuple of 3"),
        ([], "a list of 0"),
        ("(6, 128)", "text: '(6, 128)'"),
        (7, "the number 7"),
        (None, "None"),
        (lambda i: i, "a function"),
        (compiles, "the function compiles"),
        (object(), "<object object>"),
    ],
    ids=lambda each: each if isinstance(each, str) else type(each).__name__,
)
def test_what_is_handed_over_is_said_without_addresses(value, says):
    assert described(value) == says


def test_a_long_value_is_cut_between_words_and_ends_in_dots():
    said = described("one word after another, " * 9)
    assert said.endswith(" ...") and said.split()[-2].rstrip(",") in ("one", "word", "after", "another")


def test_the_minutes_of_the_headings_are_those_of_the_labels():
    exercises = (ROOT / "solutions/src" / LESSON).read_text()
    labels = re.findall(r"^# \*(?:Difficulty|No points).*? (\d+) minutes, ", exercises, re.MULTILINE)
    assert len(labels) == len(lesson_04.EXERCISES)
    total = sum(map(int, labels))
    assert f"About {total} minutes." in exercises
    assert f"then {total} for the exercises" in (ROOT / "notebooks/src" / LESSON).read_text()


def test_each_section_that_the_first_line_leaves_out_says_so():
    lesson = (ROOT / "notebooks/src" / LESSON).read_text()
    named = re.findall('"([^"]+)"', " ".join(lesson.split("which no exercise needs")[0].replace("\n#", "").split()))
    sections = re.findall(r"^# ## ([^\n]+)\n#\n# \(No exercise needs this section\.\)$", lesson, re.MULTILINE)
    assert [title.split(":")[0] for title in sections] == named
