"""Float32 matmuls: the answer owes the precision of its reference, in every lesson."""

import jax.numpy as jnp
import pytest

from course_lib import judges
from course_lib.checks import one_pass

SQUARE = jnp.ones((128, 128))


def product(precision):
    return lambda x: jnp.dot(x, x, precision=precision)


@pytest.mark.parametrize(
    ("asked", "of_reference", "refused"),
    [
        (None, "highest", True),
        ("default", "highest", True),
        ("highest", "highest", False),
        (None, None, False),
        ("highest", None, False),
    ],
)
def test_a_matmul_that_a_chip_would_round_is_refused_unless_the_reference_is_rounded_too(asked, of_reference, refused):
    said = one_pass.complaint(judges.Trial(product(asked), product(of_reference), (SQUARE,)))
    assert bool(said) == refused
    if said:
        assert "float32 operands and no precision" in said[0] and 'precision="highest"' in said[1]


def test_sums_by_a_matmul_are_refused_and_bfloat16_is_not():
    def sums(x):
        return jnp.dot(x, jnp.ones((128, 128), x.dtype))

    def right(x):
        return jnp.broadcast_to(x.sum(1, keepdims=True), x.shape)

    assert one_pass.complaint(judges.Trial(sums, right, (SQUARE,)))
    assert one_pass.complaint(judges.Trial(sums, right, (SQUARE.astype(jnp.bfloat16),))) is None
