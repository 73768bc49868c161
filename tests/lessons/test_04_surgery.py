"""Exercise 04.3: the sick blocks are sick, our cure is the nearest, and what is no block gets a sentence."""

import functools
import re

import jax
import pytest
from conftest import needs_libtpu
from lesson_files import source

from course_lib import compiler
from course_lib.checks.exercise import exercise
from course_lib.checks.unfit import Unfit
from course_lib.lessons.lesson_04 import e03_surgery as surgery

HEALTHY = {"a": (8, 128), "b": (6, 128), "c": (16, 128), "d": (8, 4, 256), "e": (1024,)}


def arrays():
    return dict(zip(surgery.SURGERY, exercise("04.3").arguments()[0], strict=True))


def compiles(x, block):
    copy = functools.partial(surgery.copy_in_blocks, block=block)
    return compiler.compile_tpu(copy, jax.ShapeDtypeStruct(x.shape, x.dtype), simulate=False).ok


@needs_libtpu
@pytest.mark.parametrize("name", surgery.SURGERY)
def test_a_sick_block_is_refused_by_the_compiler_and_our_cure_is_not(name):
    x = arrays()[name]
    assert not compiles(x, surgery.SURGERY[name][1])
    assert compiles(x, HEALTHY[name])


@needs_libtpu
@pytest.mark.parametrize("name", surgery.SURGERY)
def test_no_size_nearer_to_the_sick_one_is_legal(name):
    _, sick = surgery.SURGERY[name]
    (axis,) = [axis for axis, size in enumerate(sick) if size != HEALTHY[name][axis]]
    was = sick[axis] or 1
    distance = abs(HEALTHY[name][axis] - was)
    nearer = range(max(1, was - distance + 1), was + distance)
    tried = {size for size in nearer if size % 4 == 0 or distance < 8}  # what could fill a part of a register
    assert not [size for size in tried if compiles(arrays()[name], sick[:axis] + (size,) + sick[axis + 1 :])]


def test_the_table_of_the_task_shows_the_sick_blocks():
    text = source("solutions/src", "04_grids_and_blockspecs").replace("float32", "f32").replace("bfloat16", "bf16")
    for name, (array, block) in surgery.SURGERY.items():
        dtype, shape = re.fullmatch(r"(\w+)\[([\d,]*)\]", array).groups()
        shape = tuple(map(int, shape.split(",")))
        assert f"| {name} | {shape} | {dtype} | {block} |" in text


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
        surgery.call_surgery(lambda: blocks)
    assert str(refused.value) and refused.value.next


def test_a_list_is_as_good_a_block_as_a_tuple():
    assert surgery.blocks_of(lambda: {name: list(block) for name, block in HEALTHY.items()}) == HEALTHY


def test_every_block_that_is_refused_is_named_at_once():
    sick = {name: block for name, (_, block) in surgery.SURGERY.items()}
    assert [text[0] for text in surgery.refused_sizes(lambda: sick)] == list("abcde")
    assert not surgery.refused_sizes(lambda: HEALTHY)
    assert not surgery.refused_sizes(lambda: HEALTHY | {"b": (8, 128)}), "a block may be larger than the array"
