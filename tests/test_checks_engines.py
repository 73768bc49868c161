"""Exercises for SparseCores and GPUs: right and wrong answers, a budget, golf, and the same from the grader's box."""

import dataclasses
import re

import jax.numpy as jnp
import pytest
from checked import said

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.golf import Golf

SAYS = {
    "rows": r"17\.2 passed: protocol, numbers.* and budget agree",
    "rows: by one core": "the protocol judge refused it(?s:.)*Subcore .core 0, subcore 0. .*writes o_hbm",
    "rows: all indices": r"the budget judge refused it for a v6e(?s:.)*The SparseCores read \d{3},\d{3} bytes",
    "rows: reversed": "the numbers judge refused it(?s:.)*it should be",
    "rows: doubled outside": "part of it is not in the kernel(?s:.)*outside the kernel: div, mul",
    "rows: XLA's": "no kernel on SparseCores",
    "rows: empty": "17.2 not attempted",
    "rows: a number": "is the number 3, not a function",
    "rows: it raises": "NameError|nowhere",
    "rows: golf": r"passed: 1,052,672 bytes; par 1,100,000",
    "rows: golf above par": r"above par.*\n?.*1,179,648 bytes of HBM; par is 1,100,000",
    "doubled": "17.6 passed: numbers(,| and) races",
    "doubled: no commit": "the races judge refused it(?s:.)*commit_smem",
    "doubled: tripled": "the numbers judge refused it",
    "doubled: outside": "outside the kernel: mul",
    "doubled: only the kernel is empty": "17.6 not attempted",
    "multiplied": "17.7 passed: numbers(,| and) races",
    "multiplied: one arrival": "the (races|numbers) judge refused it",
}


@pytest.mark.parametrize("name", SAYS)
def test_the_check_and_the_box_say_the_same_of_an_answer(name):
    check, box, outcome, score = said("checked_engines.py")[name]
    for text in (check, box):
        assert re.search(SAYS[name], text), text
    assert (outcome == "passed") == ("passed" in SAYS[name])
    assert bool(score) == ("golf" in name)


RIGHT = {
    "id": "17.2", "title": "Rows", "kind": "write", "defines": "rows", "hints": ("a", "b", "c"), "points": 1,
    "cases": lambda: [(jnp.ones((32, 128)),)], "reference": lambda x: x, "engine": "sparse_core", "chips": ("v6e",),
}  # fmt: skip
FOR_A_GPU = RIGHT | {"engine": "gpu", "chips": ("h100",)}


@pytest.mark.parametrize(
    "declared, change, says",
    [
        (RIGHT, {"engine": "npu"}, "engine is 'npu'; it may be sparse_core or gpu"),
        (RIGHT, {"chips": ("v5e",)}, "chips has 'v5e'; with engine='sparse_core' there are v5p, v6e, tpu7x"),
        (FOR_A_GPU, {"chips": ("v6e",)}, "chips has 'v6e'; with engine='gpu' there are a100"),
        (RIGHT, {"gradient": judges.Gradient()}, "gradient is for kernels on a TensorCore"),
        (RIGHT, {"budget": judges.Budget(spills=0)}, "SparseCores have hbm_bytes"),
        (FOR_A_GPU, {"budget": judges.Budget(hbm_bytes=1)}, "budget limits what nobody counts"),
        (RIGHT, {"kind": "golf", "golf": Golf(unit="cycles", par=1)}, 'golf counts cycles .*; it counts "bytes"'),
        (
            RIGHT,
            {"engine": "", "chips": ("v5e",), "advise": lambda verdict: ""},
            "advise is for kernels on another engine",
        ),
        (FOR_A_GPU, {"kind": "golf", "golf": Golf(unit="bytes", par=1)}, "on SparseCores alone"),
    ],
)
def test_a_declaration_that_contradicts_its_engine_is_refused(declared, change, says):
    assert Exercise(**declared).arguments()
    with pytest.raises(ValueError, match=says):
        Exercise(**declared | change)


def test_an_engine_is_for_kernels():
    with pytest.raises(ValueError, match="engine are for kernels"):
        dataclasses.replace(Exercise(**RIGHT), kind="choose")
