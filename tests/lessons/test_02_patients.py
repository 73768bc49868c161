"""Lesson 2: what the exercises show is what their answers are proved with."""

import ast
import inspect
import textwrap

import jax
import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from lesson_files import code_cells

from course_lib import compiler
from course_lib.checks.exercise import exercise
from course_lib.lessons.lesson_02 import gate, operations, patients

CELLS = code_cells("solutions/src", "02_the_machine")


def given(id: str) -> str:
    """The code of the given cell of an exercise."""
    return next(cell.source for cell in CELLS if cell.metadata.get("given") == id)


def assigned(id: str, name: str) -> ast.expr:
    """What a given cell assigns to a name."""
    assignments = [node for node in ast.parse(given(id)).body if isinstance(node, ast.Assign)]
    return next(node.value for node in assignments if getattr(node.targets[0], "id", "") == name)


def function(source: str, name: str) -> str:
    """A function's code without its docstring and its comments, whatever it is called."""
    (found,) = (n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef) and n.name == name)
    found.name = "function"
    found.body = found.body[1:] if ast.get_docstring(found) else found.body
    return ast.unparse(found)


@pytest.mark.parametrize(
    "id, shown, used",
    [("02.6", "shares", patients.shares), ("02.10", "gated_rows", gate.gated_rows), ("02.10", "slow_gated", gate.slow)],
)
def test_the_kernels_that_are_shown_are_those_that_are_compared(id, shown, used):
    theirs = function(textwrap.dedent(inspect.getsource(used)), used.__name__)
    assert function(given(id), shown) == theirs


def test_the_settings_that_are_shown_are_those_of_the_patients():
    settings = ast.literal_eval(assigned("02.6", "settings"))
    assert {name: (shape, *setting.values()) for name, (shape, setting) in settings.items()} == patients.PATIENTS


def test_the_ten_operations_that_are_shown_are_those_that_are_asked_about():
    assert tuple(map(ast.literal_eval, assigned("02.5-look", "ten").keys)) == operations.NAMES


@needs_libtpu
def test_each_patient_has_one_cure():
    """It leaves less than three fifths of the time, the others more than four fifths."""
    for name in patients.PATIENTS:
        times = {cure: patients.report(name, cure).seconds for cure in ("", *patients.CURES)}
        best = patients.best_cure(name)
        assert times[best] < 0.6 * times[""]
        assert all(times[cure] > 0.8 * times[""] for cure in patients.CURES if cure != best), (name, times)


@needs_libtpu
def test_02_7_quotes_the_compiler():
    task = exercise("02.7")
    names = {"jax": jax, "jnp": jnp, "pl": pl, "pltpu": pltpu}
    exec(task.listing, names)
    said = compiler.compile_tpu(names["count"], jax.ShapeDtypeStruct((16, 128), jnp.float32), simulate=False).error
    assert f'"{said.what}"' in task.asks.next


@needs_libtpu
def test_a_narrow_head_takes_as_long_as_one_that_fills_an_mxu():
    """What 02.3 says of K = 32: scores in VMEM, the same blocks at every step, so that nothing is copied between."""

    def scores(width, steps):
        q = jax.ShapeDtypeStruct((512, width), jnp.bfloat16)
        block = pl.BlockSpec(q.shape, lambda i: (0, 0))

        def kernel(q_ref, k_ref, o_ref):
            o_ref[...] = jnp.dot(q_ref[...], k_ref[...].T, preferred_element_type=jnp.float32)

        out = jax.ShapeDtypeStruct((512, 512), jnp.float32)
        call = pl.pallas_call(
            kernel,
            out_shape=out,
            grid=(steps,),
            in_specs=[block, block],
            out_specs=pl.BlockSpec((512, 512), lambda i: (0, 0)),
        )
        return compiler.compile_tpu(call, q, q).cycles

    narrow, filled = (scores(width, 12) - scores(width, 4) for width in (32, 128))
    assert narrow == pytest.approx(filled, rel=0.02)
