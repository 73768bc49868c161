"""Slips in one operation of the reference, and patterns that only regular arguments show."""

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from sweeps import daily

from course_lib import judges


def rms(x, weight):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + 1e-6) * weight


def said_of(body, reference, *args):
    """Return what the numbers judge says of a kernel with one block of each argument."""

    def fn(*args):
        def kernel(*refs):
            refs[-1][...] = body(*(ref[...] for ref in refs[:-1]))

        shape = jax.eval_shape(reference, *args)
        return pl.pallas_call(kernel, out_shape=shape)(*args)

    verdict = judges.numbers_judge(fn, reference, *args)
    return "" if verdict.passed else " ".join(str(verdict).split())


X = jnp.arange(32 * 128, dtype=jnp.float32).reshape(32, 128) / 100 + 1
W = jnp.linspace(1, 3, 128, dtype=jnp.float32).reshape(1, 128)


ANOTHER = {
    "the factor weight is left out": lambda x, w: rms(x, 1.0),
    "the factor weight is used twice": lambda x, w: rms(x, w * w),
    "divided by weight, but should be multiplied": lambda x, w: rms(x, 1 / w),
    "is not divided by the number of its terms": lambda x, w: (
        x * jax.lax.rsqrt(jnp.sum(x * x, 1, keepdims=True) + 1e-6) * w
    ),
    "taken along axis 0, and should": lambda x, w: x * jax.lax.rsqrt(jnp.mean(x * x, 0, keepdims=True) + 1e-6) * w,
    "taken over all axes, but should": lambda x, w: x * jax.lax.rsqrt(jnp.mean(x * x) + 1e-6) * w,
    "this is the variance of x": lambda x, w: x * jax.lax.rsqrt(jnp.var(x, 1, keepdims=True) + 1e-6) * w,
    "the mean of x is subtracted first": lambda x, w: rms(x - jnp.mean(x, 1, keepdims=True), w),
}
# Every day one of a factor, of a divisor, of axes, and of what is put in another's place.
DAILY = (
    "divided by weight, but should be multiplied",
    "is not divided by the number of its terms",
    "taken over all axes, but should",
    "this is the variance of x",
)


@pytest.mark.parametrize("says", daily(*DAILY, of=ANOTHER))
def test_an_operation_that_is_another(says):
    assert says in said_of(ANOTHER[says], rms, X, W)


def test_nothing_is_said_of_a_right_kernel_or_of_another_slip():
    assert said_of(rms, rms, X, W) == ""
    assert "known slip" not in said_of(lambda x, w: rms(x, w) + 0.1 * jnp.cos(x), rms, X, W)


def test_what_regular_arguments_show_by_chance_is_not_said():
    """In X the first column is each row's mean less a constant; in shuffled arguments it is not."""

    def centred(x):
        return x - jnp.mean(x, axis=1, keepdims=True)

    said = said_of(lambda x: x - x[:, :1], centred, X)
    assert "too large by" not in said and "should depend on x[:, 1:128]" in said


def test_integers_show_a_wrong_index_map():
    q = (jnp.arange(128 * 256) % 101).astype(jnp.int8).reshape(128, 256)

    def fn(q):
        def kernel(q_ref, o_ref):
            o_ref[...] = q_ref[...].astype(jnp.float32) * 2

        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct(q.shape, jnp.float32),
            grid=(2,),
            in_specs=[pl.BlockSpec((128, 128), lambda i: (0, 0))],
            out_specs=pl.BlockSpec((128, 128), lambda i: (0, i)),
        )(q)

    said = str(judges.numbers_judge(fn, lambda q: q.astype(jnp.float32) * 2, q))
    assert "q_ref holds block (0, 0)" in said and "needs block (0, 1)" in " ".join(said.split())


def test_a_block_in_another_place():
    def fn(x):
        def kernel(x_ref, o_ref):
            o_ref[...] = x_ref[...] + 1

        return pl.pallas_call(
            kernel,
            out_shape=x,
            grid=(2, 2),
            in_specs=[pl.BlockSpec((16, 128), lambda i, j: (j, i))],
            out_specs=pl.BlockSpec((16, 128), lambda i, j: (i, j)),
        )(x)

    x = jax.random.normal(jax.random.key(0), (32, 256))
    assert "x_ref holds block (1, 0)" in " ".join(str(judges.numbers_judge(fn, lambda x: x + 1, x)).split())


