"""What scratch must hold after a step: a wrong loop is told its own sentence, a right one is never asked."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from zoo import softmaxes

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds import kernel
from course_lib.judges.wrong_outputs import probing

ARGS = (softmaxes.Q[:16], softmaxes.K[:256], softmaxes.V[:256])


def scores(q, k):
    return jnp.dot(q, k[:256].T, precision=softmaxes.HIGHEST)


def weights(q, k):
    s = scores(q, k)
    return jnp.exp(s - s.max(-1, keepdims=True))


PROBES = tuple(
    judges.Probe(scratch=scratch, place=place, after=(0, 1), expect=expect, means=means, next=next_)
    for place, (scratch, expect, means, next_) in enumerate(
        (
            (
                "m_ref",
                lambda q, k, v: scores(q, k).max(-1, keepdims=True),
                "the row maximum so far",
                "keep the larger of the old maximum and this block's.",
            ),
            (
                "l_ref",
                lambda q, k, v: weights(q, k).sum(-1, keepdims=True),
                "the sum of exp(x - m) so far",
                "when the maximum grows, old sums shrink by exp(old - new).",
            ),
            (
                "acc_ref",
                lambda q, k, v: weights(q, k) @ v[:256],
                "the sum of exp(x - m) v so far",
                "when the maximum grows, old values shrink by exp(old - new).",
            ),
        )
    )
)


def said_of(fn, probes=PROBES, args=ARGS):
    return judges.JUDGES["numbers"](judges.Trial(fn, softmaxes.attention_in_jax, args, probes=probes))


def block_maximum_only(q, k, v):
    return softmaxes.attention(q, k, v, of_sum=softmaxes.not_rescaled, carried=False)


LOOPS = {
    "m_ref": (block_maximum_only, "the row maximum so far", "keep the larger"),
    "l_ref": (partial(softmaxes.attention, of_sum=softmaxes.not_rescaled), "the sum of exp(x - m) so far", "old sums"),
    "acc_ref": (
        partial(softmaxes.attention, of_values=softmaxes.not_rescaled),
        "the sum of exp(x - m) v so far",
        "old values",
    ),
}


@pytest.mark.parametrize("ref", LOOPS)
def test_a_wrong_loop_is_told_what_its_scratch_should_hold(ref):
    fn, means, tip = LOOPS[ref]
    said = said_of(fn)
    assert said.passed is False
    assert f"After step (0, 1) {ref}[" in said.message and f", {means}." in said.message
    assert tip in said.next


def test_a_right_kernel_is_never_asked(monkeypatch):
    asked = []
    monkeypatch.setattr(probing, "_values", lambda *_: asked.append(1))
    wrong = judges.Probe(scratch="m_ref", after=(0, 0), expect=lambda *_: np.zeros(1), means="0", next="")
    assert said_of(softmaxes.attention, probes=(wrong,)).passed and not asked


def test_what_a_kernel_does_not_have_is_not_asked():
    zero = np.zeros(1, np.float32)
    known = {"scratch": "l_ref", "after": (0, 1), "expect": lambda *_: zero, "means": "0", "next": "n"}
    assert "After step (0, 1) l_ref[" in said_of(LOOPS["l_ref"][0], probes=(judges.Probe(**known),)).message
    others = (
        {"scratch": "sum_ref"},
        {"after": (0, 1, 0)},
        {"after": (0, 7)},
        {"grid": (2, 2)},
        {"expect": lambda *_: np.ones(7, np.float32)},
        {"expect": lambda *_: np.zeros((ARGS[0].shape[0] // 2, 2), np.float32)},  # as many numbers, in another shape
        {"expect": lambda *_: np.zeros(1, np.int32)},
        {"expect": lambda *_: None},
    )
    said = said_of(LOOPS["l_ref"][0], probes=tuple(judges.Probe(**known | fields) for fields in others))
    assert (
        said.passed is False and "After step" not in said.message and "adds to l_ref without rescaling" in said.message
    )


def test_scratch_of_another_name_is_found_by_its_place():
    ours = dataclasses.replace(PROBES[1], scratch="running_sum")
    assert "After step (0, 1) l_ref[" in said_of(LOOPS["l_ref"][0], probes=(ours,)).message


def collected(x, late=False):
    """The sum of four blocks of rows, collected in the output; or in scratch, and written at the last step."""

    def sum_kernel(x_ref, o_ref, acc_ref):
        sum_ref = acc_ref if late else o_ref

        @pl.when(pl.program_id(0) == 0)
        def start():
            sum_ref[...] = jnp.zeros_like(sum_ref)

        sum_ref[...] += 2 * x_ref[...]

        @pl.when(pl.program_id(0) == 3)
        def store():
            o_ref[...] = sum_ref[...] - 1

    return pl.pallas_call(
        sum_kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype),
        grid=(4,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)),
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
    )(x)


@pytest.mark.parametrize("late", [False, True])
def test_an_output_is_asked_about_where_the_step_writes_it(late):
    """What an output block holds before it is written is nobody's."""
    asks = judges.Probe(scratch="o_ref", after=(1,), expect=lambda x: x[:8] + x[8:16], means="two blocks", next="n")
    fn, x = partial(collected, late=late), jnp.ones((32, 128))
    said = judges.JUDGES["numbers"](judges.Trial(fn, lambda x: x.reshape(4, 8, 128).sum(0), (x,), probes=(asks,)))
    assert said.passed is False
    assert ("After step (1,) o_ref[0, 0] is 4; it should be 2, two blocks." in said.message) != late
    assert "nan" not in said.message


