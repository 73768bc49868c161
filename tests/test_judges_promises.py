"""judges.promises: pl.multiple_of is believed by the compiler; here it is looked at."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from zoo.promises import looked_up, windows

from course_lib import compiler, grid, judges
from course_lib.judges.reading import promises

X = np.arange(64 * 256, dtype=np.float32).reshape(64, 256)


def said(fn, *args):
    complaint = promises.complaint(grid.walk(fn, *args))
    return complaint and complaint.what


@pytest.mark.parametrize(
    "stride, at",
    [
        (8, None),
        (16, None),
        (12, "At step (1,) start is 12, so on a chip the access may begin at 8 instead."),
        (4, "(1,) start is 4,"),
    ],
)
def test_a_promise_about_the_grid_index_is_evaluated_at_every_step(stride, at):
    what = said(functools.partial(windows, stride=stride), X)
    assert what is None if at is None else at in what


def test_a_promise_about_a_prefetched_number_is_evaluated_turn_by_turn():
    assert said(looked_up, np.array([16, 0, 24], np.int32), X) is None
    assert "Here start is 20," in said(looked_up, np.array([16, 0, 20], np.int32), X)


def first_rows(x, kernel):
    return pl.pallas_call(kernel, out_shape=jnp.zeros((8, 256)), grid=(1,))(x)


def from_an_array(x_ref, o_ref):
    o_ref[...] = x_ref[pl.ds(pl.multiple_of(x_ref[0, 0].astype(jnp.int32), 8), 8), :]


def under_an_open_condition(x_ref, o_ref):
    o_ref[...] = x_ref[0:8, :]

    @pl.when(x_ref[0, 0] > 1)
    def _():
        o_ref[...] = x_ref[pl.ds(pl.multiple_of(4 + pl.program_id(0), 8), 8), :]


def under_a_condition_that_never_holds(x_ref, o_ref):
    o_ref[...] = x_ref[0:8, :]

    @pl.when(pl.program_id(0) > 0)
    def _():
        o_ref[...] = x_ref[pl.ds(pl.multiple_of(4 * pl.program_id(0) + 4, 8), 8), :]


@pytest.mark.parametrize("kernel", [from_an_array, under_an_open_condition, under_a_condition_that_never_holds])
def test_what_only_a_run_can_tell_or_what_never_happens_is_not_refused(kernel):
    assert said(functools.partial(first_rows, kernel=kernel), X) is None


def test_several_divisors_are_all_promised():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[pl.ds(pl.multiple_of(8 + pl.program_id(0), (8, 16)), 8), :]

    assert "multiple_of(start, 16)" in said(functools.partial(first_rows, kernel=kernel), X)


def test_only_the_simulator_judge_refuses_a_false_promise():
    twelve = functools.partial(windows, stride=12)
    verdicts = judges.judge(twelve, lambda x: x[np.arange(4)[:, None] * 12 + np.arange(8)].reshape(32, -1), X)
    assert [(v.judge, v.passed) for v in verdicts] == [("numbers", True), ("simulator", False)]
    assert "multiple_of(start, 8)" in verdicts[-1].message and "pltpu.roll" in verdicts[-1].next
    if compiler.libtpu_version():
        assert compiler.compile_tpu(twelve, X, simulate=False).ok


def test_a_pipeline_inside_a_kernel_promises_what_holds():
    """emit_pipeline promises of its own; none of them may be refused, at a ragged edge neither."""

    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    def kernel(x_hbm, o_hbm):
        spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
        pltpu.emit_pipeline(body, grid=(3,), in_specs=[spec], out_specs=[spec])(x_hbm, o_hbm)

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    x = jnp.zeros((20, 128))
    walk = grid.walk(lambda x: pl.pallas_call(kernel, out_shape=x, in_specs=[anywhere], out_specs=anywhere)(x), x)
    names = {eqn.primitive.name for eqn in grid.equations(walk.calls[0].kernel)}
    assert "multiple_of" in names
    assert promises.complaint(walk) is None
