"""Lesson 18: what each project says of itself is computed, and our kernels are where its par expects them."""

import importlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_libtpu
from jax.experimental.pallas import tpu as pltpu
from lesson_files import ROOT, code_cells, edited

from course_lib import checks, chips
from course_lib.checks.kinds import golf
from course_lib.lessons.lesson_18 import ideal, open_stencil, open_top_64, rival


@pytest.fixture(autouse=True)
def a_notebook_s_settings():
    """What the first cell of a notebook sets, until the test is done."""
    checks.start()
    yield
    pltpu.set_tpu_interpret_mode(None)


PROJECTS = [
    importlib.import_module(f"course_lib.lessons.lesson_18.{file.stem}")
    for file in sorted((ROOT / "course_lib/lessons/lesson_18").glob("e*.py"))
]
OPEN = [open_stencil, open_top_64]
ON_ONE_CHIP = [project for project in PROJECTS if project.EXERCISE.mesh is None]


def name(project):
    return project.__name__.rpartition(".")[2]


def seconds(cycles):
    return cycles / chips.chip("v5e").clock_hz


@pytest.mark.parametrize("project", ON_ONE_CHIP, ids=name)
def test_par_lies_between_the_ideal_and_xla(project):
    assert project.IDEAL.seconds() < seconds(project.EXERCISE.golf.par) < rival.xla(project.EXERCISE.id).seconds


@pytest.mark.parametrize("project", ON_ONE_CHIP + OPEN, ids=name)
def test_the_ideal_has_the_matmuls_of_the_reference(project):
    counted = jax.jit(project.reference).lower(*project.LARGE).cost_analysis().get("flops", 0)
    assert project.IDEAL.flops <= counted
    assert not project.IDEAL.flops or project.IDEAL.flops > 0.8 * counted


@pytest.mark.parametrize("project", ON_ONE_CHIP + OPEN, ids=name)
def test_the_ideal_moves_every_array_once(project):
    result = jax.eval_shape(project.reference, *project.LARGE)
    bits = sum(
        a.size * (4 if a.dtype == jnp.int4 else 8 * a.dtype.itemsize) for a in jax.tree.leaves((project.LARGE, result))
    )
    assert project.IDEAL.hbm_bytes == bits // 8


@pytest.mark.sweep  # every day, test_the_ideal_has_the_matmuls_of_the_reference traces each reference
@pytest.mark.parametrize("project", PROJECTS + OPEN, ids=name)
def test_no_slip_is_right(project):
    slips = project.SLIPS if project in OPEN else project.EXERCISE.slips
    for slip in slips:
        wanted = [jax.tree.leaves(project.reference(*case))[slip.output or 0] for case in project.cases()]
        got = [jax.tree.leaves(slip.value(*case))[0] for case in project.cases()]
        assert any(not np.allclose(x, y, equal_nan=True) for x, y in zip(wanted, got, strict=True)), slip.means


def test_half_a_byte_counts_as_half():
    assert ideal.moved_once(jax.ShapeDtypeStruct((8, 128), jnp.int4), jnp.zeros(3)) == 512 + 12


def test_the_collective_matmul_lies_between_its_ideal_and_doing_one_after_the_other():
    project = PROJECTS[-1]
    assert project.ideal_s() < project.EXERCISE.golf.par / 1e9 < project.apart_s()


@needs_libtpu
@pytest.mark.sweep
@pytest.mark.parametrize("project", PROJECTS, ids=name)
def test_our_answer_passes(project):
    said = golf.result(project.EXERCISE, answer(project.EXERCISE))
    assert said.passed, str(said)
    assert said.score <= project.EXERCISE.golf.par


MUTANTS = [cell for cell in code_cells("solutions/waiting/mutants", "18_capstone") if "answer" in cell.metadata]


@needs_libtpu
@pytest.mark.sweep(one_in=6)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda cell: f"{cell.metadata['answer']}: {cell.metadata['name']}")
def test_a_wrong_answer_is_refused(mutant):
    task = next(project.EXERCISE for project in PROJECTS if project.EXERCISE.id == mutant.metadata["answer"])
    said = golf.result(task, answer(task, mutant.source))
    assert not said.passed and said.judge == mutant.metadata["judge"], str(said)
    assert re.search(mutant.metadata["says"], str(said)), str(said)


def answer(task, wrong=""):
    """Return our answer to a project, from the file that waits for the lesson's notebook, or a wrong one in its place.

    A wrong answer that holds nothing but comments is an edit of ours.
    """
    names = {}
    for cell in code_cells("solutions/waiting", "18_capstone"):
        about = cell.metadata.get("answer") or cell.metadata.get("given") or task.id
        if about == task.id and "check" not in cell.metadata and cell.source.strip()[:2] != "# ":
            code = "\n".join(line for line in cell.source.split("\n") if line.lstrip()[:4] != "### ")
            if wrong and "answer" in cell.metadata:
                code = edited(code, wrong) if all(line[:1] in ("#", "") for line in wrong.split("\n")) else wrong
            exec(code, names)
    return names[task.defines]
