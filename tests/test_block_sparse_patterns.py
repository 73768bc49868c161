"""Patterns of blocks: made from masks and from matrices, and what a call that does not fit is told."""

import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from course_lib.kernels import block_sparse
from course_lib.kernels.block_sparse import Pattern

MASK = np.array([[0, 1, 0], [0, 0, 0], [1, 0, 1], [0, 0, 0]], bool)


def places(pattern):
    return list(zip(pattern.rows.tolist(), pattern.cols.tolist(), strict=True))


def test_a_mask_is_gone_through_row_by_row():
    pattern = block_sparse.from_mask(MASK)
    assert places(pattern) == [(0, 1), (2, 0), (2, 2)]
    assert (pattern.shape, pattern.rows.dtype, pattern.cols.dtype) == ((4, 3), jnp.int32, jnp.int32)
    assert places(pattern.T) == [(1, 0), (0, 2), (2, 2)] and pattern.T.shape == (3, 4)


def test_a_longer_list_ends_in_surplus_and_so_it_does_under_jit():
    for pattern in (
        block_sparse.from_mask(MASK, size=5),
        jax.jit(lambda mask: block_sparse.from_mask(mask, size=5))(MASK),
    ):
        assert places(pattern) == [(0, 1), (2, 0), (2, 2), (4, 0), (4, 0)]
        dense = block_sparse.to_dense(jnp.ones((5, 2, 2)), pattern)
        np.testing.assert_array_equal(dense, np.kron(MASK, np.ones((2, 2))))


def test_there_and_back():
    x = np.kron(MASK, np.ones((2, 5))) * np.arange(1.0, 121).reshape(8, 15)
    values, pattern = block_sparse.from_dense(jnp.asarray(x, jnp.float32), (2, 5))
    assert values.shape == (3, 2, 5) and places(pattern) == places(block_sparse.from_mask(MASK))
    np.testing.assert_array_equal(block_sparse.to_dense(values, pattern), x)


def test_blocks_at_one_place_are_added_and_those_outside_are_dropped():
    pattern = Pattern(jnp.int32([0, 0, -1, 0, 9]), jnp.int32([1, 1, 0, 2, 0]), (1, 2))
    dense = block_sparse.to_dense(jnp.arange(5.0)[:, None, None] * jnp.ones((2, 2)), pattern)
    np.testing.assert_array_equal(dense, [[0, 0, 1, 1]] * 2)


def test_another_pattern_of_as_many_blocks_is_the_same_program():
    @jax.jit
    def run(values, pattern, b):
        return block_sparse.dsd(values, pattern, b)

    values, b = jnp.ones((3, 8, 8)), jnp.ones((24, 8))
    for mask in (MASK, MASK[::-1]):
        run(values, block_sparse.from_mask(mask), b)
    assert run._cache_size() == 1


def test_a_pattern_without_blocks_is_a_matrix_of_zeros():
    pattern = block_sparse.from_mask(np.zeros((2, 3)))
    o, pull = jax.vjp(lambda b: block_sparse.dsd(jnp.ones((0, 8, 8)), pattern, b), jnp.ones((24, 5)))
    assert o.shape == (16, 5) and not o.any() and not pull(o)[0].any()
    assert block_sparse.sdd(jnp.ones((16, 8)), jnp.ones((8, 24)), pattern).shape == (0, 8, 8)


def test_the_example_of_the_page_runs():
    page = (pathlib.Path(__file__).parent.parent / "docs/kernels.md").read_text()
    (code,) = re.findall(r"```python\n([^`]*block_sparse.dsd[^`]*)```", page)
    names = {"jnp": jnp}
    exec(compile(code, "docs/kernels.md", "exec"), names)
    assert names["values"].shape == (36, 128, 128) and names["o"].shape == (1024, 64)
    causal = jnp.tril(jnp.ones((1024, 1024)).reshape(8, 128, 8, 128).max((1, 3))).repeat(128, 0).repeat(128, 1)
    np.testing.assert_allclose(names["o"], causal * 64 @ names["b"])


