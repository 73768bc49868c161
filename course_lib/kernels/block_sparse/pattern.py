"""Where the blocks of a block-sparse matrix lie.

A matrix (M, K) is cut into blocks (h, w): R = M / h rows and C = K / w columns of blocks. Z of them are kept: their
elements are ``values`` of shape (Z, h, w), and a ``Pattern`` says where each lies. The two are apart because values are
learned, and places are not: a gradient has the shape of ``values``.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from course_lib.arrays import Array, Int32, Num


@functools.partial(jax.tree_util.register_dataclass, data_fields=("rows", "cols"), meta_fields=("shape",))
@dataclasses.dataclass(frozen=True, eq=False)
class Pattern:
    """Block z lies in row ``rows[z]`` and column ``cols[z]`` of blocks; there are ``shape`` of these: (R, C).

    Blocks come in any order, and those at one place are added. An entry outside of ``shape`` is surplus and ignored, so
    a list may be longer than there are blocks, with ``rows`` filled up with R.
    """

    rows: Int32[Array, " Z"]
    cols: Int32[Array, " Z"]
    shape: tuple[int, int]

    @property
    def T(self) -> "Pattern":  # noqa: N802  as of an array
        """The pattern of the transposed matrix."""
        return Pattern(self.cols, self.rows, self.shape[::-1])


def counted(rows: Int32[Array, "*z"], cols: Int32[Array, "*z"], shape: tuple[int, int]) -> tuple[Array, Array]:
    """Return rows and columns with every surplus entry in row R and column 0, wherever outside it was."""
    inside = (rows >= 0) & (rows < shape[0]) & (cols >= 0) & (cols < shape[1])
    return jnp.where(inside, rows, shape[0]), jnp.where(inside, cols, 0)


def in_blocks(x: Num[Array, "M K"], shape: tuple[int, int]) -> Num[Array, "R C h w"]:
    """Return a matrix as so many rows and columns of blocks."""
    (rows, cols), (m, k) = shape, x.shape
    return x.reshape(rows, m // rows, cols, k // cols).swapaxes(1, 2)


def dense_of(values: Num[Array, "Z h w"], pattern: Pattern) -> Num[Array, "M K"]:
    """Return the whole matrix, with zeros where there is no block."""
    (rows, cols), (_, h, w) = pattern.shape, values.shape
    at = counted(pattern.rows, pattern.cols, pattern.shape)
    blocks = jnp.zeros((rows, cols, h, w), values.dtype).at[at].add(values, mode="drop")
    return blocks.swapaxes(1, 2).reshape(rows * h, cols * w)
