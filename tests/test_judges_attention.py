"""Slips in attention are found in kernels of any shape and name; and nobody is told of one that was not made."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from sweeps import daily
from zoo import attention as zoo
from zoo.arrays import normal

from course_lib import judges
from course_lib.judges.slips import mask_slips, online_softmax, reference_softmax
from course_lib.judges.slips.online_softmax import Recurrence
from course_lib.kernels import attention as ours

HIGHEST = lax.Precision.HIGHEST
ARGS = tuple(normal(2, 2, 96, 24, seed=seed) for seed in (1, 2, 3))  # batch, heads, positions, numbers of each
TILE = 32


def as_it_is(x):
    return x


def streaming(
    queries,
    keys,
    values,
    shrink=lambda old, new: jnp.exp2(old - new),
    visible=lambda q, k: q >= k,
    scores=as_it_is,
    weights=as_it_is,
    meets=as_it_is,
    end=lambda above, below: above / below,
):
    """Causal attention as somebody else writes it: base 2, other names, a loop, three tiles of 32."""
    rate = queries.shape[-1] ** -0.5 * 1.4426950408889634

    def body(a_ref, b_ref, c_ref, out_ref):
        first = pl.program_id(2) * TILE

        def tile(n, state):
            top, below, above = state
            here = pl.ds(n * TILE, TILE)
            products = jnp.dot(a_ref[...], b_ref[here].T, precision=HIGHEST, preferred_element_type=jnp.float32)
            t = scores(rate * products)
            row, column = (lax.broadcasted_iota(jnp.int32, t.shape, axis) for axis in (0, 1))
            t = jnp.where(visible(first + row, n * TILE + column), t, -1e9)
            higher = jnp.maximum(top, jnp.max(t, 1, keepdims=True))
            w = weights(jnp.exp2(t - higher))
            f = shrink(top, higher)
            return (
                higher,
                below * f + w.sum(1, keepdims=True),
                above * f + jnp.dot(meets(w), c_ref[here], precision=HIGHEST),
            )

        begin = jnp.full((TILE, 1), -1e9), jnp.zeros((TILE, 1)), jnp.zeros((TILE, queries.shape[-1]))
        _, below, above = lax.fori_loop(0, keys.shape[2] // TILE, tile, begin)
        out_ref[...] = end(above, below).astype(out_ref.dtype)

    rows = pl.BlockSpec((None, None, TILE, queries.shape[-1]), lambda b, h, i: (b, h, i, 0))
    whole = pl.BlockSpec((None, None, *keys.shape[2:]), lambda b, h, i: (b, h, 0, 0))
    grid = (*queries.shape[:2], queries.shape[2] // TILE)
    return pl.pallas_call(body, out_shape=queries, grid=grid, in_specs=[rows, whole, whole], out_specs=rows)(
        queries, keys, values
    )


def by_jax_nn(q, k, v):
    q, k, v = (jnp.swapaxes(x, 1, 2) for x in (q, k, v))
    out = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    return jnp.swapaxes(out, 1, 2)


def by_hand(q, k, v):
    """The division last, and the mask as hidden keys."""
    s = jnp.einsum("bhsd,bhtd->bhst", q * q.shape[-1] ** -0.5, k, precision=HIGHEST)
    hidden = jnp.triu(jnp.ones(s.shape[-2:], bool), 1)
    s = jnp.where(hidden, -1e30, s)
    p = jnp.exp(s - s.max(-1, keepdims=True))
    return jnp.einsum("bhst,bhtd->bhsd", p, v, precision=HIGHEST) / p.sum(-1, keepdims=True)


REFERENCES = {"jax.nn": by_jax_nn, "by hand": by_hand, "ours": partial(ours.reference, causal=True)}


@pytest.mark.parametrize("reference", daily("by hand", of=REFERENCES))
def test_a_right_kernel_of_another_style_passes(reference):
    assert judges.numbers_judge(streaming, REFERENCES[reference], *ARGS).passed


SLIPS = {
    "multiplied by exp(m_old - m_new), but the exponentials": {"shrink": lambda old, new: jnp.exp(old - new)},
    "a query does not see the key at its own position": {"visible": lambda q, k: q > k},
    "counts queries from the beginning of their block of 32": {"visible": lambda q, k: q % TILE >= k},
}
MORE_SLIPS = {
    "of each block, 32 x 32, are k @ q.T": {"scores": jnp.transpose},
    "sums over the queries, axis 0 of p": {"meets": jnp.transpose},
    "acc is not divided by l": {"end": lambda above, below: above},
    "acc is multiplied by l": {"end": lambda above, below: above * below},
}


# Every day one slip of the mask under one reference; those of the recurrence are in the zoo every day.
@pytest.mark.parametrize(
    "reference, says",
    daily(
        *list(zip(REFERENCES, SLIPS, strict=True))[1:2],
        of=[(reference, says) for reference in REFERENCES for says in SLIPS],
    ),
)
def test_slips_are_found_whatever_the_reference_looks_like(reference, says):
    said = judges.numbers_judge(partial(streaming, **SLIPS[says]), REFERENCES[reference], *ARGS)
    assert said.passed is False and says in said.message, said.message


# One before the softmax and one behind it; the others are the same two in other places.
@pytest.mark.parametrize("says", daily("of each block, 32 x 32, are k @ q.T", "acc is not divided by l", of=MORE_SLIPS))
def test_slips_around_the_two_matmuls_are_found(says):
    said = judges.numbers_judge(partial(streaming, **MORE_SLIPS[says]), by_hand, *ARGS)
    assert said.passed is False and says in said.message, said.message


OTHERS = {
    "k and v are swapped": lambda q, k, v: streaming(q, v, k),
    "v is read where k should be": lambda q, k, v: streaming(q, v, v),
    "scores are multiplied by sqrt": partial(streaming, scores=lambda s: 24 * s),
}


@pytest.mark.parametrize("says", daily("v is read where k should be", of=OTHERS))
def test_other_arguments_and_another_scale_are_found(says):
    said = judges.numbers_judge(OTHERS[says], by_hand, *ARGS)
    assert said.passed is False and says in said.message, said.message


@pytest.mark.parametrize(
    "what, dtype", daily(("weights", "float32"), of=[("scores", "bfloat16"), ("weights", "float32")])
)
def test_what_is_rounded_on_the_way_is_refused(what, dtype):
    """To bf16 and back, of which XLA for the CPU would make nothing, and the chip does it."""
    args = [x.astype(dtype) for x in ARGS]
    assert judges.numbers_judge(streaming, REFERENCES["ours"], *args).passed
    rounding = {what: lambda x: x.astype(jnp.bfloat16).astype(x.dtype)}
    said = judges.numbers_judge(partial(streaming, **rounding), REFERENCES["ours"], *args)
    assert said.passed is False and "in bfloat16, which has 8 bits" in said.message, said.message


def test_a_factor_that_is_rounded_is_named_and_a_reference_may_say_so():
    """As every flash attention of bf16 rounds its exponentials; here one that is turned round before the product."""

    def body(x_ref, y_ref, o_ref):
        factor = jnp.exp(x_ref[...].astype(jnp.float32)).astype(jnp.bfloat16).T
        o_ref[...] = jnp.dot(factor, y_ref[...], preferred_element_type=jnp.float32)

    def product(x, y, rounded=as_it_is):
        x, y = x.astype(jnp.float32), y.astype(jnp.float32)
        return jnp.dot(rounded(jnp.exp(x)).T, y, precision=HIGHEST)

    x, y = (jnp.asarray(normal(128, 128, seed=seed), jnp.bfloat16) for seed in (1, 2))
    kernel = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((128, 128), jnp.float32))
    said = judges.numbers_judge(kernel, product, x, y)
    assert (
        said.passed is False and "rounds values to bfloat16, which has 8 bits, and then multiplies them" in said.message
    ), said.message
    meant = partial(product, rounded=partial(lax.reduce_precision, exponent_bits=8, mantissa_bits=7))
    assert judges.numbers_judge(kernel, meant, x, y).passed


def three_percent_more(q, k, v):
    return streaming(q, k, v) * 1.03


def of_other_queries(q, k, v):
    return streaming(jnp.roll(q, 1, axis=2), k, v)


@pytest.mark.parametrize("fn", daily(of_other_queries, of=[three_percent_more, of_other_queries]))
def test_what_is_wrong_in_another_way_is_no_slip(fn):
    said = judges.numbers_judge(fn, by_hand, *ARGS)
    assert said.passed is False and "known slip" not in said.message, said.message


SCORES = jnp.asarray(normal(2, 5, 40, seed=4) * 3)
BLOCK = 16  # the last of three is ragged


def test_the_recurrence_is_a_softmax():
    np.testing.assert_allclose(online_softmax.weights(SCORES, BLOCK, Recurrence()), jax.nn.softmax(SCORES), rtol=1e-5)


def test_each_slip_of_the_recurrence_is_another_one():
    """And none is harmless: on random scores all differ from the softmax, and from each other."""
    slips = online_softmax.slips(BLOCK, 3, depth=64)
    hows = [how for how, *_ in slips if not how.sum_late]  # that one leaves 0 for the sum of the first block
    values = [online_softmax.weights(SCORES, BLOCK, how) for how in (Recurrence(), *hows)]
    assert len(set(hows)) == len(hows) > 20
    for n, one in enumerate(values):
        assert np.isfinite(one).all()
        assert all(float(jnp.abs(one - other).max() / jnp.abs(one).max()) > 1e-3 for other in values[:n]), hows[n - 1]


@pytest.mark.parametrize("reference", [*REFERENCES.values(), zoo.attention])
def test_scores_mask_and_depth_are_found_in_a_reference(reference):
    args = ARGS if reference is not zoo.attention else tuple(x[0] for x in ARGS)
    found = reference_softmax.find(reference, args)
    assert found.depth == 24 and found.axis == -1
    counts = reference_softmax.mask_of(found, args)
    np.testing.assert_array_equal(counts.reshape(-1, 96, 96)[0], np.tril(np.ones((96, 96), bool)))
    unchanged = reference_softmax.outputs_with(found, args, jax.nn.softmax)[0]
    np.testing.assert_allclose(unchanged, reference(*args), atol=1e-5)


def test_in_a_reference_without_exponentials_nothing_is_found():
    assert reference_softmax.find(lambda x: jnp.exp(x) + x.sum(), (jnp.ones((4, 4)),)) is None
    assert reference_softmax.find(lambda x: jnp.tanh(x).sum(-1), (jnp.ones((4, 4)),)) is None


def test_a_length_is_told_from_a_diagonal():
    counts = np.broadcast_to(np.arange(40) < 21, (3, 40))
    means = [means for means, *_ in mask_slips._masks(counts, {16})]
    assert any("left out if it is not full" in one for one in means)
    assert not any("own position" in one for one in means)


def attention_with(backward):
    """Attention whose way back is a kernel of one step: ``backward(p, dp, delta)`` is ds."""
    op = jax.custom_vjp(by_hand)

    def back(saved, g):
        q, k, v = saved
        o = by_hand(q, k, v)

        def whole(q_ref, k_ref, v_ref, g_ref, delta_ref, dq_ref, dk_ref, dv_ref):
            scale = q_ref.shape[-1] ** -0.5
            s = jnp.dot(q_ref[...], k_ref[...].T, precision=HIGHEST) * scale
            row, column = (lax.broadcasted_iota(jnp.int32, s.shape, axis) for axis in (0, 1))
            p = jax.nn.softmax(jnp.where(column <= row, s, -1e30))
            ds = backward(p, jnp.dot(g_ref[...], v_ref[...].T, precision=HIGHEST), delta_ref[...])
            dq_ref[...] = jnp.dot(ds, k_ref[...], precision=HIGHEST) * scale
            dk_ref[...] = jnp.dot(ds.T, q_ref[...], precision=HIGHEST) * scale
            dv_ref[...] = jnp.dot(p.T, g_ref[...], precision=HIGHEST)

        def spec(x):
            return pl.BlockSpec((None, None, *x.shape[2:]), lambda b, h: (b, h, 0, 0))

        args = (q, k, v, g, (g * o).sum(-1, keepdims=True))
        call = pl.pallas_call(
            whole, out_shape=(q, k, v), grid=q.shape[:2], in_specs=[*map(spec, args)], out_specs=[*map(spec, (q, k, v))]
        )
        return tuple(call(*args))

    op.defvjp(lambda *args: (by_hand(*args), args), back)
    return op


BACKWARDS = {
    "": lambda p, dp, delta: p * (dp - delta),
    "delta is left out of dq": lambda p, dp, delta: p * dp,
    "delta is added in dq": lambda p, dp, delta: p * (dp + delta),
    "dq is not multiplied by the scale, 1 / sqrt(24)": lambda p, dp, delta: p * (dp - delta) * 24**0.5,
}


# Every day the right one; the zoo has a wrong one, without its delta.
@pytest.mark.parametrize(
    "reference, says",
    daily(
        ("jax.nn", ""),
        of=[(reference, says) for reference in REFERENCES for says in BACKWARDS],
    ),
)
def test_slips_of_the_gradient_too(reference, says):
    said = judges.judge_gradient(attention_with(BACKWARDS[says]), REFERENCES[reference], *ARGS, judges=("numbers",))[-1]
    assert said.passed is not bool(says) and says in said.message, said.message


def scaled_sum(x, begins=lambda i: i == 0):
    """Twice the sum of four blocks of rows, in scratch that a jnp.where sets to zero; three times is asked for."""

    def kernel(x_ref, o_ref, acc_ref):
        i = pl.program_id(0)
        acc_ref[...] = jnp.where(begins(i), 0.0, acc_ref[...]) + x_ref[...]
        o_ref[...] = acc_ref[...] * 2

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype),
        grid=(4,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)),
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
    )(x)


@pytest.mark.parametrize("begins, blamed", [(lambda i: i == 0, False), (lambda i: i == 4, True)])
def test_garbage_that_a_choice_keeps_out_is_not_to_blame(begins, blamed):
    x = normal(32, 128) + 5
    said = judges.numbers_judge(partial(scaled_sum, begins=begins), lambda x: 3 * x.reshape(4, 8, 128).sum(0), x)
    assert said.passed is False and ("read before anything has been written" in said.message) is blamed, said.message