ONE = block_sparse.from_mask(MASK)
V, B, A, Y = jnp.ones((3, 8, 16)), jnp.ones((48, 20)), jnp.ones((32, 20)), jnp.ones((20, 48))
WRONG = {
    "no pattern": (
        lambda: block_sparse.dsd(V, MASK, B),
        "dsd: pattern is an array, bool of shape (4, 3); it must be a block_sparse.Pattern. Try block_sparse.from_mask",
    ),
    "places are floats": (
        lambda: block_sparse.dsd(V, Pattern(jnp.ones(3), ONE.cols, (4, 3)), B),
        "dsd: pattern.rows is float32; it may be int32. Try pattern.rows.astype(jnp.int32).",
    ),
    "a list of places": (
        lambda: block_sparse.sdd(A, Y, Pattern([0, 1, 2], ONE.cols, (4, 3))),
        "sdd: pattern.rows is of type list; it must be an array. Try jnp.asarray(pattern.rows, jnp.int32).",
    ),
    "unlike lists": (
        lambda: block_sparse.sdd(A, Y, Pattern(ONE.rows[1:], ONE.cols, (4, 3))),
        "sdd: pattern.rows has shape (2,) and pattern.cols (3,); each must have one axis",
    ),
    "a shape of numbers": (
        lambda: block_sparse.dsd(V, Pattern(ONE.rows, ONE.cols, 4), B),
        "dsd: pattern.shape is 4; it must be (R, C), how many rows and columns of blocks there are.",
    ),
    "dtypes": (
        lambda: block_sparse.dsd(V, ONE, B.astype("bfloat16")),
        "dsd: values is float32 and b bfloat16; both must be float32 or both bfloat16. Try b.astype.",
    ),
    "too few values": (
        lambda: block_sparse.dsd(V[1:], ONE, B),
        "dsd: values has shape (2, 8, 16), b (48, 20) and pattern 3 entries; values must be (Z, h, w)",
    ),
    "transposed": (
        lambda: block_sparse.dsd(V, ONE, B, transpose_a=True),
        "b has shape (48, 20); for blocks of (8, 16) and a pattern of (4, 3) it must have 32 rows, one for each of A's "
        "rows. Try transpose_a=False",
    ),
    "b transposed": (
        lambda: block_sparse.sdd(A, Y.T, ONE),
        "sdd: a has shape (32, 20) and b (48, 20); they must be (M, K) and (K, N), with one K. Is b stored the other "
        "way round? Then try transpose_b=True.",
    ),
    "blocks that do not divide": (
        lambda: block_sparse.sdd(A[1:], Y, ONE),
        "sdd: the product has shape (31, 48), and pattern.shape is (4, 3), rows and columns of blocks; these must be 1",
    ),
    "a mask of numbers": (lambda: block_sparse.from_mask(MASK[0]), "from_mask: mask is an array, bool of shape (3,)"),
    "a mask that nobody knows": (
        lambda: jax.jit(block_sparse.from_mask)(MASK),
        "from_mask: under jax.jit nobody knows how many blocks mask keeps, and a list has a length. Try size=...",
    ),
    "too short": (
        lambda: block_sparse.from_mask(MASK, size=2),
        "from_mask: size is 2, and mask keeps 3 blocks; it may be that or more. Try size=None.",
    ),
    "a length of three and a half": (
        lambda: block_sparse.from_mask(MASK, size=3.5),
        "from_mask: size is 3.5; it may be a",
    ),
    "a length below zero": (
        lambda: jax.jit(lambda m: block_sparse.from_mask(m, size=-1))(MASK),
        "from_mask: size is -1; it may be a whole number, 0 or more, or None. Try None.",
    ),
    "a length of True": (lambda: block_sparse.from_mask(MASK, size=True), "from_mask: size is True; it may be a whole"),
    "a mask of text": (lambda: block_sparse.from_mask([["a", "b"]]), "from_mask: mask is [['a', 'b']]; it must be an"),
    "a ragged mask": (lambda: block_sparse.from_mask([[1, 0], [1]]), "from_mask: mask is [[1, 0], [1]]; it must be an"),
    "rows below zero": (
        lambda: block_sparse.dsd(V, Pattern(ONE.rows, ONE.cols, (-4, 3)), B),
        "dsd: pattern.shape is (-4, 3); it must be (R, C), how many rows and columns of blocks there are.",
    ),
    "one size for a block": (lambda: block_sparse.from_dense(A, 8), "from_dense: block is 8; it must be (h, w), how"),
    "no rows in a block": (
        lambda: block_sparse.from_dense(A, (0, 8)),
        "from_dense: block is (0, 8); it must be (h, w)",
    ),
    "half a row in a block": (
        lambda: block_sparse.from_dense(A, (8.0, 4)),
        "from_dense: block is (8.0, 4); it must be",
    ),
    "a dense one that nobody knows": (
        lambda: jax.jit(lambda x: block_sparse.from_dense(x, (8, 4)))(A),
        "from_dense: under jax.jit nobody knows which blocks of x are zero, and how many others there are.",
    ),
    "a list of values": (
        lambda: block_sparse.to_dense([1.0], ONE),
        "to_dense: values is of type list; it must be an array. Try jnp.asarray(values, jnp.float32).",
    ),
    "one value too few": (
        lambda: block_sparse.to_dense(V[1:], ONE),
        "to_dense: values has shape (2, 8, 16), and pattern 3 entries; values must be (3, h, w). Try",
    ),
    "values without a pattern": (lambda: block_sparse.to_dense(V, None), "to_dense: pattern is None; it must be a"),
    "a matrix of nothing": (
        lambda: block_sparse.from_dense(A[:0], (8, 4)),
        "from_dense: x has shape (0, 20), and block is (8, 4)",
    ),
    "a matrix that blocks do not divide": (
        lambda: block_sparse.from_dense(A, (8, 16)),
        "from_dense: x has shape (32, 20), and block is (8, 16); x must be a matrix which such blocks divide, one",
    ),
    "blocks of a step": (
        lambda: block_sparse.Blocks(bk=100),
        "Blocks(bk=100, bn=512) is not legal: each must be a multiple, bk of 128, bn of 128. Nearest legal: bk=128",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_by_name(name):
    call, says = WRONG[name]
    with pytest.raises((TypeError, ValueError)) as error:
        call()
    assert says in str(error.value)