def test_the_step_of_a_probe_lies_in_its_grid():
    with pytest.raises(ValueError, match=r"after is \(0, 2\), which is not a step of the grid \(1, 2\)"):
        judges.Probe(scratch="m_ref", after=(0, 2), grid=(1, 2), expect=None, means="", next="")


def running_total(x, keep=0.5):
    """Four blocks of rows, each half of the last one's total and its own numbers; slips where ``keep`` is another."""

    def total_kernel(x_ref, o_ref, total_ref):
        @pl.when(pl.program_id(0) == 0)
        def start():
            total_ref[...] = jnp.zeros_like(total_ref)

        total_ref[...] = keep * total_ref[...] + x_ref[...]
        o_ref[...] = total_ref[...]

    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(
        total_kernel,
        out_shape=x,
        grid=(x.shape[0] // 8,),
        in_specs=[spec],
        out_specs=spec,
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
    )(x)


def in_jax(x):
    step = lambda total, block: (0.5 * total + block,) * 2  # noqa: E731
    return jax.lax.scan(step, jnp.zeros((8, x.shape[1])), x.reshape(-1, 8, x.shape[1]))[1].reshape(x.shape)


def test_an_exercise_declares_its_probes():
    task = Exercise(
        id="99.1",
        title="A running total",
        kind="write",
        defines="running_total",
        hints=("one", "two", "three"),
        points=1,
        cases=lambda: [(jnp.ones((32, 128)),)],
        reference=in_jax,
        judges=("numbers",),
        probes=(
            judges.Probe(
                scratch="total_ref",
                after=(1,),
                expect=lambda x: 0.5 * x[:8] + x[8:16],
                means="half of the old total and the block",
                next="what becomes of the old total?",
            ),
        ),
    )
    assert kernel.result(task, running_total).passed
    said = kernel.result(task, partial(running_total, keep=0.25))
    assert said.message.count("After step (1,) total_ref[0, 0] is 1.25; it should be 1.5, half of the old total") == 1
    assert said.next == "what becomes of the old total?"


def test_a_declaration_with_something_else_for_probes_is_refused():
    with pytest.raises(ValueError, match="probes has .*; it is a tuple of judges.Probe"):
        Exercise(
            id="99.1",
            title="t",
            kind="write",
            defines="f",
            hints=("one", "two", "three"),
            points=1,
            cases=lambda: [(jnp.ones(8),)],
            reference=lambda x: x,
            probes=("m_ref",),
        )
