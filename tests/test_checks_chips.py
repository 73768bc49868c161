"""Exercises for several chips: right and wrong answers, golf, and the same from the box of the grader."""

import dataclasses
import re

import jax.numpy as jnp
import pytest
from checked import said
from jax.sharding import PartitionSpec as P

from course_lib import compiler, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.golf import Golf

SAYS = {
    "right": "16.2 passed: protocol, numbers",
    "no wait for what is sent": "the protocol judge refused it.*may have left the kernel",
    "to the left": "the numbers judge refused it.*on device 0",
    "doubled outside": "part of it is not in the kernel.*outside the kernel: div, mul",
    "XLA's": "It runs no Pallas kernel.*make_async_remote_copy|uses ppermute, which is for several devices",
    "XLA's, beside a kernel that cannot be read": "part of it is not in the kernel.*outside the kernel: .*psum",
    "empty": "16.2 not attempted",
    "a number": "is the number 3, not a function",
    "it raises": "NameError|nowhere",
    "4 MiB below par": r"passed: \d\d,\d{3} ns, predicted \(model\); par 200,000",
    "a store takes a millisecond": r"passed: 1,00\d,\d{3} ns, predicted \(model\); par 2,000,000",
    "4 MiB above par": r"above par.*\d\d,\d{3} ns, predicted \(model\); par is 90,000. .*busiest is link . to ., 9\d %",
}


@pytest.mark.parametrize("name", SAYS)
def test_the_check_and_the_box_say_the_same_of_an_answer(name):
    check, box, outcome, score = said("checked_chips.py")[name]
    for text in (check, box):
        assert re.search(SAYS[name], text, re.DOTALL), text
    assert (outcome == "passed") == (name in ("right", "4 MiB below par", "a store takes a millisecond"))
    assert bool(score) == name.startswith(("4 MiB", "a store"))
    if name == "right" and compiler.libtpu_version() is not None:
        assert check == "16.2 passed: protocol, numbers and compiler agree."


RIGHT = {
    "id": "16.2", "title": "To the right", "kind": "write", "defines": "permute", "hints": ("a", "b", "c"), "points": 1,
    "cases": lambda: [(jnp.ones((32, 128)),)], "reference": lambda x: x,
    "mesh": judges.Mesh(in_specs=(P("d"),), out_specs=P("d")),
}  # fmt: skip


@pytest.mark.parametrize(
    "change, says",
    [
        ({"mesh": 4}, "mesh is 4; it is a judges.Mesh"),
        ({"budget": judges.Budget(cycles=1)}, "budget is for kernels on one chip"),
        ({"gradient": judges.Gradient()}, "gradient is for kernels on one chip"),
        ({"kind": "golf", "golf": Golf(unit="bytes", par=1)}, 'golf counts bytes; with a mesh it counts "ns"'),
    ],
)
def test_a_declaration_that_contradicts_its_mesh_is_refused(change, says):
    assert Exercise(**RIGHT).mesh.sizes == {"d": 4}
    with pytest.raises(ValueError, match=says):
        Exercise(**RIGHT | change)


def test_ns_are_for_a_mesh():
    with pytest.raises(ValueError, match="golf counts ns; without a mesh"):
        dataclasses.replace(Exercise(**RIGHT), mesh=None, kind="golf", golf=Golf(unit="ns", par=1))