def norm(s):
    return s / jnp.sqrt(jnp.mean(s * s, keepdims=True))


@pytest.mark.parametrize(
    "of, total, difference, says",
    [
        (norm, lambda x, y: x + x, lambda x, y: x - x, "x is read where y should be"),  # for both outputs
        (jnp.sin, lambda x, y: x + x, lambda x, y: x - y, "x is read where y should be"),  # at one of two places
        (norm, lambda x, y: x, lambda x, y: x - y, "the term y is left out"),  # a norm of x is one of x + x
    ],
)
def test_a_slip_of_arguments_is_weighed_against_the_other_output(of, total, difference, says):
    def fn(x, y):
        def kernel(x_ref, y_ref, o_ref, d_ref):
            o_ref[...] = of(total(x_ref[...], y_ref[...]))
            d_ref[...] = difference(x_ref[...], y_ref[...])

        return pl.pallas_call(kernel, out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype)] * 2)(x, y)

    x, y = (jax.random.normal(jax.random.key(n), (8, 128)) for n in range(2))
    said = judges.numbers_judge(fn, lambda x, y: (of(x + y), x - y), x, y)
    assert said.passed is False and says in said.message, str(said)


def standardized(x):
    away = x - jnp.mean(x, axis=1, keepdims=True)
    return away * jax.lax.rsqrt(jnp.mean(away * away, axis=1, keepdims=True) + 1e-6)


def kept(x):
    return jnp.where(x > 1, 2 * x, 0)


NORMAL = jax.random.normal(jax.random.key(3), (32, 128))
ELEMENTWISE = {
    "x is squared, but should be doubled": (lambda x: x * x, lambda x: 2 * x),
    "the absolute value of x is used instead of its square": (jnp.abs, lambda x: x * x),
    "this is sin(x) to the power of 2, but `sin` should be applied 2 times": (
        lambda x: jnp.sin(x) ** 2,
        lambda x: jnp.sin(jnp.sin(x)),
    ),
    "2 * x is taken everywhere, but should be taken only where x > 1": (lambda x: 2 * x, kept),
    "2 * x is taken where x > 1 does not hold, but should be taken where it does": (
        lambda x: jnp.where(x > 1, 0, 2 * x),
        kept,
    ),
    "in one use of x - mean(x) mean(x) is not subtracted from x": (
        lambda x: x * jax.lax.rsqrt(jnp.var(x, axis=1, keepdims=True) + 1e-6),
        standardized,
    ),
    "the absolute value of x is taken, but max(x) uses x itself": (
        lambda x: jnp.max(jnp.abs(x), axis=1, keepdims=True),
        lambda x: jnp.max(x, axis=1, keepdims=True),
    ),
    "is upside down: sum(x) is divided by mean(x)": (
        lambda x: jnp.full((32, 1), 128.0) / 1,
        lambda x: jnp.mean(x, axis=1, keepdims=True) / jnp.sum(x, axis=1, keepdims=True),
    ),
}


@pytest.mark.parametrize("says", daily(*list(ELEMENTWISE)[::2], of=ELEMENTWISE))
def test_an_element_that_is_another(says):
    wrong, reference = ELEMENTWISE[says]
    assert says in said_of(wrong, reference, NORMAL)


@pytest.mark.parametrize(
    "wrong, reference",
    [
        (lambda x: jnp.sin(x) ** 3, lambda x: jnp.sin(jnp.sin(x))),
        (lambda x: x * x + x, lambda x: 2 * x),
        (lambda x: jnp.where(x > 2, 2 * x, 0), kept),
        (lambda x: jnp.max(x, axis=1, keepdims=True) + 1, lambda x: jnp.max(x, axis=1, keepdims=True)),
    ],
)
def test_of_another_element_nothing_is_said(wrong, reference):
    assert said_of(reference, reference, NORMAL) == ""
    assert "known slip" not in said_of(wrong, reference, NORMAL)


