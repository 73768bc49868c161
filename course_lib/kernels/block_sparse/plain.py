"""Block-sparse products in plain JAX, for platforms without a kernel: gather the rows of blocks that meet, multiply."""

import jax.numpy as jnp

from course_lib.kernels.block_sparse.pattern import Pattern, counted


def plain_dsd(values, pattern: Pattern, b, *, transpose_a=False, transpose_b=False, transpose_o=False, precision):
    """Return ``A @ b``, or ``A.T @ b``, for b (K, N), or (N, K): (M, N), or (N, M)."""
    pattern, b = pattern.T if transpose_a else pattern, b.T if transpose_b else b
    (rows, cols), (row, col) = pattern.shape, counted(pattern.rows, pattern.cols, pattern.shape)
    meet = b.reshape(cols, b.shape[0] // cols, b.shape[1])[col]
    product = "zkm,zkn->zmn" if transpose_a else "zmk,zkn->zmn"
    found = jnp.einsum(product, values, meet, precision=precision, preferred_element_type=jnp.float32)
    o = jnp.zeros((rows, *found.shape[1:]), jnp.float32).at[row].add(found, mode="drop")
    o = o.reshape(rows * found.shape[1], b.shape[1]).astype(b.dtype)
    return o.T if transpose_o else o


def plain_sdd(a, b, pattern: Pattern, *, transpose_b=False, precision):
    """Return the blocks (Z, h, w) of ``a @ b`` that ``pattern`` keeps, for b (K, N), or (N, K)."""
    (m, k), n, (rows, cols) = a.shape, b.shape[0 if transpose_b else 1], pattern.shape
    row, col = counted(pattern.rows, pattern.cols, pattern.shape)
    left = a.reshape(rows, m // rows, k).at[row].get(mode="fill", fill_value=0)
    if transpose_b:
        right, product = b.reshape(cols, n // cols, k)[col], "zmk,znk->zmn"
    else:
        right, product = b.reshape(k, cols, n // cols)[:, col], "zmk,kzn->zmn"
    found = jnp.einsum(product, left, right, precision=precision, preferred_element_type=jnp.float32)
    return jnp.where((row < rows)[:, None, None], found, 0).astype(a.dtype)  # 0 * NaN
