"""What holds for every family: a reference and blocks_for of the op's own arguments, and one rule of legal blocks."""

import inspect
import pathlib
import subprocess
import sys

import jax.numpy as jnp
import kernel_calls
import page_calls
import pytest
from kernel_calls import CALLS, module

from course_lib import cost, grid
from course_lib.kernels import elementwise, matmul, norm, one_page, reduce, scan, softmax
from course_lib.kernels.common import legal

OPS = [(family, op) for family in CALLS for op in CALLS[family]]
WITH_BLOCKS = [(family, op) for family, op in OPS if op != "matmul_one_block"]
HOW = {"blocks", "precision", "residuals", "layout"}  # how an op computes, not what


def beside(family, op, what):
    """``reference`` or ``blocks_for`` of an op: under the op's name where its family has several that differ."""
    return getattr(module(family), f"{op}_{what}", None) or getattr(module(family), what)


def arguments(family, op):
    """What the op is called with, of some size, so that blocks are not simply everything."""
    return kernel_calls.arguments(family, op, jnp.zeros((1024, 1280)), jnp.zeros((1280, 1024)))


def test_the_families_are_those_whose_ops_are_called_here():
    assert set(CALLS) == set(one_page.families()) - page_calls.TRIED_ELSEWHERE


@pytest.mark.parametrize("family, op", OPS)
def test_the_reference_takes_what_the_op_takes(family, op):
    ours = inspect.signature(getattr(module(family), op)).parameters
    reference = inspect.signature(beside(family, op, "reference")).parameters
    assert list(reference) == [name for name in ours if name in reference]
    assert set(ours) - set(reference) <= HOW
    assert all(reference[name].kind == ours[name].kind for name in reference)


def walked(fn, args, named):
    """What the op's first kernel is handed at each step, block by block."""
    return grid.walk(lambda x: fn(x, *args[1:], **named), args[0]).calls[0].operands


@pytest.mark.parametrize("family, op", WITH_BLOCKS)
def test_blocks_for_the_same_arguments_are_those_the_op_chooses(family, op):
    fn, (args, named) = getattr(module(family), op), arguments(family, op)
    blocks_for = beside(family, op, "blocks_for")
    blocks = blocks_for(*args, **named)
    assert isinstance(blocks, module(family).Blocks)
    chosen, given = walked(fn, args, named), walked(fn, args, {**named, "blocks": blocks})
    assert [operand.block_shape for operand in chosen] == [operand.block_shape for operand in given]
    takes = inspect.signature(fn).parameters.values()
    options = {p.name: p.default for p in takes if p.kind == p.KEYWORD_ONLY and p.name not in ("blocks", "layout")}
    assert blocks_for(*args, **{**options, **named}) == blocks, "it takes every option of the op"


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.int8], ids=lambda d: jnp.dtype(d).name)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_rule_is_that_of_cost(rank, dtype):
    """``kernels`` may not import ``cost``: so the rule stands in both, and here they meet."""
    length = 5000
    for axis in range(rank):
        ours = set(range(legal.step(axis, rank, dtype), length, legal.step(axis, rank, dtype)))
        theirs = set(cost.legal_sizes(length, axis=axis, rank=rank, dtype=dtype, even=False)) - {length}
        assert ours == theirs if rank > 1 else ours <= theirs
        assert legal.step(axis - rank, rank, dtype) == legal.step(axis, rank, dtype)


@pytest.mark.parametrize("family, op", OPS)
def test_every_block_is_legal(family, op):
    """Those that are chosen, and the smallest that ``Blocks`` allows."""
    fn, (args, named) = getattr(module(family), op), arguments(family, op)
    smallest = {field: smallest_legal(family, field) for field in fields(family)}
    for more in ({}, {"blocks": module(family).Blocks(**smallest)} if smallest else {}):
        for operand in walked(fn, args, {**named, **more}):
            if operand.memory_space != "vmem":
                continue
            rank = len(operand.shape)
            for axis, (size, length) in enumerate(zip(operand.block_shape, operand.shape, strict=True)):
                legal_there = cost.is_legal_size(size, length, axis=axis, rank=rank, dtype=operand.dtype)
                assert legal_there, f"{operand.name}: {operand.block_shape} of {operand.shape}"


def fields(family):
    blocks = getattr(module(family), "Blocks", None)
    return list(inspect.signature(blocks).parameters) if blocks else []


def smallest_legal(family, field):
    """By trial: what ``Blocks`` itself does not refuse. Along the last axis cumsum refuses more."""
    for size in (128,) if family == "scan" else (8, 128):
        try:
            module(family).Blocks(**dict.fromkeys(fields(family), 1024) | {field: size})
        except ValueError:
            continue
        return size
    raise AssertionError(field)


@pytest.mark.parametrize(
    "blocks, given, says",
    [
        (
            matmul.Blocks,
            {"bm": 100, "bk": 500, "bn": 300},
            "bm of 8, bk of 128, bn of 128. Nearest legal: bm=96, bk=512, bn=256.",
        ),
        (elementwise.Blocks, {"bm": 7, "bn": 100}, "bm of 8, bn of 128. Nearest legal: bm=8, bn=128."),
        (reduce.Blocks, {"bm": 8, "bn": 128}, "bm of 128, bn of 128. Nearest legal: bm=128, bn=128."),
        (scan.Blocks, {"bm": 128, "bn": 0}, "bm of 8, bn of 128. Nearest legal: bm=128, bn=128."),
        (softmax.Blocks, {"bm": 12, "bn": None}, "bm of 8. Nearest legal: bm=16."),
        (norm.Blocks, {"bm": -8}, "bm of 8. Nearest legal: bm=8."),
    ],
)
def test_illegal_blocks_name_the_nearest_legal(blocks, given, says):
    sizes = ", ".join(f"{name}={size}" for name, size in given.items())
    with pytest.raises(ValueError) as error:
        blocks(**given)
    assert str(error.value) == f"Blocks({sizes}) is not legal: each must be a multiple, {says}"


def test_blocks_have_keywords_only():
    """(bm, bk, bn) or (bm, bn, bk)? Nobody needs to know."""
    with pytest.raises(TypeError):
        matmul.Blocks(128, 128, 128)


def test_rows_of_one_byte_come_in_32s():
    """The compiler refuses 8 rows of int8, and so do we, with the nearest; the whole axis will do."""
    x, small = jnp.zeros((96, 300)), elementwise.Blocks(bm=8, bn=128)
    with pytest.raises(ValueError, match="not legal for int8: each must be a multiple, bm of 32.*Nearest legal: bm=32"):
        elementwise.cast(x, jnp.int8, blocks=small)
    assert elementwise.cast(x[:8], jnp.int8, blocks=small).shape == (8, 300)
    assert not cost.is_legal_size(8, 96, axis=0, rank=2, dtype=jnp.int8)


def test_annotations_hold_while_kernels_are_traced():
    """The shapes and dtypes written beside arguments and refs, checked by beartype in a process of its own."""
    script = pathlib.Path(__file__).parent / "annotated_kernels.py"
    out = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr[-2000:]
    assert out.stdout == "TypeCheckError\n" * 3, "the annotations were not checked at all"
