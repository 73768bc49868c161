"""Lesson 18: what each project says of itself is computed."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lesson_files import ROOT

from course_lib import chips
from course_lib.checks import exercise, own
from course_lib.checks.kinds.project import moved_once
from course_lib.lessons.lesson_18 import open_stencil, open_top_64, rival

MODULES = [
    importlib.import_module(f"course_lib.lessons.lesson_18.{file.stem}")
    for file in sorted((ROOT / "course_lib/lessons/lesson_18").glob("e*.py"))
]
PROJECTS = [module for module in MODULES if module.EXERCISE.project]
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
    assert moved_once(jax.ShapeDtypeStruct((8, 128), jnp.int4), jnp.zeros(3)) == 512 + 12


def test_the_collective_matmul_lies_between_its_ideal_and_doing_one_after_the_other():
    project = PROJECTS[-1]
    assert project.ideal_s() < project.EXERCISE.golf.par / 1e9 < project.apart_s()
    assert project.EXERCISE.project.ideal.seconds() == project.ideal_s()


@pytest.mark.parametrize("name, module", [("stencil", open_stencil), ("top_64", open_top_64)])
def test_an_open_project_is_declared_with_its_bound(name, module, monkeypatch, capsys):
    monkeypatch.setattr(exercise, "OWN", {})
    monkeypatch.setattr(own, "OWN", exercise.OWN)
    module.declare()
    task = exercise.exercise(f"own.{name}")
    assert task.project.ideal == module.IDEAL and task.golf.par == int(
        rival.xla(name).seconds / 2 * chips.chip("v5e").clock_hz
    )
    assert f"own.{name} on a v5e: the ideal is" in capsys.readouterr().out
