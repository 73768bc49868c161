"""What is said of exponentials and running sums, and what is not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fairness import attentions, softmaxes
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from zoo.softmaxes import HIGHEST, K, Q, V, attention_in_jax

from course_lib import grid, judges
from course_lib.judges.reading import flow
from course_lib.judges.rules import softmax_rules

ARGS = (Q[:16], K[:256], V[:256])


def attention_in_a_loop(shrinks_sum, shrinks_values):
    """softmax(q @ k.T) @ v in one step; the loop over keys carries the maximum, the sum and the values."""

    def kernel(q_ref, k_ref, v_ref, o_ref):
        def turn(j, carry):
            m, total, values = carry
            s = jnp.dot(q_ref[...], k_ref[pl.ds(128 * j, 128)].T, precision=HIGHEST)
            new = jnp.maximum(m, s.max(-1, keepdims=True))
            shrink, p = jnp.exp(m - new), jnp.exp(s - new)
            total = (total * shrink if shrinks_sum else total) + p.sum(-1, keepdims=True)
            more = jnp.dot(p, v_ref[pl.ds(128 * j, 128)], precision=HIGHEST)
            return new, total, (values * shrink if shrinks_values else values) + more

        rows = q_ref.shape[0]
        begin = jnp.full((rows, 1), -1e30), jnp.zeros((rows, 1)), jnp.zeros(q_ref.shape)
        _, total, values = jax.lax.fori_loop(0, k_ref.shape[0] // 128, turn, begin)
        o_ref[...] = values / total

    return lambda q, k, v: pl.pallas_call(kernel, out_shape=q)(q, k, v)


@pytest.mark.parametrize("sum_, values, says", [(False, True, "carry[1]"), (True, False, "carry[2]"), (True, True, "")])
def test_what_a_loop_carries_must_shrink_too(sum_, values, says):
    said = judges.numbers_judge(attention_in_a_loop(sum_, values), attention_in_jax, *ARGS)
    assert said.passed is not bool(says)
    assert not says or f"{says} of the loop without rescaling what it already holds when" in said.message


def softmax_of_sums(older=False, by_maximum=False):
    """The sum of the exponentials of x in blocks of 128, over the largest: a running maximum and a running sum."""

    def kernel(x_ref, o_ref, m_ref, l_ref):
        @pl.when(pl.program_id(0) == 0)
        def begin():
            m_ref[...] = jnp.full_like(m_ref, -1e30)
            l_ref[...] = jnp.zeros_like(l_ref)

        old = m_ref[...]
        new = jnp.maximum(old, x_ref[...].max(-1, keepdims=True))
        m_ref[...] = new
        e = jnp.exp(x_ref[...] - (old if older else m_ref[...]))  # the second is the new one: it has been stored
        l_ref[...] = l_ref[...] * jnp.exp(old - new) + e.sum(-1, keepdims=True)

        @pl.when(pl.program_id(0) == pl.num_programs(0) - 1)
        def store():
            o_ref[...] = l_ref[...] / m_ref[...] if by_maximum else l_ref[...]

    return lambda x: pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], 1), x.dtype),
        grid=(x.shape[1] // 128,),
        in_specs=[pl.BlockSpec((x.shape[0], 128), lambda j: (0, j))],
        out_specs=pl.BlockSpec((x.shape[0], 1), lambda j: (0, 0)),
        scratch_shapes=[pltpu.VMEM((x.shape[0], 1), x.dtype)] * 2,
    )(x)


@pytest.mark.parametrize(
    "slip, says",
    [
        ({"older": True}, "exp(x - old) is added to it: m_ref still holds the old maximum there"),
        ({"by_maximum": True}, "l_ref is divided by m_ref, which holds the running maximum"),
        ({}, ""),
    ],
)
def test_which_maximum_is_subtracted_and_what_it_divides(slip, says):
    x = jnp.asarray(np.random.default_rng(0).normal(size=(8, 384)), jnp.float32) + 5
    said = judges.numbers_judge(
        softmax_of_sums(**slip), lambda x: jnp.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True), x
    )
    assert said.passed is not bool(says) and says in said.message, str(said)


@pytest.mark.parametrize("subject", [softmaxes, attentions], ids=lambda subject: subject.__name__)
def test_nothing_is_said_of_right_softmaxes(subject):
    """However they are written: a rule that reads code must not blame what is right."""
    for right in subject.RIGHT:
        for call in judges.Trial(right.fn, right.reference, right.args).walk.calls:
            assert softmax_rules.complaint(call) is None, right.name


def sum_of_softmaxes(x, times=2.0):
    """The sum of the softmaxes of each block of 8 rows: each is whole, and nothing is carried but their sum."""

    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def start():
            o_ref[...] = jnp.zeros_like(o_ref)

        e = jnp.exp(x_ref[...] - x_ref[...].max(-1, keepdims=True))
        o_ref[...] += times * e / e.sum(-1, keepdims=True)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, x.shape[1]), x.dtype),
        grid=(x.shape[0] // 8,),
        in_specs=[pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, x.shape[1]), lambda i: (0, 0)),
    )(x)


def test_whole_softmaxes_may_be_added_up():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(16, 128)), jnp.float32)
    said = judges.numbers_judge(sum_of_softmaxes, lambda x: jax.nn.softmax(x, -1).reshape(2, 8, 128).sum(0), x)
    assert said.passed is False and "maximum" not in said.message and "2 times the right one" in said.message


def test_a_kernel_that_writes_half_is_not_told_about_exp():
    def kernel(x_ref, o_ref):
        e = jnp.exp(x_ref[...])
        o_ref[:4] = (e / e.sum(-1, keepdims=True))[:4]

    said = judges.numbers_judge(lambda x: pl.pallas_call(kernel, out_shape=x)(x), jax.nn.softmax, jnp.ones((8, 128)))
    assert said.passed is False and "Nothing has written o_ref[4:8]" in said.message


def test_operations_are_listed_through_branches_and_loops():
    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def _():
            o_ref[...] = jax.lax.fori_loop(0, 3, lambda n, x: jnp.sin(x), x_ref[...])

    fn = pl.pallas_call(kernel, out_shape=jnp.ones((8, 128)), grid=(2,))
    ops, (x_ref, o_ref), carried = flow.operations(grid.walk(fn, jnp.ones((8, 128))).calls[0].kernel)
    stored = next(op.inputs[1] for op in ops if op.name == "swap" and op.inputs[0] == o_ref)
    assert stored in flow.spread(ops, flow.read(ops, x_ref))
    assert "carry[0] of the loop" in carried.values() and any(op.name == "sin" for op in ops)