def in_blocks(of_block, put_together):
    """Reduce the rows of x in blocks of 8: ``put_together(o, of_block(x))``, beginning with 0."""

    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def begin():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] = put_together(o_ref[...], of_block(x_ref[...], axis=0, keepdims=True))

    return lambda x: pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((1, 128), x.dtype),
        grid=(x.shape[0] // 8,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((1, 128), lambda i: (0, 0)),
    )(x)


@pytest.mark.parametrize(
    "of_block, put_together, of_all, says",
    [
        (jnp.max, jnp.add, jnp.sum, "only the largest x of each block of 8 counts, not the sum"),
        (jnp.max, jnp.add, jnp.max, "the largest x of each block of 8 are added"),
        (jnp.sum, jnp.maximum, jnp.sum, "only the block of 8 with the largest sum of x counts"),
        (jnp.sum, jnp.add, jnp.sum, ""),
        (jnp.min, jnp.add, jnp.sum, ""),  # wrong, and none of these
    ],
)
def test_blocks_that_are_put_together_in_another_way(of_block, put_together, of_all, says):
    x = jnp.abs(NORMAL) + 1
    said = str(judges.numbers_judge(in_blocks(of_block, put_together), lambda x: of_all(x, axis=0, keepdims=True), x))
    assert says in " ".join(said.split()) and (says or "of each block" not in said)


PARTS = {
    "the first value of w is used for all of them": lambda x, w: x * w[:, :1],
    "the first value of w of each block of 128 is used": lambda x, w: x * jnp.repeat(w[:, ::128], 128, axis=1),
    "the first block of 128 along axis 1 of x is used in place of every other block": lambda x, w: (
        jnp.concatenate([x[:, :128]] * 2, axis=1) * w
    ),
}


@pytest.mark.parametrize("says", PARTS)
def test_a_part_of_an_argument_for_all_of_it(says):
    x, w = (jax.random.normal(jax.random.key(n), (rows, 256)) for n, rows in ((1, 8), (2, 1)))

    def reference(x, w):
        return jnp.dot(x[:, :128], x[:, :128].T, precision="highest") * 0 @ x[:, :1] * 0 + x * w

    def blocks(of):  # a matmul, so that 128 is the length of a block
        return lambda x, w: of(x, w) + 0 * jnp.dot(x[:, :128], x[:, :128].T, precision="highest")[:, :1]

    assert said_of(blocks(lambda x, w: x * w), reference, x, w) == ""
    assert says in said_of(blocks(PARTS[says]), reference, x, w)
    assert "is used" not in said_of(blocks(lambda x, w: x * w[:, 1:2]), reference, x, w)  # another number


@pytest.mark.parametrize("by, says", [(1, "n is taken for one more than it is"), (-1, "one less"), (0, ""), (2, "")])
def test_a_count_that_is_one_off(by, says):
    def first(x, n):
        return jnp.where(jax.lax.broadcasted_iota(jnp.int32, x.shape, 1) < n, x, 0)

    n = jnp.arange(32, dtype=jnp.int32).reshape(32, 1) + 50
    said = said_of(lambda x, n: first(x, n + by), first, NORMAL, n)
    assert says in said and (by == 0) is (said == "") and (says or "one more" not in said)


def test_a_running_sum_by_distances_that_do_not_double():
    def by(distances):
        def value(x):
            for distance in distances:
                x = x + jnp.where(
                    jax.lax.broadcasted_iota(jnp.int32, x.shape, 0) >= distance, jnp.roll(x, distance, 0), 0
                )
            return x

        return value

    def running(x):
        return jnp.cumsum(x, axis=0)

    assert said_of(by((1, 2, 4, 8, 16)), running, NORMAL) == ""
    assert "at distances 1, 2, 3, 4, 5 are added" in said_of(by((1, 2, 3, 4, 5)), running, NORMAL)
    assert "distances" not in said_of(by((1, 2, 4, 8)), running, NORMAL)
