"""What the judges of one trial share, and what they must not."""

import collections
import dataclasses
import functools

import jax
import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from sample_kernels import matmul
from test_judges import N, blocked, vectors
from test_judges_garbage import row_sums

from course_lib import grid, judges
from course_lib.checks.exercise import exercise
from course_lib.checks.kinds import kernel
from course_lib.judges import trial


@pytest.fixture
def counted(monkeypatch):
    """How often a function was traced, a reference evaluated, and a run on the CPU compiled."""
    counts: collections.Counter[str] = collections.Counter()

    def counting(name, fn):
        def call(*args, **settings):
            counts[name] += 1
            return fn(*args, **settings)

        return call

    monkeypatch.setattr(trial.grid, "trace_with_result", counting("traces", grid.trace_with_result))
    monkeypatch.setattr(trial, "expected", counting("references", trial.expected))
    monkeypatch.setattr(grid, "run", counting("compiled runs", grid.run))  # called while JAX compiles a run
    return counts


def test_all_judges_share_one_trace_and_one_reference(counted):
    asked = judges.Trial(blocked(), jnp.add, vectors())
    for name in ("numbers", "simulator", "races"):
        assert judges.JUDGES[name](asked).passed
    assert counted == {"traces": 1, "references": 1, "compiled runs": 3}


@needs_libtpu
def test_four_judges_trace_a_matmul_once_and_read_its_copies_once(monkeypatch):
    calls = collections.Counter()

    def counting(name, fn):
        def call(*args, **settings):
            calls[name] += 1
            return fn(*args, **settings)

        return call

    monkeypatch.setattr(trial.copies, "complaint", counting("copies", trial.copies.complaint))
    monkeypatch.setattr(trial.order, "revisit_in_a_pipeline", counting("pipelines", trial.order.revisit_in_a_pipeline))
    traced = counting("traces", functools.partial(matmul, blocks=(128, 128, 128)))
    said = judges.judge(traced, jnp.dot, jnp.ones((256, 128)), jnp.ones((128, 256)))
    assert [verdict.passed for verdict in said] == 4 * [True] and said[-1].report.cycles
    assert calls == {"traces": 1, "copies": 1, "pipelines": 1}


def test_a_kernel_that_nobody_can_trace_is_refused_by_each_judge_and_needs_no_compiler():
    def broken(x, y):
        raise TypeError("no such thing")

    for judge in judges.JUDGES.values():
        said = judge(judges.Trial(broken, jnp.add, vectors()))
        assert said.passed is False and "no such thing" in said.message


def test_a_chip_that_is_not_known_is_an_error_and_no_verdict():
    with pytest.raises(ValueError, match="chip='v99' is not known"):
        judges.judge(blocked(), jnp.add, *vectors(), chip="v99")


def test_cases_of_one_shape_share_the_trace_and_the_runs_and_not_the_reference(counted):
    first = judges.Trial(blocked(), jnp.add, vectors())
    second = judges.Trial(blocked(), jnp.add, (jnp.ones(N), jnp.zeros(N)), like=first)
    assert all(judges.JUDGES["numbers"](each).passed for each in (first, second))
    assert counted == {"traces": 1, "references": 2, "compiled runs": 1}
    wrong = judges.Trial(blocked(), jnp.subtract, (jnp.ones(N), jnp.ones(N)), like=first)
    assert judges.JUDGES["numbers"](wrong).passed is False, "its own arguments and reference"


def test_an_exercise_is_traced_once_a_shape(counted):
    def add_vectors(x, y):
        from jax.experimental import pallas as pl

        def add(x_ref, y_ref, o_ref):
            o_ref[...] = x_ref[...] + y_ref[...]

        return pl.pallas_call(add, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)

    task = dataclasses.replace(exercise("01.1"), judges=("numbers", "simulator", "races"))
    shapes = {tuple(a.shape for a in case) for case in task.arguments()}
    assert kernel.result(task, add_vectors).passed
    assert counted["traces"] == len(shapes) < counted["references"] == len(task.arguments())


def test_what_was_compiled_for_nan_runs_with_other_garbage_too(counted):
    x = jnp.arange(16.0 * 300).reshape(16, 300)
    before = judges.Trial(row_sums(jnp.nan_to_num), lambda x: x.sum(axis=1, keepdims=True), (x,))
    assert judges.JUDGES["numbers"](before).passed
    for _ in range(2):  # the second time it is compiled
        said = judges.JUDGES["simulator"](dataclasses.replace(before, like=before))
        assert said.passed is False and "With 1234.5 there instead" in said.message
        assert (counted["traces"], counted["compiled runs"]) == (1, 2)


def test_another_chip_is_another_trace():
    seen = []

    def asks_the_chip(x, y):
        seen.append(jax.sharding.get_abstract_mesh().abstract_device.device_kind)
        return blocked()(x, y)

    v5e = judges.Trial(asks_the_chip, jnp.add, vectors())
    v6e = dataclasses.replace(v5e, chip="v6e")
    assert v5e.walk.calls and v6e.walk.calls and len(set(seen)) == 2, seen


def test_a_refusal_names_the_row_of_its_error():
    def broken(x, y):
        return blocked(lambda x_ref, y_ref, o_ref: o_ref.__setitem__(..., x_ref + y_ref))(x, y)

    assert judges.numbers_judge(broken, jnp.add, *vectors()).reason
    assert judges.numbers_judge(blocked(), jnp.subtract, *vectors()).reason == "", "no error, but wrong numbers"
