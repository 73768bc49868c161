"""The rule about sizes that are written in: it says what it has tried, and nothing of numbers that are none."""

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from sweeps import daily

from course_lib import judges

X = jax.random.normal(jax.random.key(0), (24, 300))


def centred(mean):
    """x minus ``mean(x)``, a kernel in one block."""

    def kernel(x_ref, o_ref):
        x = x_ref[...]
        o_ref[...] = x - mean(x)

    return lambda x: pl.pallas_call(kernel, out_shape=x)(x)


def row_means(x):
    return jnp.mean(x, axis=1, keepdims=True)


def said(mean, reference=lambda x: x - row_means(x), x=X):
    (verdict,) = judges.judge(centred(mean), reference, x)
    return verdict


@pytest.mark.parametrize(
    "mean",
    [lambda x: jnp.sum(x, axis=1, keepdims=True) / 256, lambda x: jnp.sum(x, axis=1, keepdims=True) * (1 / 256)],
    ids=["over", "times"],
)
def test_a_size_that_is_written_in_is_found_by_trying(mean):
    verdict = said(mean)
    assert (
        "256 is hard-coded in the kernel. With 300 in its place, the length of axis 1 of x here, the whole output"
        in str(verdict).replace("\n", " ")
    )
    assert verdict.next.startswith("take a length from the ref, x_ref.shape[axis]")


def test_the_number_of_turns_may_be_a_size_too():
    def mean(x):
        of_columns = [x[:, n * 100 : (n + 1) * 100] for n in range(3)]
        return sum(jnp.sum(part, axis=1, keepdims=True) for part in of_columns) / 128

    assert "128 is hard-coded in the kernel. With 300 in its place" in said(mean).message.replace("\n", " ")


OTHER_NUMBERS = {
    "added": lambda x: jnp.sum(x, axis=1, keepdims=True) / 300 + 16,  # its size is right, and something else is wrong
    "both": lambda x: jnp.sum(x, axis=1, keepdims=True) / 150 - 64,
    "scaled": lambda x: 64 * row_means(x),  # no size makes it right
    "small": lambda x: jnp.sum(x, axis=1, keepdims=True) / 3,  # too small to be taken for a size
    "maximum": lambda x: jnp.max(x, axis=1, keepdims=True),
}


@pytest.mark.parametrize("name", daily("added", "scaled", "small", of=OTHER_NUMBERS))
def test_nothing_is_said_of_other_numbers(name):
    verdict = said(OTHER_NUMBERS[name])
    assert verdict.passed is False and "hard-coded" not in verdict.message


def test_a_right_kernel_may_have_its_size_written_in():
    """Nobody is refused for it: it is right for these arguments, and others will show."""
    verdicts = judges.judge(centred(lambda x: jnp.sum(x, axis=1, keepdims=True) / 300), lambda x: x - row_means(x), X)
    assert all(verdict.passed is not False for verdict in verdicts)


def test_many_numbers_are_not_tried():
    """Each try is a kernel that is compiled anew: with too many the rule is silent."""
    numbers = range(20, 40)
    verdict = said(lambda x: jnp.sum(x, axis=1, keepdims=True) / 256 + sum(jnp.sin(x[:, :1] * n) * 0 for n in numbers))
    assert verdict.passed is False and "hard-coded" not in verdict.message


@pytest.mark.parametrize(
    "third, says",
    [
        (lambda s: s * 43691 >> 18, "one bit too far: with a shift by 17 instead of 18"),
        (lambda s: s * 43691 >> 16, "one bit too little: with a shift by 17 instead of 16"),
        (lambda s: s * 43691 >> 17, ""),
        (lambda s: s * 43000 >> 17, ""),  # it is the factor that is wrong
        (lambda s: s * 43691 >> 20, ""),  # three bits
    ],
)
def test_a_shift_of_one_bit_more_or_less(third, says):
    s = jnp.arange(8 * 128, dtype=jnp.int32).reshape(8, 128) * 7
    verdict = judges.numbers_judge(in_one_block(third), lambda s: s // 3, s)
    assert says in " ".join(verdict.message.split()) and (says or "shifted" not in verdict.message)


def in_one_block(of):
    def kernel(s_ref, o_ref):
        o_ref[...] = of(s_ref[...])

    return lambda s: pl.pallas_call(kernel, out_shape=s)(s)


def test_a_length_that_any_number_may_stand_for_is_not_the_cause():
    """The mask hides the last column; with blocks counted from nearly anywhere it would hide none."""

    def fn(x):
        def kernel(x_ref, o_ref):
            column = 128 * pl.program_id(0) + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
            o_ref[...] = jnp.where(column < 255, x_ref[...], 0)

        block = pl.BlockSpec((8, 128), lambda j: (0, j))
        return pl.pallas_call(kernel, out_shape=x, grid=(2,), in_specs=[block], out_specs=block)(x)

    verdict = judges.numbers_judge(fn, lambda x: x, jnp.ones((8, 256)))
    assert verdict.passed is False and "128 is hard-coded" not in verdict.message
